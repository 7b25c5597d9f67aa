"""A store as years of sweeps leave it, and how long it takes to answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from optest.store import Store, encode, schema, url
from optest.store.catalogue import Catalogue
from optest.store.database import Database
from optest.store.migrate import bring_up
from optest.store.records import Place, Planned, Result, RunFacts

CASES = 20_000  # of a run
MEASURES = 10  # of a case
AT_A_TIME = 2_000
HERE = Place("bench", "cpu", "A CPU", "", {"torch": "2.13"})


@dataclass(frozen=True)
class Filled:
    """What ``fill`` made: runs, of which the newest has a result for half of its cases."""

    runs: list[str]
    case_ids: list[str]


def units(cases: int = CASES) -> list[Planned]:
    """The plan of a large sweep."""
    return [
        Planned(
            f"test_gemm.py::test_gemm[m={n}-n=4096-k=7168-dtype=bf16]",
            "op_tests/test_gemm.py",
            "test_gemm",
            {"m": n, "n": 4096, "k": 7168, "dtype": "bf16"},
            position=n,
        )
        for n in range(cases)
    ]


def result_of(planned: Planned) -> Result:
    """An ordinary result: two candidates, five quantities each."""
    row: dict[str, object] = {}
    checks: list[dict[str, object]] = []
    for candidate in ("cpp", "inductor"):
        verdict = {"value": 0.0, "status": "pass", "reason": "", "msg": candidate}
        verdict |= {"tolerance": {"rtol": 0.01, "atol": 0.01}, "counts": {"compared": 1 << 20}}
        checks.append({"verdict": verdict})
        timing = {"median_us": 123.25, "samples_us": [123.0 + n / 7 for n in range(30)], "n": 30}
        timing |= {"ci_us": [122.5, 124.0], "clock": "wall", "cache": "cold", "calls": 41}
        rates = {f"{candidate} {name}": 1.5 for name in ("TFLOPS", "TB/s", "share")}
        row |= {f"{candidate} us": timing, **rates, f"{candidate} err": verdict}
    return Result(planned, "passed", seconds=0.5, seed=1, row=row, checks=checks, place=HERE)


def fill(at: str, measures: int = 1_000_000, cases: int = CASES) -> Filled:
    """Fill an empty database with runs of ``cases`` cases until it holds so many measures."""
    database = Database(url.parse(at))
    bring_up(database)
    plan = units(cases)
    made: list[str] = []
    with Store(database) as store:
        left = measures // MEASURES
        while left > 0:
            made.append(store.begin(RunFacts(mode="run", place=HERE)))
            store.plan(made[-1], plan)
            done = min(left, cases // 2 if left <= cases // 2 else cases)
            _record(database, plan[:done])
            left -= done
        made.append(store.begin(RunFacts(mode="run", place=HERE)))
        store.plan(made[-1], plan)
        _record(database, plan[: cases // 2])
    return Filled(made, [unit.id for unit in plan])


def _record(database: Database, plan: list[Planned]) -> None:
    """Results of the newest run, thousands in a transaction."""
    catalogue = Catalogue(database)
    rows = encode.rows_of(result_of(plan[0]))
    names = catalogue.candidates({row["candidate"] for row in rows.measures})
    measures = [{**row, "candidate_number": names[row["candidate"]]} for row in rows.measures]
    outcome = {**rows.case, "place_number": catalogue.place(HERE)}
    outcome = {name: outcome[name] for name in outcome if name not in encode.planned_row(plan[0])}

    def work(connection: sa.Connection, some: list[Planned]) -> None:
        run = connection.execute(sa.select(sa.func.max(schema.runs.c.number))).scalar_one()
        wanted = [schema.digest(unit.key) for unit in some]
        of_run = sa.and_(schema.cases.c.run_number == run, schema.cases.c.digest.in_(wanted))
        connection.execute(sa.update(schema.cases).where(of_run).values(**outcome))
        numbers = connection.execute(sa.select(schema.cases.c.number).where(of_run)).scalars().all()
        for table, parts in ((schema.measures, measures), (schema.verdicts, rows.verdicts)):
            every = [{**part, "case_number": number} for number in numbers for part in parts]
            connection.execute(sa.insert(table), every)

    for start in range(0, len(plan), AT_A_TIME):
        some = plan[start : start + AT_A_TIME]
        database.write(lambda connection, some=some: work(connection, some))


def answers(at: str, filled: Filled) -> Iterator[tuple[str, float]]:
    """Each question and the seconds its answer took, the first time that it is asked."""
    newest = filled.runs[-1]
    with Store.open(at) as store:
        case = filled.case_ids[len(filled.case_ids) // 3]
        plan = units(len(filled.case_ids))
        yield "the latest run of a case", _timed(lambda: store.latest(case))
        yield "what is missing of a run", _timed(lambda: store.missing(newest))
        yield "what a full run lacks", _timed(lambda: store.missing(filled.runs[0]))
        yield "what to expect of every case", _timed(lambda: store.expected(plan, mode="run"))
        yield "which runs there are", _timed(store.runs)
        result = result_of(plan[-1])
        yield "recording one more result", _timed(lambda: store.record(newest, result))


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started

"""``optest mutate`` without its command line: files in, a report out."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from optest.cases import collecting
from optest.cases.matching import matcher
from optest.errors import UsageError
from optest.mutate.paths import files
from optest.mutate.result import Report
from optest.mutate.run import Budget, mutate
from optest.mutate.unit import Unit, units_of

if TYPE_CHECKING:
    from collections.abc import Iterable

Tell = Callable[[int], None]


@dataclass(frozen=True)
class Options:
    """What to mutate, and how.

    Attributes:
        full: every shape of the default sweep instead of the ``SMOKE`` list.
        keep: only cases whose id this matches somewhere; ``*`` and ``?`` are wild.
        budget_s: seconds for each test function; None for no limit.
        jobs: files at a time, each in a process of its own.
    """

    full: bool = False
    keep: str = ""
    budget_s: float | None = None
    jobs: int = 1


@dataclass(frozen=True)
class Plan:
    """One op test that was loaded: what to run, or what there is to say instead."""

    path: Path
    units: list[Unit]
    said: Report


def plans(paths: Iterable[Path], options: Options) -> list[Plan]:
    """Load every op test and collect its cases; nothing runs yet.

    Raises:
        UsageError: a path that cannot be used, or a pattern that matches no case.
    """
    made = [plan(path, options, named=named) for path, named in files(paths).items()]
    if options.keep and not any(each.units for each in made):
        raise UsageError(f"-k {options.keep!r} matches no case")
    return made


def plan(path: Path, options: Options, *, named: bool) -> Plan:
    """Load one op test and collect its cases."""
    module = collecting.load(path)
    if not collecting.has_cases(module):
        words = f"{path}: no @benchmark() function with a main() that calls it"
        if named:
            raise UsageError(words)
        return Plan(path, [], Report(left_out=[words]))
    argv = [] if options.full else collecting.smoke_arguments(module)
    found = collecting.collect(module, argv)
    if found.gated:
        return Plan(path, [], Report(gated=[f"{path}: {found.gated}"]))
    pattern = matcher(f"*{options.keep}*")
    units = [unit for unit in units_of(module, found, argv) if pattern.fullmatch(unit.id)]
    return Plan(path, units, Report())


def run(made: list[Plan], options: Options, tell: Tell) -> Report:
    """Mutate what was planned; ``tell(n)`` is called as ``n`` more cases are done."""
    report = Report()
    for each in made:
        report.add(each.said)
    busy = [each for each in made if each.units]
    if options.jobs > 1 and len(busy) > 1:
        _run_apart(busy, options, report, tell)
    else:
        for each in busy:
            report.add(mutate(each.units, Budget(options.budget_s), lambda: tell(1)))
    return report


def _run_apart(busy: list[Plan], options: Options, report: Report, tell: Tell) -> None:
    """One process a file; the longest first. Reports come back in the order of the files."""
    jobs = min(options.jobs, len(busy))
    threads = max(1, (os.cpu_count() or 1) // jobs)
    with ProcessPoolExecutor(jobs, get_context("spawn"), _limit_threads, (threads,)) as pool:
        ordered = sorted(busy, key=lambda each: len(each.units), reverse=True)
        running = {pool.submit(_one_file, each.path, options): each for each in ordered}
        done: dict[Path, Report] = {}
        for future in as_completed(running):
            each = running[future]
            try:
                done[each.path] = future.result()
            except BrokenProcessPool:
                words = f"{each.path}: the process that mutated it, or one beside it, crashed"
                done[each.path] = Report(broken=[words])
            tell(len(each.units))
    for each in busy:
        report.add(done[each.path])


def _limit_threads(threads: int) -> None:
    torch.set_num_threads(threads)


def _one_file(path: Path, options: Options) -> Report:
    made = plan(path, options, named=True)
    return mutate(made.units, Budget(options.budget_s), lambda: None)

"""Workers, scripts and whole runs that are killed, stopped or never start."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter

import psutil
import pytest

from optest.sweep.executor import Job, Limits, Work
from optest.sweep.lane import core_lanes
from optest.sweep.local import LocalExecutor

HEAD = """
import os, signal, sys, time
from pathlib import Path
from optest.test_common import benchmark, checkAllclose, summarize
import torch

HERE = Path(__file__).parent

def healthy():
    return {"copy err": checkAllclose(torch.ones(4), torch.ones(4))}
"""
SWEEP = """
def main():
    summarize("rows", [test_it(n) for n in range(int(sys.argv[1]) if sys.argv[1:] else 3)])

if __name__ == "__main__":
    main()
"""


def case(body, main=SWEEP, head=""):
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{HEAD}{head}\n@benchmark()\ndef test_it(n):\n{lines}\n    return healthy()\n{main}"


WHOLE = """
def main():
    rows = [test_it(n) for n in range(3)]
    assert rows[0]["copy err"] == 0  # which rows of collecting do not have

if __name__ == "__main__":
    main()
"""
USAGE = """
def main():
    sys.exit(2)

if __name__ == "__main__":
    main()
"""


class Bench:
    """A folder of op tests and an executor on it."""

    def __init__(self, folder):
        self.folder = folder
        self.opened = []

    def write(self, **files):
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)
        return [f"{name}.py" for name in files]

    def executor(self, lanes=1, argv=(), **limits):
        limits = Limits(**({"seconds": 60.0} | limits))
        job = Job(argv=argv, mode="check", folder=self.folder, limits=limits)
        made = LocalExecutor(job, core_lanes(lanes))
        self.opened.append(made)
        return made.__enter__()

    def planned(self, executor, *files):
        found = executor.collect(files, lambda _: None)
        assert [each.fault for each in found] == [""] * len(files)
        return [Work(planned) for each in found for planned in each.planned]

    def results(self, executor, *files):
        taken = []
        executor.run(self.planned(executor, *files), lambda _: None, taken.append)
        return taken


def nurseries():
    """The nurseries among this process's children: other tests leave servers of their own."""
    children = [child for child in psutil.Process().children() if not over(child)]
    return [child for child in children if "optest.sweep.nursery_process" in child.cmdline()]


def over(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def bench(tmp_path):
    before = set(psutil.Process().children())
    made = Bench(tmp_path)
    yield made
    for each in made.opened:
        each.__exit__(None, None, None)
    assert set(psutil.Process().children()) <= before


def wait_for(condition, seconds=30.0):
    latest = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < latest, "it did not come about"
        time.sleep(0.005)
    return found


def workers():
    """Processes that the nursery of this process forked."""
    (nursery,) = nurseries()
    return nursery.children(recursive=True)


COLLECTED = {
    "ends": ("import os; os._exit(0)", "exit code 0 while it was imported"),
    "crash": ("import os; os.abort()", "killed by SIGABRT"),
    "syntax": ("def main(:", "SyntaxError"),
    "missing": ("import no_such_module", "No module named 'no_such_module'"),
    "plain": ("print('hello')", "no op test"),
    "interrupt": ("raise KeyboardInterrupt", "it cannot be imported (KeyboardInterrupt)"),
    "main": (case("pass", "def main():\n    raise KeyboardInterrupt"), "KeyboardInterrupt"),
    "hangs": (case("pass", "def main():\n    time.sleep(100)"), "longer than 2 s and was killed"),
    "leaves": (case("pass", "def main():\n    os._exit(3)"), "while its cases were looked for"),
    "smoke": (case("pass", head="SMOKE = 3"), "SMOKE=3"),
}


def test_a_file_that_cannot_be_collected_says_why_and_costs_no_other(bench):
    files = bench.write(
        good=case("pass"),
        **{name: text for name, (text, _) in COLLECTED.items()},
        last=case("pass"),
    )
    told = []
    executor = bench.executor(argv=None, seconds=2.0)
    found = executor.collect([*files, "absent.py"], told.append)
    assert [each.file for each in found] == [*files, "absent.py"]
    assert {each.file for each in told} == {*files, "absent.py"}
    faults = {each.file.removesuffix(".py"): each.fault for each in found}
    for name, (_, words) in COLLECTED.items():
        assert words in faults[name]
        assert "\n" not in faults[name]
    assert "absent.py" in faults["absent"]
    good = [each for each in found if each.file in {"good.py", "last.py"}]
    assert [len(each.planned) for each in good] == [3, 3]
    assert [each.planned[0].table for each in good] == ["rows", "rows"]


def test_a_script_whose_worker_never_starts_costs_its_own_cases_only(bench):
    once = """
if "worker" in (HERE / "kind").read_text():
    with (HERE / "starts").open("a") as file:
        file.write("start\\n")
    os._exit(3)
"""
    files = bench.write(dies=case("pass", head=once), good=case("pass"))
    (bench.folder / "kind").write_text("collector")
    executor = bench.executor()
    work = bench.planned(executor, *files)
    (bench.folder / "kind").write_text("worker")
    taken = []
    executor.run(work, lambda _: None, taken.append)
    fates = Counter((r.planned.file, r.status) for r in taken)
    assert fates == {("dies.py", "crashed"): 3, ("good.py", "passed"): 3}
    assert {r.reason for r in taken if r.status == "crashed"} == {
        "it ended its process with exit code 3 while it was imported"
    }
    assert len((bench.folder / "starts").read_text().splitlines()) == 2  # not two for each case


def test_cases_that_main_no_longer_asks_for_are_errors(bench):
    files = bench.write(short=case("pass"))
    executor = bench.executor()
    work = bench.planned(executor, *files)
    bench.write(short=case("pass", SWEEP.replace("else 3", "else 2")))
    taken = []
    executor.run(work, lambda _: None, taken.append)
    assert [r.status for r in taken] == ["passed", "passed", "error"]
    assert "main() did not ask for it again" in taken[2].reason


def test_a_worker_killed_in_a_case_costs_that_case(bench):
    files = bench.write(slow=case("if n == 1:\n    (HERE / 'there').touch()\n    time.sleep(100)"))
    executor = bench.executor()
    work = bench.planned(executor, *files)
    taken = []

    def kill():
        wait_for((bench.folder / "there").exists)
        for each in workers():
            each.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    executor.run(work, lambda _: None, taken.append)
    thread.join()
    assert [r.status for r in taken] == ["passed", "crashed", "passed"]
    assert "killed by SIGKILL" in taken[1].reason


def test_a_worker_killed_between_cases_costs_none(bench):
    files = bench.write(quick=case("pass"))
    executor = bench.executor()
    work = bench.planned(executor, *files)
    taken = []

    def take(result):
        taken.append(result)
        (worker,) = workers()
        worker.kill()
        wait_for(lambda: over(worker))

    executor.run(work, lambda _: None, take)
    assert [r.status for r in taken] == ["passed"] * 3


def test_a_nursery_that_is_killed_is_replaced(bench):
    files = bench.write(quick=case("pass"))
    executor = bench.executor()
    work = bench.planned(executor, *files)
    (nursery,) = nurseries()
    nursery.kill()
    taken = []
    executor.run(work, lambda _: None, taken.append)
    assert [r.status for r in taken] == ["passed"] * 3


def test_stopping_ends_what_runs_and_takes_it_not(bench):
    files = bench.write(slow=case("if n:\n    (HERE / f'there{n}').touch()\n    time.sleep(100)"))
    executor = bench.executor(lanes=2)
    work = bench.planned(executor, *files)
    taken, began = [], []

    def stop():
        wait_for((bench.folder / "there1").exists)
        wait_for((bench.folder / "there2").exists)
        began.append(time.monotonic())
        executor.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    executor.run(work, lambda _: None, taken.append)
    thread.join()
    assert time.monotonic() - began[0] < 2.0
    assert [r.planned.arguments["n"] for r in taken] == [0]
    assert workers() == []


def test_two_lanes_share_the_cases_and_say_so(bench):
    files = bench.write(slow=case("time.sleep(0.1)"), other=case("time.sleep(0.1)"))
    executor = bench.executor(lanes=2)
    assert executor.width == 2
    results = bench.results(executor, *files)
    assert Counter(r.planned.key for r in results) == {r.planned.key: 1 for r in results}
    assert len(results) == 6
    assert {r.neighbours for r in results} == {1}
    assert {r.place.gfx for r in results} == {executor.place().gfx}
    assert all(r.peak_bytes > 50 << 20 and r.seed is not None and r.started for r in results)


def test_what_take_raises_ends_the_run(bench):
    files = bench.write(quick=case("pass"))
    executor = bench.executor(lanes=2)
    work = bench.planned(executor, *files)
    taken = []

    def take(result):
        taken.append(result)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        executor.run(work, lambda _: None, take)
    assert len(taken) == 1


def test_a_gigabyte_of_output_is_drained_and_fills_nothing(bench):
    lines = "for _ in range(1 << 10):\n    os.write(1, b'x' * (1 << 20))"
    files = bench.write(loud=case(f"if n == 1:\n    {lines.replace(chr(10), chr(10) + '    ')}"))
    executor = bench.executor(output_bytes=2 << 30)
    work = bench.planned(executor, *files)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = []
    executor.run(work, lambda _: None, taken.append)
    assert [r.status for r in taken] == ["passed"] * 3
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) << 10 < 64 << 20  # the peak, however soon it was given back


def test_scripts_that_run_whole_tell_each_case_and_their_own_end(bench):
    files = bench.write(
        fine=case("pass", WHOLE),
        crash=case("if n == 1:\n    os.abort()", WHOLE),
        fails=case("if n == 1:\n    raise ValueError('one')", WHOLE),
        usage=case("pass", USAGE),
        hangs=case("if n == 1:\n    time.sleep(100)", WHOLE),
    )
    executor = bench.executor(lanes=2, seconds=3.0)
    found = executor.collect(files, lambda _: None)
    assert all(each.whole and len(each.planned) == 1 for each in found)
    taken = []
    executor.run([Work(each.planned[0]) for each in found], lambda _: None, taken.append)
    fates = {}
    for r in taken:
        fates.setdefault(r.planned.file, []).append((r.status, r.reason.split(":")[0]))
    assert [status for status, _ in fates["fine.py"]] == ["passed"] * 4
    assert fates["crash.py"][1:] == [("crashed", "killed by SIGABRT")] * 2
    assert fates["fails.py"][1:] == [
        ("error", "ValueError"),
        ("passed", ""),
        ("failed", "exit code 1"),
    ]
    assert fates["usage.py"] == [("failed", "exit code 2")]
    assert fates["hangs.py"][1:] == [("hung", "it took longer than 3 s and was killed")] * 2
    (hung,) = [r for r in taken if r.planned.whole and r.status == "hung"]
    assert "in test_it" in hung.text


PARENT = """
import sys
from pathlib import Path
from optest.sweep.executor import Job, Work
from optest.sweep.lane import core_lanes
from optest.sweep.local import LocalExecutor
with LocalExecutor(Job(mode="check", folder=Path(sys.argv[1])), core_lanes(1)) as executor:
    (found,) = executor.collect(["stays.py"], lambda _: None)
    executor.run([Work(each) for each in found.planned], lambda _: None, lambda _: None)
"""
STAYS = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        (HERE / "there").touch()
        time.sleep(100)
    os._exit(1)
time.sleep(100)
"""


def marked(mark):
    found = []
    for each in psutil.process_iter():
        try:
            if each.environ().get("MARK_OF_A_TEST") == mark and each.status() != "zombie":
                found.append(each)
        except (psutil.Error, OSError):
            continue
    return found


def test_a_parent_that_is_killed_leaves_no_process_and_no_folder(bench, tmp_path):
    bench.write(stays=case(STAYS))
    (tmp_path / "tmp").mkdir()
    mark = uuid.uuid4().hex
    environment = os.environ | {"MARK_OF_A_TEST": mark, "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, env=environment) as parent:
        try:
            wait_for((tmp_path / "there").exists)
            assert len(marked(mark)) >= 4  # parent, nursery, worker, what it left
        finally:
            parent.send_signal(signal.SIGKILL)
    wait_for(lambda: not marked(mark))
    wait_for(lambda: not list((tmp_path / "tmp").glob("optest-*")))


def test_the_parent_imports_no_torch_and_keeps_no_descriptor(bench):
    files = bench.write(quick=case("pass"))
    code = f"""
import os, sys
from pathlib import Path
from optest.sweep.executor import Job, Work
from optest.sweep.lane import core_lanes
from optest.sweep.local import LocalExecutor
before = len(os.listdir("/proc/self/fd"))
job = Job(mode="check", folder=Path({str(bench.folder)!r}))
with LocalExecutor(job, core_lanes(1)) as executor:
    (found,) = executor.collect({files!r}, lambda _: None)
    executor.run([Work(each) for each in found.planned], lambda _: None, lambda _: None)
assert "torch" not in sys.modules
assert len(os.listdir("/proc/self/fd")) == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


SPAWNS = case(
    "import multiprocessing\n"
    "context = multiprocessing.get_context('spawn')\n"
    "with context.Pool(1) as pool:\n"
    "    assert pool.map(beside.double, [n]) == pool.map(doubled, [n]) == [2 * n]",
    head="""
def doubled(n):
    return 2 * n

@benchmark()
def test_late(n):
    import late  # beside the script, and not imported before main() runs
    assert late.VALUE == 3
    return healthy()
""",
    main="""
import beside

def main():
    summarize("rows", [test_it(2)])
    summarize("late", [test_late(1)])

if __name__ == "__main__":
    main()
""",
)


def test_a_case_may_spawn_processes_and_import_what_stands_beside_its_script(bench):
    """As all_reduce does: a process that is started anew finds the script's functions by name."""
    bench.write(beside="def double(n):\n    return 2 * n\n", late="VALUE = 3\n")
    taken = bench.results(bench.executor(), *bench.write(spawns=SPAWNS))
    assert [(each.status, each.reason) for each in taken] == [("passed", "")] * 2


BESIDE = """
import threading

@benchmark()
def test_within(n):
    return {"copy err": checkAllclose(torch.ones(4), torch.ones(4) + (n == 1))}
"""
BESIDES = """
if n == 1:
    test_within(n)
if n == 2:
    wrong = threading.Thread(target=checkAllclose, args=(torch.ones(4), torch.zeros(4)))
    wrong.start()
    wrong.join()
if n == 3:
    test_within(n)
"""


def test_what_fails_in_a_case_that_a_case_calls_or_in_its_thread_is_no_pass(bench):
    (file,) = bench.write(beside=case(BESIDES, head=BESIDE))
    taken = bench.results(bench.executor(argv=("4",)), file)
    by_id = {result.planned.id: result for result in taken}
    assert [by_id[f"{file}::test_it[n={n}]"].status for n in range(4)] == [
        "passed",
        "failed",
        "failed",
        "passed",
    ]
    reasons = [by_id[f"{file}::test_it[n={n}]"].reason for n in (1, 2)]
    assert reasons[0].startswith(f"{file}::test_within[n=1]: ")
    assert reasons[1].startswith("in a thread: ")


ENDED = (
    *("pytest.skip('not here')", "pytest.xfail('known')", "pytest.fail('wrong')"),
    "raise unittest.SkipTest('nor here')",
)


def test_of_what_pytests_functions_raise_only_a_skip_is_a_skip(bench):
    lines = "\n".join(f"if n == {n}:\n    {line}" for n, line in enumerate(ENDED))
    files = bench.write(ended=case(lines, head="import pytest, unittest"))
    taken = bench.results(bench.executor(argv=(str(len(ENDED)),)), *files)
    assert {(result.status, result.reason) for result in taken} == {
        ("skipped", "Skipped: not here"),
        ("skipped", "SkipTest: nor here"),
        ("skipped", "XFailed: known"),
        ("error", "Failed: wrong"),
    }


def test_a_parent_with_many_files_open_starts_its_children_all_the_same(bench):
    """select() knows descriptors up to 1023 alone, and a socket keeps its number in the child."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        taken = bench.results(bench.executor(), *bench.write(healthy=case("pass")))
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [each.status for each in taken] == ["passed"] * 3

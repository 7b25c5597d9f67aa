"""``optest doctor`` on machines planted as files: what it finds, and what it makes of it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time

import psutil
import pytest
from typer.testing import CliRunner

from optest.cli.main import app
from optest.doctor import busy, cpu, examine, gpu, limits, software, system, table
from optest.doctor.busy import Process
from optest.doctor.files import Files, numbers
from optest.doctor.item import SEVERITIES, Item

CPU = "sys/devices/system/cpu"
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"


@pytest.fixture
def plant(tmp_path):
    """Writes files below a root, and gives what reads them."""

    def write(files=()):
        for name, text in dict(files).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        return Files(tmp_path)

    return write


def one(items, what):
    [found] = [item for item in items if item.what == what]
    return found


# ---- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0-2,5", {0, 1, 2, 5}),
        ("7", {7}),
        ("", set()),
        ("none", set()),
        ("1-x", set()),
        ("-1", set()),
    ],
)
def test_lists_of_cores_are_read_as_the_kernel_writes_them(text, found):
    assert numbers(text) == found


def test_what_cannot_be_read_is_empty_and_no_error(tmp_path):
    files = Files(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert files.text("none") == files.text("folder") == ""
    assert files.number("bytes") is None
    assert files.fields("none") == {}
    assert list(files.glob("sys/*")) == []


def test_on_an_empty_root_everything_is_told_and_nothing_is_bad(plant):
    files = plant()
    items = [*cpu.items(files, {0, 1}), *system.items(files, 2), *limits.items(files, 2)]
    assert {item.severity for item in items} <= {"ok", "unknown"}
    assert all(item.found for item in items)
    assert one(items, "governor").severity == "unknown"
    assert one(items, "load").found == "not told (/proc/loadavg)"


# ---- cpu ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("governors", "severity", "words"),
    [
        (("performance", "performance"), "ok", "performance on 2"),
        (("powersave", "powersave"), "warning", "powersave on 2"),
        (("performance", "schedutil"), "warning", "performance on 1, schedutil on 1"),
        (("", ""), "unknown", "virtual machine"),
    ],
)
def test_a_governor_that_follows_the_load_is_a_warning(plant, governors, severity, words):
    names = enumerate(governors)
    files = plant({f"{CPU}/cpu{n}/cpufreq/scaling_governor": name for n, name in names if name})
    item = one(cpu.items(files, {0, 1}), "governor")
    assert (item.severity, words in item.found) == (severity, True)
    assert ("cpupower" in item.mend) == (severity == "warning")


@pytest.mark.parametrize(
    ("files", "severity", "mend"),
    [
        ({"intel_pstate/no_turbo": "0"}, "note", "echo 1"),
        ({"intel_pstate/no_turbo": "1"}, "ok", ""),
        ({"cpufreq/boost": "1"}, "note", "echo 0"),
        ({"cpufreq/boost": "0"}, "ok", ""),
        ({"cpufreq/boost": "?"}, "unknown", ""),
    ],
)
def test_turbo_is_read_where_either_driver_tells_it(plant, files, severity, mend):
    found = plant({f"{CPU}/{name}": text for name, text in files.items()})
    item = one(cpu.items(found, {0}), "turbo")
    assert item.severity == severity
    assert mend in item.mend


@pytest.mark.parametrize(
    ("siblings", "cores", "severity"),
    [
        ({0: "0", 1: "1"}, {0, 1}, "ok"),
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, {0, 1, 2, 3}, "warning"),
        ({0: "0,2", 1: "1,3"}, {0, 1}, "note"),
        ({0: "0-1", 1: "0-1"}, {0, 1}, "warning"),
        ({}, {0}, "unknown"),
    ],
)
def test_two_threads_of_a_core_are_told_from_two_cores(plant, siblings, cores, severity):
    files = plant(
        {f"{CPU}/cpu{n}/topology/thread_siblings_list": text for n, text in siblings.items()}
    )
    item = one(cpu.items(files, cores), "hyperthreads")
    assert item.severity == severity
    if cores == {0, 1, 2, 3}:
        assert item.found == "4 threads of 2 cores"
        assert "OMP_NUM_THREADS=2" in item.mend


def test_few_cores_of_many_heat_nodes_and_hosts_are_seen(plant):
    files = plant(
        {
            f"{CPU}/online": "0-7",
            f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "3",
            f"{CPU}/cpu1/thermal_throttle/core_throttle_count": "4",
            "sys/devices/system/node/online": "0-1",
            "proc/cpuinfo": "processor : 0\nmodel name : A CPU\nflags : fpu hypervisor\n\nflags :",
        }
    )
    items = cpu.items(files, {0, 1})
    assert one(items, "cpu").found == "A CPU"
    assert one(items, "cores").found == "2 of 8"
    assert one(items, "overheated").found.startswith("7 times")
    assert one(items, "memory nodes").found == "2"
    assert one(items, "virtual machine").severity == "note"


# ---- system ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "severity"),
    [("tsc", "ok"), ("kvm-clock", "note"), ("hpet", "warning"), ("acpi_pm", "warning")],
)
def test_a_slow_clock_is_a_warning(plant, name, severity):
    item = one(system.items(plant({CLOCK: name}), 1), "clock source")
    assert (item.found, item.severity) == (name, severity)


@pytest.mark.parametrize(
    ("load", "severity"),
    [("0.10", "ok"), ("0.99", "ok"), ("1.00", "warning"), ("4.00", "bad"), ("97.5", "bad")],
)
def test_load_is_held_against_the_cores(plant, load, severity):
    files = plant({"proc/loadavg": f"{load} 0.5 0.9 1/88 12841"})
    assert one(system.items(files, 4), "load").severity == severity


@pytest.mark.parametrize("text", ["", "x", "nan?"])
def test_a_load_that_is_no_number_is_not_told(plant, text):
    assert one(system.items(plant({"proc/loadavg": text}), 4), "load").severity == "unknown"


def test_memory_and_swap_are_read_in_bytes(plant):
    meminfo = "MemTotal: 16777216 kB\nMemAvailable: {} kB\nSwapTotal: 2048 kB\nSwapFree: {} kB"
    much = system.items(plant({"proc/meminfo": meminfo.format(8388608, 2048)}), 1)
    assert one(much, "free memory").found == "8.0 GiB of 16.0 GiB"
    assert one(much, "swap").found == "none in use"
    assert {item.severity for item in much} <= {"ok", "unknown"}
    little = system.items(plant({"proc/meminfo": meminfo.format(1048576, 1024)}), 1)
    assert one(little, "free memory").severity == "warning"
    assert one(little, "swap").found == "1.0 MiB in use"
    full = system.items(plant({"proc/meminfo": meminfo.format(8388608, 512)}), 1)
    assert one(full, "swap").found == "1.5 MiB in use"


def stat(*times):
    return "cpu  " + " ".join(map(str, times)) + "\ncpu0 1 2 3"


@pytest.mark.parametrize(
    ("steal", "severity", "share"),
    [(0, "ok", "0.0%"), (9, "ok", "0.9%"), (20, "warning", "2.0%"), (200, "bad", "20.0%")],
)
def test_time_that_the_host_gave_away_is_a_share_of_all_that_passed(steal, severity, share):
    before = stat(1000, 10, 100, 5000, 50, 1, 2, 500, 70, 7)
    idle = 1000 - steal - 100
    after = stat(1090, 10, 110, 5000 + idle, 50, 1, 2, 500 + steal, 99, 9)  # guests are in user
    item = system.stolen(before, after)
    assert (item.severity, item.found) == (severity, share)


@pytest.mark.parametrize("text", ["", "cpu 1 2 3", "intr 5"])
def test_without_such_times_nothing_is_said_of_them(text):
    assert system.stolen(text, text).severity == "unknown"


# ---- limits ------------------------------------------------------------------------------------


def test_limits_of_control_groups_of_version_2(plant):
    files = plant(
        {
            "proc/self/cgroup": "0::/pod/box",
            "sys/fs/cgroup/pod/cpu.max": "150000 100000",
            "sys/fs/cgroup/pod/box/cpu.max": "max 100000",
            "sys/fs/cgroup/pod/box/cpu.stat": "usage_usec 9\nnr_periods 8\nnr_throttled 7",
            "sys/fs/cgroup/pod/box/memory.max": str(4 << 30),
            "sys/fs/cgroup/pod/memory.max": str(8 << 30),
            "sys/fs/cgroup/memory.max": "max",
            "sys/fs/cgroup/cpu.max": "300000 100000",
        }
    )
    items = limits.items(files, 4)
    time_ = one(items, "processor time")
    assert (time_.severity, time_.found) == ("bad", "1.5 cores' worth for 4 cores")
    assert "OMP_NUM_THREADS=1" in time_.mend
    assert one(items, "stopped by a limit").found == "7 times"
    assert one(items, "memory limit").found == "4.0 GiB"
    assert one(limits.items(files, 1), "processor time").severity == "ok"


def test_limits_of_control_groups_of_version_1(plant):
    files = plant(
        {
            "proc/self/cgroup": "4:memory:/docker/1\n3:cpu,cpuacct:/docker/1",
            "sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us": "50000",
            "sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": str(1 << 30),
            "sys/fs/cgroup/memory/docker/memory.limit_in_bytes": str(2 << 30),
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        }
    )
    items = limits.items(files, 2)
    assert one(items, "processor time").found == "0.5 cores' worth for 2 cores"
    assert one(items, "memory limit").found == "1.0 GiB"


def test_a_number_too_large_for_memory_is_no_limit(plant):
    files = plant({"sys/fs/cgroup/memory.limit_in_bytes": "9223372036854771712"})
    assert one(limits.items(files, 2), "memory limit").found == "none"


@pytest.mark.parametrize("quota", ["max 100000", "-1", "50000 0", "x y"])
def test_what_is_no_limit_is_none(plant, quota):
    files = plant({"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": quota})
    assert one(limits.items(files, 2), "processor time").found == "no limit"


# ---- others ------------------------------------------------------------------------------------


def test_processes_are_judged_by_the_cores_they_take():
    assert busy.judged([Process(1, "idle", 0.04)] * 20).severity == "ok"
    some = busy.judged([Process(7, "make\n|x", 0.2)])
    assert (some.severity, some.found) == ("warning", "0.2 cores: make |x (7) 0.2")
    many = busy.judged([Process(n, "cc", 0.3) for n in range(7)])
    assert many.severity == "bad"
    assert many.found.startswith("2.1 cores: cc (0) 0.3")
    assert many.found.endswith("and 2 more")


def test_a_process_that_spins_is_found():
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            taken = {each.pid: each.cores for each in busy.working(0.4)}
            if taken.get(spinner.pid, 0.0) > 0.05:
                break
        assert 0.05 < taken[spinner.pid] < 1.5
    finally:
        spinner.kill()
        spinner.wait()


class _Told(psutil.Process):
    """A process whose first answer, as psutil's, is always 0."""

    def __init__(self, pid, percent):
        self._pid, self.info, self._percents = pid, {"name": f"p{pid}"}, iter([0.0, percent])

    def cpu_percent(self):
        return next(self._percents)


def test_this_process_and_those_that_started_it_are_no_others(monkeypatch):
    own = [os.getpid(), *(each.pid for each in psutil.Process().parents())]
    told = [_Told(7, 50.0), *(_Told(pid, 400.0) for pid in own), _Told(8, 250.0), _Told(9, 0.0)]
    monkeypatch.setattr(psutil, "process_iter", lambda attributes: told)
    assert busy.working(0.0) == [Process(8, "p8", 2.5), Process(7, "p7", 0.5)]


def test_time_lost_between_two_readings_of_the_clock_is_counted():
    # A reading a microsecond, but for one gap of 4 ms in each 10 ms.
    times = itertools.accumulate(itertools.cycle([1_000] * 6_000 + [4_000_000]), initial=0)
    assert busy.lost_share(0.1, times.__next__) == pytest.approx(0.4, abs=0.01)
    quiet = itertools.count(0, 1_000)
    assert busy.lost_share(0.01, quiet.__next__) == 0.0


@pytest.mark.parametrize(
    ("share", "severity"), [(0.0, "ok"), (0.009, "ok"), (0.05, "warning"), (0.3, "bad")]
)
def test_a_thread_that_is_kept_from_working_is_told(share, severity):
    assert busy.interrupted(share).severity == severity


# ---- software and devices ----------------------------------------------------------------------


def test_more_threads_than_cores_are_bad(monkeypatch):
    import torch

    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    item = one(software.items(4), "threads of torch")
    assert (item.severity, item.found) == ("bad", "8 (OMP_NUM_THREADS=8), on 4 cores")
    assert one(software.items(8), "threads of torch").severity == "ok"


def test_what_is_not_installed_is_said(monkeypatch):
    monkeypatch.setattr(software.native, "available", lambda: False)
    monkeypatch.setattr(software.native, "why_not", lambda: "no compiler")
    monkeypatch.setattr(software.compiler, "find", lambda kind: None)
    monkeypatch.setattr(software, "_TRITONS", ("no-such-package",))
    items = software.items(1)
    assert one(items, "compiler").found == "none"
    assert one(items, "triton").found == "not installed"
    assert "no compiler" in one(items, "kernels of csrc").why


def test_variables_that_change_a_run_are_shown(monkeypatch):
    monkeypatch.setenv("OPTEST_CACHE", "warm")
    assert "OPTEST_CACHE=warm" in one(software.items(1), "variables").found


@pytest.fixture
def without_torch_s(monkeypatch):
    """Torch sees no GPU, and nvidia-smi is not there."""
    monkeypatch.setattr(gpu, "_seen_by_torch", lambda: "")
    monkeypatch.setattr(gpu.shutil, "which", lambda name: None)


def test_a_gpu_that_torch_does_not_see_is_bad(plant, without_torch_s):
    assert gpu.items(plant()) == [Item("device", "no GPU: the CPU is measured")]
    item = one(gpu.items(plant({"dev/kfd": ""})), "device")
    assert item.severity == "bad"
    assert "AMD" in item.found


def test_an_amd_card_is_read_from_sysfs(plant, without_torch_s, monkeypatch):
    monkeypatch.setattr(gpu, "_seen_by_torch", lambda: "8 x AMD Instinct MI300X")
    card = "sys/class/drm/card{}/device/{}"
    files = plant(
        {
            "dev/kfd": "",
            "sys/module/amdgpu/version": "6.12.12",
            card.format(0, "power_dpm_force_performance_level"): "auto",
            card.format(0, "gpu_busy_percent"): "0",
            card.format(1, "gpu_busy_percent"): "97",
            "sys/class/kfd/kfd/proc/4711/pasid": "1",
            "sys/class/kfd/kfd/proc/99/pasid": "2",
        }
    )
    items = gpu.items(files)
    assert one(items, "device").found == "8 x AMD Instinct MI300X"
    assert one(items, "driver").found == "amdgpu 6.12.12"
    assert one(items, "performance level").severity == "note"
    load = one(items, "device's load")
    assert (load.severity, load.found) == ("bad", "card0 0 %, card1 97 %")
    assert one(items, "processes on the device").found == "99, 4711"


def test_one_s_own_process_is_no_other():
    assert gpu.others([5, 7, 5], own=5).found == "7"
    assert gpu.others([5], own=5).severity == "ok"


@pytest.mark.parametrize(
    ("lines", "severities"),
    [
        (["00000000:01:00.0, Enabled, 0"], ["ok"]),
        (["00000000:01:00.0, Disabled, 55"], ["bad", "note"]),
        (["00000000:01:00.0, Enabled, [N/A]"], ["unknown"]),
        ([], ["unknown"]),
        (["Failed to initialize NVML"], ["unknown"]),
    ],
)
def test_what_nvidia_smi_says_is_understood_or_not_told(lines, severities):
    assert [item.severity for item in gpu.nvidia(lines)] == severities


def test_nvidia_smi_is_asked_where_it_is_there(plant, tmp_path, without_torch_s, monkeypatch):
    smi = tmp_path / "nvidia-smi"
    smi.write_text('#!/bin/sh\ncase "$1" in *apps*) echo 4711;; *) echo "0:1, Enabled, 3";; esac\n')
    smi.chmod(0o755)
    monkeypatch.setattr(gpu.shutil, "which", lambda name: str(smi))
    items = gpu.items(plant({"dev/nvidiactl": ""}))
    assert one(items, "processes on the device").found == "4711"
    assert [i.found for i in items if i.what == "device's load"][-1] == "0:1 3 %"
    smi.write_text("#!/bin/sh\nexit 9\n")
    assert gpu._told(str(smi), "--query-gpu=x") == []
    assert gpu._told(str(tmp_path / "none"), "--query-gpu=x") == []


# ---- what is said ------------------------------------------------------------------------------

ITEMS = [
    Item("cores", "2"),
    Item("turbo", "on", "note", "heat", "turn it off"),
    Item("load", "9 | 2", "bad", "others"),
    Item("governor", "powersave", "warning", "slow", "set it"),
    Item("heat", "not told (x)", "unknown"),
]


def test_the_worst_comes_first_with_what_to_do():
    text = table.markdown(ITEMS)
    head, _, *rest = text.splitlines()
    assert [cell.strip() for cell in head.strip("|").split("|")] == ["what", "found", ""]
    assert "9 \\| 2" in text
    lines = [line for line in rest if line.startswith("- ")]
    assert lines == [
        "- **bad**: load: others.",
        "- **warning**: governor: slow. To mend: set it.",
        "- **note**: turbo: heat. To mend: turn it off.",
    ]


def test_a_quiet_machine_is_called_so():
    assert table.markdown(ITEMS[:1]).endswith("Nothing here makes timings unreliable.\n")


def invoke(monkeypatch, items, *arguments):
    monkeypatch.setattr(examine, "examine", lambda: items)
    return CliRunner().invoke(app, ["doctor", *arguments])


@pytest.mark.parametrize(
    ("items", "arguments", "code"),
    [
        (ITEMS, [], 0),
        (ITEMS, ["--strict"], 1),
        (ITEMS, ["--strict", "--json"], 1),
        (ITEMS[3:], ["--strict"], 0),
    ],
)
def test_only_what_is_bad_and_only_when_strict_fails(monkeypatch, items, arguments, code):
    done = invoke(monkeypatch, items, *arguments)
    assert done.exit_code == code
    if "--json" in arguments:
        read = json.loads(done.stdout)
        assert [Item(**each) for each in read] == items
    else:
        assert done.stdout == table.markdown(items)


def test_this_machine_is_examined_whole():
    items = examine.examine(seconds=0.05)
    names = [item.what for item in items]
    assert len(names) == len(set(names))
    assert {"device", "torch", "compiler", "cores", "load", "other processes"} <= set(names)
    assert {"memory limit", "time given to neighbours", "kept from working"} <= set(names)
    assert all(item.severity in SEVERITIES and item.found for item in items)


def test_planted_machines_are_examined_by_their_root(plant, tmp_path, without_torch_s):
    plant({"proc/loadavg": "0.01 0 0 1/1 1", "proc/sys/kernel/osrelease": "9.9-planted"})
    items = examine.examine(tmp_path, seconds=0.01)
    assert one(items, "kernel").found == "9.9-planted"
    assert one(items, "load").severity == "ok"
    assert one(items, "device").found.startswith("no GPU")


def test_what_the_host_takes_while_others_are_watched_is_theirs(
    plant, tmp_path, without_torch_s, monkeypatch
):
    plant({"proc/stat": stat(9, 9, 9, 9, 9, 9, 9, 9), "dev/kfd": ""})

    def watched(seconds):
        plant({"proc/stat": stat(9, 9, 9, 99, 9, 9, 9, 19)})  # 90 idle and 10 taken
        return [Process(7, "make", 2.0)]

    monkeypatch.setattr(busy, "working", watched)
    items = examine.examine(tmp_path, seconds=0.01)
    assert one(items, "time given to neighbours").found == "10.0%"
    assert one(items, "other processes").found == "2.0 cores: make (7) 2.0"
    assert one(items, "device").severity == "bad"  # the planted one, which torch does not see

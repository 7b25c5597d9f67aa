"""Processes as the system sees them: who descends from whom, what memory they hold, who adopts.

Linux tells all of it cheaply; elsewhere psutil tells what it can, and nobody is adopted.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_DIE_WITH_PARENT, _ADOPT_ORPHANS = 1, 36  # of prctl
_PROC = Path("/proc")
_LINUX = sys.platform == "linux"
_LONGEST_FILE = 1 << 17  # of those in /proc that are read here


def die_with_parent() -> None:
    """Be killed when the thread that forked this process ends, however it ends."""
    _prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parents ended, so that none gets out of sight."""
    _prctl(_ADOPT_ORPHANS, 1)


def _prctl(option: int, value: int) -> None:
    if _LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def be_killed_first() -> None:
    """Where memory runs out the system is to end this process, not the one that watches it."""
    with contextlib.suppress(OSError):
        (_PROC / "self/oom_score_adj").write_text("1000", encoding="ascii")


def own_children() -> list[int]:
    """Children of this process; where there are none, one system call tells."""
    if hasattr(os, "waitid"):
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return []
    return children(os.getpid())


def children(pid: int) -> list[int]:
    """Direct children of a process, those of its threads too; empty where it is gone."""
    if not _LINUX:
        return _children_by_psutil(pid)
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - hot
        for thread in threads:
            found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    except FileNotFoundError:
        # Gone, or a kernel that does not list children.
        return _children_by_psutil(pid) if _PROC.joinpath(str(pid)).exists() else found
    except (OSError, ValueError):
        return found
    return found


def _children_by_psutil(pid: int) -> list[int]:
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def family(pid: int) -> list[int]:
    """A process and all that descend from it, parents before their children."""
    found = [pid]
    for each in found:  # grows while it is walked
        found += [child for child in children(each) if child not in found]
    return found


def resident_bytes(pids: list[int]) -> int:
    """Resident memory of processes, counting pages that they share once for each."""
    return sum(_resident(pid) for pid in pids)


def proportional_bytes(pids: list[int]) -> int:
    """The same with shared pages divided among those that share them: exact, and slower."""
    return sum(_proportional(pid) for pid in pids)


def _resident(pid: int) -> int:
    if not _LINUX:
        return _resident_by_psutil(pid)
    try:
        return int(_read(f"/proc/{pid}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _resident_by_psutil(pid: int) -> int:
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def _proportional(pid: int) -> int:
    try:
        lines = _read(f"/proc/{pid}/smaps_rollup").splitlines()
    except OSError:
        return _resident(pid)
    found = [int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")]
    return found[0] if found else 0


def reset_peak() -> bool:
    """Let this process's peak of resident memory begin anew; False where the system does not."""
    try:
        fd = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.write(fd, b"5") > 0
    except OSError:
        return False
    finally:
        os.close(fd)


def peak_bytes() -> int | None:
    """Most resident memory that this process held since ``reset_peak``; None where not told."""
    try:
        status = _read("/proc/self/status")
    except OSError:
        return None
    _, found, rest = status.partition("VmHWM:")
    return int(rest.split(None, 1)[0]) << 10 if found else None


def out_of_memory_kills() -> int:
    """How often the system has ended a process for want of memory; 0 where it does not tell."""
    try:
        _, found, rest = _read("/proc/vmstat").partition("oom_kill ")
    except OSError:
        return 0
    return int(rest.split(None, 1)[0]) if found else 0


def _read(path: str) -> str:
    # Without Python's layers, which cost five times the reading.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _LONGEST_FILE).decode("utf-8", "replace")
    finally:
        os.close(fd)

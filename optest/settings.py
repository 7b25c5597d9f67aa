"""Every environment variable that optest reads, in one table; a bad value is named by its error."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optest.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return text.strip().lower()

    return parse


def _level(text: str) -> str:
    levels = ("DEBUG", "INFO", "WARNING", "ERROR")
    if text.strip().upper() not in levels:
        raise ValueError(f"one of {', '.join(levels)}")
    return text.strip().upper()


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("an integer") from None


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text) if text.strip().isascii() and text.strip().isdigit() else least - 1
        if value < least:
            raise ValueError(f"a whole number of at least {least}")
        return value

    return parse


def _switch(text: str) -> bool:
    words = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}
    if text.strip().lower() not in words:
        raise ValueError("1 or 0")
    return words[text.strip().lower()]


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < float("inf"):
        raise ValueError("a positive number of seconds")
    return value


def _arch(text: str) -> str:
    name = text.strip().lower()
    if not re.fullmatch(r"cpu|gfx[0-9a-f]{3,5}|sm_[0-9]{2,3}[a-z]?", name):
        raise ValueError("an arch name such as cpu, gfx942 or sm_90")
    return name


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _name(text: str) -> str:
    return text.strip()


@dataclass(frozen=True)
class Setting:
    """One environment variable: how it is read and what it means."""

    name: str
    parse: Callable[[str], object]
    default: object
    values: str
    meaning: str
    default_text: str = ""


TABLE: tuple[Setting, ...] = (
    Setting("OPTEST_MODE", _one_of("run", "check", "collect"), "run", "run, check, collect",
            "measure and check; check only; record the cases and run none"),
    Setting("OPTEST_GUARDS", _one_of("off", "cheap", "full"), "cheap", "off, cheap, full",
            "guards around a candidate: none, those that cost little, all (docs/trust.md)"),
    Setting("OPTEST_GUARD_PAGES", _switch, False, "1, 0",
            "CPU memory between pages that nobody may touch, so that reads past it show as well",
            "0"),
    Setting("OPTEST_ONLY", _name, None, "file of case ids, one a line; or one id",
            "run only these cases (* and ? are wild in an id given here)", "all"),
    Setting("OPTEST_EVENTS", _path, None, "file", "append started / finished lines (JSON)", "none"),
    Setting("OPTEST_CACHE", _one_of("cold", "warm"), "cold", "cold, warm",
            "state of the last-level cache before each timed call"),
    Setting("OPTEST_BUDGET_S", _seconds, 1.0, "seconds", "time one measurement may take", "1"),
    Setting("OPTEST_SEED", _integer, 0, "integer", "mixed into the seed of every case"),
    Setting("OPTEST_GFX", _arch, None, "arch name", "what get_gfx() answers", "detected"),
    Setting("OPTEST_ISA", _one_of("avx512", "avx2", "neon", "portable"), None,
            "avx512, avx2, neon, portable", "instruction set of the csrc kernels", "best"),
    Setting("OPTEST_LOG_LEVEL", _level, "INFO", "DEBUG, INFO, WARNING, ERROR",
            "what optest.logger prints"),
    Setting("OPTEST_SAVE_FAILED", _path, None, "folder",
            "keep the tensors of a failing case (safetensors)", "none"),
    Setting("OPTEST_BUILD_DIR", _path, None, "folder", "where compiled csrc is cached",
            "~/.cache/optest"),
    Setting("OPTEST_NATIVE", _one_of("auto", "off"), "auto", "auto, off",
            "off: behave as on a machine without a compiler"),
    Setting("OPTEST_GOLDEN_NUM_THREADS", _at_least(1), None, "positive integer",
            "torch's threads while a golden function runs", "torch's own"),
    Setting("OPTEST_BENCH", _switch, None, "1, 0", "time the kernel of a golden run", "0"),
    Setting("OPTEST_BENCH_ROUNDS", _at_least(1), None, "positive integer",
            "timed calls of it", "100"),
    Setting("OPTEST_BENCH_WARMUP", _at_least(0), None, "integer", "untimed calls before", "5"),
    Setting("OPTEST_BENCH_RAW", _switch, None, "1, 0", "also print each round", "0"),
    Setting("PYPTO_GOLDEN_NUM_THREADS", _name, None, "positive integer",
            "upstream's name of OPTEST_GOLDEN_NUM_THREADS; ours comes first", "none"),
    Setting("PYPTO_BENCH", _name, None, "1, 0", "upstream's name of OPTEST_BENCH", "none"),
    Setting("PYPTO_BENCH_ROUNDS", _name, None, "positive integer",
            "upstream's name of OPTEST_BENCH_ROUNDS; a bad number is warned about", "none"),
    Setting("PYPTO_BENCH_WARMUP", _name, None, "integer",
            "upstream's name of OPTEST_BENCH_WARMUP; a bad number is warned about", "none"),
    Setting("PYPTO_BENCH_RAW", _name, None, "1, 0", "upstream's name of OPTEST_BENCH_RAW", "none"),
    Setting("KERNELFOUNDRY_PROFILER", _name, None, "unitrace, vtune, ncu, nsys, other",
            "the profiler that a task's benchmark runs under", "detected"),
    Setting("KERNELFOUNDRY_unitrace_cmd", _name, "unitrace", "command",
            "resumes and pauses unitrace"),
    Setting("KERNELFOUNDRY_vtune_cmd", _name, "vtune", "command", "resumes and pauses VTune"),
    Setting("KERNELFOUNDRY_vtune_result_dir", _path, None, "folder",
            "the VTune collection to resume and pause", "none"),
    Setting("GITHUB_STEP_SUMMARY", _path, None, "file",
            "optest run appends its tables to it, as GitHub's runners ask for", "none"),
)  # fmt: skip

_BY_NAME = {setting.name: setting for setting in TABLE}
_ENCODED = {name: os.fsencode(name) for name in _BY_NAME}


def get(name: str, environ: Mapping[str, str] | None = None) -> object:
    """Value of one variable, parsed; its default where it is unset or empty.

    Raises:
        KeyError: ``name`` is not in the table.
        SettingError: the variable holds something its row does not allow.
    """
    setting = _BY_NAME[name]
    # Most are unset, and asked for in every case: the mapping encodes the name anew each time.
    if environ is None and _ENCODED[name] not in os.environ._data:  # type: ignore[attr-defined]  # noqa: SLF001
        return setting.default
    text = (os.environ if environ is None else environ).get(name, "")
    if not text.strip():
        return setting.default
    try:
        return setting.parse(text)
    except ValueError as error:
        message = f"{name}={text!r}: expected {error}. Correct it or unset it."
        raise SettingError(message) from None


def get_str(name: str) -> str:
    """``get`` for a variable that always has a value, and whose values are text."""
    value = get(name)
    assert isinstance(value, str)
    return value


def get_float(name: str) -> float:
    """``get`` for a variable whose values are numbers."""
    value = get(name)
    assert isinstance(value, (int, float))
    return float(value)


def get_int(name: str) -> int:
    """``get`` for a variable whose values are whole numbers."""
    value = get(name)
    assert isinstance(value, int)
    return value


def get_path(name: str) -> Path | None:
    """``get`` for a variable that names a file or folder; None where it is unset."""
    value = get(name)
    assert value is None or isinstance(value, Path)
    return value


def given(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The text of each variable of the table that is set, in the table's order."""
    found = os.environ if environ is None else environ
    return {s.name: found[s.name] for s in TABLE if found.get(s.name, "").strip()}


def validate(environ: Mapping[str, str] | None = None) -> list[str]:
    """Read every variable once, so that a run starts with all of them right or not at all.

    Returns:
        One warning for each ``OPTEST_`` variable that is in no row, with the name it resembles.

    Raises:
        SettingError: one or more variables hold what their rows do not allow; it lists them all.
    """
    found = os.environ if environ is None else environ
    problems: list[str] = []
    for setting in TABLE:
        try:
            get(setting.name, found)
        except SettingError as error:
            problems.append(str(error))
    if problems:
        raise SettingError("\n".join(problems))
    return [_warning(name) for name in unknown(found)]


def unknown(environ: Mapping[str, str] | None = None) -> list[str]:
    """Variables that start with ``OPTEST_`` and are in no row: most likely misspelt."""
    names = os.environ if environ is None else environ
    return sorted(n for n in names if n.startswith("OPTEST_") and n not in _BY_NAME)


def _warning(name: str) -> str:
    # Compared without the prefix that all share, which alone would make any two alike.
    tails = {known.removeprefix("OPTEST_"): known for known in _BY_NAME}
    close = difflib.get_close_matches(name.removeprefix("OPTEST_"), tails, n=1)
    hint = f"did you mean {tails[close[0]]}?" if close else f"it knows {', '.join(_BY_NAME)}."
    return f"{name} is set, but optest reads no such variable: {hint}"


def markdown_table() -> str:
    """The table of the documentation, made from the one the code reads."""
    head = "| variable | values | default | meaning |\n|---|---|---|---|"
    rows = (
        f"| {s.name} | {s.values} | {s.default_text or s.default} | {s.meaning} |" for s in TABLE
    )
    return "\n".join((head, *rows))

"""What the tests of a task compared and what its benchmark timed, noted for ``optest speedup``.

A line of JSON each, appended when it happens, so that what a crash leaves behind is whole.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType, FrameType, ModuleType

# Comparisons that tests make; some answer, some raise.
_COMPARISONS = (
    ("optest.testing.assertions", "assert_allclose"),
    ("optest.testing.relative", "all_close_with_slack"),
    ("optest.testing.assertions", "all_close_with_slack"),
    ("optest.testing.relative", "cosine_similarity"),
    ("optest.testing.assertions", "cosine_similarity"),
    ("optest.cases.check", "checkAllclose"),
    ("torch", "allclose"),
    ("torch", "equal"),
    ("torch.testing", "assert_close"),
    ("numpy", "allclose"),
    ("numpy", "array_equal"),
    ("numpy.testing", "assert_allclose"),
)
_LIBRARIES = frozenset({"numpy", "optest", "torch"})
_MEASURES = ("measure_runtime", "measure_runtime_torch", "torch_profile")


@dataclass(frozen=True)
class Shape:
    """Size and dtype of a tensor."""

    size: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.size)}"


@dataclass(frozen=True)
class Outcome:
    """One test, and what came of it.

    Attributes:
        outcome: ``passed``, ``failed`` or ``skipped``, over all its phases.
        reason: the first line of why it did not pass.
        counted: it is the benchmark that the task is judged by.
        contended: others wanted the processor while it timed.
        stands: it is marked ``benchmark_shape``.
        holds: sizes that the mark says it keeps of the benchmark's.
    """

    id: str
    outcome: str
    reason: str = ""
    counted: bool = False
    contended: bool = False
    stands: bool = False
    holds: tuple[int, ...] = ()


@dataclass
class Seen:
    """Tensors of one test.

    Attributes:
        compared: what passed a comparison.
        near: what the test's own variables held then.
        given: what the benchmark hands to the kernel; None where that is not known.
        returned: what the kernel gives back.
    """

    compared: set[Shape] = field(default_factory=set)
    near: set[Shape] = field(default_factory=set)
    given: set[Shape] | None = None
    returned: set[Shape] = field(default_factory=set)


class Notebook:
    """Appends to a file what the running test does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._test = ""
        self._code: CodeType | None = None
        self._busy = False

    def begin(self, test: str, function: object) -> None:
        """A test starts; comparisons are its own until the next one does."""
        self._test = test
        self._code = getattr(getattr(function, "__func__", function), "__code__", None)

    def tested(self, test: Outcome) -> None:
        """A test has ended."""
        self._write("tested", test.__dict__)

    def finished(self) -> None:
        """The run has come to its end; one that a kernel ends half way does not say this."""
        self._write("finished", {"id": ""})

    def compared(self, values: Iterable[object], frame: FrameType | None) -> None:
        """A comparison has passed: its first argument's shape, and those of what stood around."""
        compared = _shapes(values)
        near = _shapes(_variables(frame, self._code)) | compared
        self._write("compared", {"id": self._test, "compared": compared, "near": near})

    def timed(self, target: Callable[..., Any], args: object, kwargs: object) -> None:
        """The benchmark has timed ``target``; it is called once more to see what it returns."""
        given = _shapes((args, kwargs)) or _shapes((target,))
        self._write(
            "timed", {"id": self._test, "given": given, "returned": _returned(target, args, kwargs)}
        )

    def _write(self, kind: str, record: dict[str, Any]) -> None:
        line = json.dumps({"kind": kind, **record}, default=_plain) + "\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)

    def watching(self, compare: Callable[..., Any]) -> Callable[..., Any]:
        """``compare``, which notes what it was given where it holds."""

        @functools.wraps(compare)
        def watched(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any comparison's own
            __tracebackhide__ = True
            outer, self._busy = self._busy, True
            try:
                answer = compare(*args, **kwargs)
            finally:
                self._busy = outer
            frame = sys._getframe(1)  # noqa: SLF001 - documented, and the only way
            # A comparison that another is made of speaks for what that one was given.
            if not outer and _held(answer) and not _is_library(frame):
                self.compared(args[:2] or tuple(kwargs.values())[:2], frame)
            return answer

        return watched

    def measuring(self, measure: Any) -> Callable[..., Any]:  # noqa: ANN401 - a fixture's value
        """``measure``, which notes the call that it has timed."""

        @functools.wraps(measure)
        def watched(target: Any, *rest: Any, **options: Any) -> Any:  # noqa: ANN401
            args = options.get("args", rest[1] if len(rest) > 1 else None)
            kwargs = options.get("kwargs", rest[2] if len(rest) > 2 else None)  # noqa: PLR2004
            measured = measure(target, *rest, **options)
            # Afterwards: of a kernel that works in its first call only, that call is to be timed.
            self.timed(target, args, kwargs)
            return measured

        return watched


def watch(notebook: Notebook) -> Callable[[], None]:
    """Put watched comparisons where the plain ones were; the answer puts those back."""
    undo: list[tuple[Any, str, Any]] = []
    for module_name, name in _COMPARISONS:
        try:
            module = importlib.import_module(module_name)
        except ImportError:  # no NumPy is no fault
            continue
        plain = getattr(module, name)
        watched = notebook.watching(plain)
        for place in dict.fromkeys((module, *_faces(name, plain))):
            undo.append((place, name, plain))
            setattr(place, name, watched)

    def put_back() -> None:
        for module, name, plain in reversed(undo):
            setattr(module, name, plain)

    return put_back


def _faces(name: str, plain: object) -> list[ModuleType]:
    """Modules of ours that hand ``plain`` on under its name, and have been asked for it already."""
    ours = [module for key, module in sys.modules.items() if key.partition(".")[0] == "optest"]
    return [module for module in ours if vars(module).get(name) is plain]


def measures(arguments: Iterable[str]) -> list[str]:
    """Those of a test's arguments that time a kernel."""
    return [name for name in _MEASURES if name in set(arguments)]


@dataclass
class Notes:
    """What a run has left: tests in the order they ended, what each saw, whether it finished."""

    tests: dict[str, Outcome] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    finished: bool = False


def read(path: Path) -> Notes:
    """The notes in a file; none where there is no file."""
    notes = Notes()
    for line in path.read_text().splitlines() if path.is_file() else []:
        record = json.loads(line)
        kind, test = record.pop("kind"), record["id"]
        if kind == "tested":
            notes.tests[test] = Outcome(**{**record, "holds": tuple(record["holds"])})
            continue
        if kind == "finished":
            notes.finished = True
            continue
        own = notes.seen.setdefault(test, Seen())
        shapes = {name: _parsed(record[name]) for name in record if name != "id"}
        if kind == "timed":
            own.given = (own.given or set()) | shapes["given"]
            own.returned |= shapes["returned"]
        else:
            own.compared |= shapes["compared"]
            own.near |= shapes["near"]
    return notes


def _is_library(frame: FrameType) -> bool:
    """Whether a library compares, for purposes of its own."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES


def _held(answer: object) -> bool:
    """Whether a comparison that has not raised says yes: True, None, or a Verdict that passed."""
    passed = getattr(answer, "passed", None)
    if passed is not None:
        return bool(passed)
    return answer is None or bool(answer)


def _variables(frame: FrameType | None, last: CodeType | None) -> list[object]:
    """Variables of the functions from ``frame`` out to the test's.

    Where the test's is not among them (in a fixture, in a thread), of the nearest alone.
    """
    frames = []
    while frame is not None:
        frames.append(frame)
        if frame.f_code is last:
            break
        frame = frame.f_back
    else:
        frames = frames[:1]
    held = [value for each in frames for value in each.f_locals.values()]
    # Of what can be called, the tensors are the kernel's, not the test's.
    return [value for value in held if not callable(value)]


def _shapes(values: Iterable[object]) -> set[Shape]:
    from optest.tensors import tensors_in

    return {
        Shape(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        for tensor in tensors_in(*values)
    }


def _returned(target: Callable[..., Any], args: object, kwargs: object) -> set[Shape]:
    """What a call gives, on copies of its arguments; nothing where it raises, as it will again."""
    from optest.tensors import replicate
    from optest.testing.replicas import argument_sets

    found: set[Shape] = set()
    try:
        for positional, named in argument_sets(args, kwargs):
            found |= _shapes((target(*replicate(positional), **replicate(dict(named))),))
    except Exception:  # noqa: BLE001 - the measurement will say it
        return set()
    return found


def _plain(value: object) -> object:
    if isinstance(value, Shape):
        return [list(value.size), value.dtype]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item) for item in value), key=str)
    raise TypeError(f"{value!r} is no part of a note")


def _parsed(records: list[Any]) -> set[Shape]:
    return {Shape(tuple(size), dtype) for size, dtype in records}

"""One call of a candidate, watched: does it run the reference, or look for its caller's things?"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import re
import sys
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from optest.guards.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

# run_torch, torch_ref, ref_topk, reference, quant_ref, golden_softmax: what references are called.
_REFERENCE = re.compile(r"run_torch.*|(.*_)?(ref|reference|golden)(_.*)?")
_SHARED = "aiter_ref"
_LOOKS = (sys._getframe, sys._current_frames, gc.get_objects, gc.get_referrers)  # noqa: SLF001
_INSPECTS = ("currentframe", "stack", "getouterframes")
_LIBRARIES = ("<", str(Path(types.__file__).parent), str(Path(torch.__file__).parent.parent))
_OURS = str(Path(__file__).parent.parent)


class Traced:
    """Calls a function under Python's profiler hook and keeps what spoke against it.

    Attributes:
        finding: the first thing that a candidate has no business doing; None if there was none.
    """

    def __init__(self, func: Callable[..., Any], test_file: str) -> None:
        self.finding: Finding | None = None
        self._own = _code_of(func)
        self._references = frozenset(_references(test_file))

    def call(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - what a kernel returns
        """Call it; another profiler that is at work stays, and nothing is watched."""
        if sys.getprofile() is not None:
            return call()
        threading.setprofile(self._saw)  # for the threads that it starts
        sys.setprofile(self._saw)
        try:
            return call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _saw(self, frame: FrameType, event: str, argument: object) -> None:
        if self.finding is not None:
            return
        if event == "call" and self._is_reference(frame):
            self.finding = Finding(
                "reference",
                f"the candidate called {frame.f_code.co_name} "
                f"({Path(frame.f_code.co_filename).name})",
                "it is the reference in other clothes, and agrees with itself",
            )
        elif self._looks_around(frame, event, argument):
            self.finding = Finding(
                "reference",
                f"the candidate searched the stack or the heap in {frame.f_code.co_name} "
                f"({Path(frame.f_code.co_filename).name}:{frame.f_lineno})",
                "what it finds there is what the test knows, not what it computed",
            )

    def _is_reference(self, frame: FrameType) -> bool:
        # A candidate that is itself called run_torch is timed openly, as a base line. What a
        # compiler has made of the reference has code of its own, under the same name.
        if frame.f_code is self._own or frame.f_code not in self._references:
            return False
        return any(isinstance(value, torch.Tensor) for value in frame.f_locals.values())

    def _looks_around(self, frame: FrameType, event: str, argument: object) -> bool:
        if event == "c_call" and argument in _LOOKS:
            return not _is_library(frame.f_code)
        if event == "call" and frame.f_code.co_name in _INSPECTS and frame.f_back is not None:
            of_inspect = frame.f_code.co_filename == inspect.__file__
            return of_inspect and not _is_library(frame.f_back.f_code)
        return False


def is_reference_name(name: str) -> bool:
    """Whether a function of this name is a reference by what such functions are called."""
    return _REFERENCE.fullmatch(name) is not None


def _references(test_file: str) -> Iterator[CodeType]:
    """The code of the shared references, and of the test file's functions that are named so."""
    for name, module in list(sys.modules.items()):
        shared = name.partition(".")[0] == _SHARED
        # Not through pathlib: there are thousands of modules.
        file = getattr(module, "__file__", None) or ""
        if not shared and file.rpartition(os.sep)[2] != test_file:
            continue
        for value in list(vars(module).values()):
            if isinstance(value, types.FunctionType) and (
                shared or is_reference_name(value.__name__)
            ):
                yield inspect.unwrap(value).__code__


def _is_library(code: CodeType) -> bool:
    return code.co_filename.startswith((*_LIBRARIES, _OURS))


def _code_of(func: object) -> CodeType | None:
    while isinstance(func, functools.partial):
        func = func.func
    return getattr(inspect.unwrap(func), "__code__", None) if callable(func) else None

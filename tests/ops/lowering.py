"""Kernels compiled ahead of time for every card, and what each must keep to."""

from __future__ import annotations

from optest.errors import BuildError
from optest.native.triton_aot import TARGETS, Request, compile_kernels


def assert_lowers(kernels):
    """``kernels(target)`` yields (``module:kernel``, signature, constants) of that card.

    All in one child process; later runs find the results in Triton's cache.
    """
    requests = [
        Request(f"optest.ops.triton.{kernel}", signature, constants, target)
        for target in TARGETS
        for kernel, signature, constants in kernels(target)
    ]
    answers = compile_kernels(requests)
    assert answers
    refused = [str(answer) for answer in answers if isinstance(answer, BuildError)]
    assert not refused, "\n".join(refused)
    # Nothing that a card of this kind cannot launch: 64 KiB is the smallest local memory of all.
    assert max(answer.shared_bytes for answer in answers) <= 64 << 10
    assert [(a.kernel, a.target) for a in answers if a.spills] == []

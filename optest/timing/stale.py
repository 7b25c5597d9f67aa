"""The kernel gave the same bits for other inputs: proof that it did not look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optest.errors import MemoisedError
from optest.tensors import Snapshot, bits, storage_of, tensors_in
from optest.timing.outputs import copies, same
from optest.timing.reach import direct_tensors, elsewhere

if TYPE_CHECKING:
    from optest.timing.controls import Controls
    from optest.timing.fresh import FloatInputs

_SAME = "its outputs stay the same bit for bit when its floating-point inputs change"


def check(controls: Controls, floats: FloatInputs, answer: Any) -> None:  # noqa: ANN401
    """Refuse where one of three things holds of a kernel whose output has not followed its inputs.

    1. It returns memory of its own that it has handed out before, and writes nothing into it.
    2. It gives another answer for the same values in other memory: it goes by the address.
    3. All its outputs are floating-point, so is an argument of the call, and every such input has
       changed. A kernel that makes a table from a shape does the same; for that there is
       ``Plan(controls=False)``.

    Raises:
        MemoisedError: the kernel remembers its answers.
    """
    if _hands_out_again(controls, answer):
        raise MemoisedError(f"the kernel remembers its answers: {_SAME}, and it wrote no output")
    if _goes_by_address(controls, answer):
        raise MemoisedError(
            f"the kernel remembers its answers: {_SAME}, and the same values in other memory give "
            "another answer"
        )
    made = controls.outputs(answer)
    direct = direct_tensors(controls.target.func, controls.target.sets[0])
    given = any(tensor.is_floating_point() for tensor in direct)
    if floats.complete and given and all(tensor.is_floating_point() for tensor in made):
        raise MemoisedError(
            f"the kernel does not look at its inputs: {_SAME}; if it needs only their shapes, "
            "measure it with controls=False"
        )
    controls.notes.append(f"{_SAME}: they may be remembered")


def _hands_out_again(controls: Controls, answer: Any) -> bool:  # noqa: ANN401
    """Spoil what was returned and call again: is it returned once more, still spoilt?"""
    made = controls.allocated(answer)
    if not made:
        return False
    held = Snapshot(made)
    try:
        for tensor in made:
            pattern = bits(tensor.detach().contiguous()).bitwise_not()
            bits(tensor.detach()).copy_(pattern)
        spoilt = copies(made)
        again = controls.allocated(controls.call())
        places = [storage_of(tensor) for tensor in made]
        return places == [storage_of(tensor) for tensor in again] and same(spoilt, again)
    finally:
        held.restore()


def _goes_by_address(controls: Controls, answer: Any) -> bool:  # noqa: ANN401
    """Call twice on copies of the inputs: do the copies agree with each other but not with it?"""
    here = copies(controls.outputs(answer))
    results = []
    for _ in range(2):
        controls.inputs.restore_written()
        func, (args, kwargs) = elsewhere(controls.target.func, controls.target.sets[0])
        before = Snapshot(tensors_in(func, args, kwargs))
        data = func(*args, **kwargs)
        controls.calls += 1
        own = {storage_of(tensor) for tensor in direct_tensors(func, (args, kwargs))}
        made = [tensor for tensor in tensors_in(data) if storage_of(tensor) not in own]
        results.append([*made, *before.changed()])
    return (
        len(results[0]) == len(here) and same(results[0], results[1]) and not same(results[0], here)
    )

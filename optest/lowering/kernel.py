"""Compile one launch for one card, and say what came of it."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import time
import uuid
from typing import Any

from optest.lowering.binary import excess, facts
from optest.lowering.card import Card
from optest.lowering.launches import Launch

FORM = 1  # of what is kept: raised when it changes, so that older entries are not read
_LONGEST_WORDS = 4000


def key(launch: Launch, card: Card) -> str:
    """Digest of the kernel with all that it calls, specialisation, options, card and Triton."""
    import triton

    try:
        source = launch.source.hash()
    except Exception:  # noqa: BLE001 - it names something that cannot be hashed, nor lowered
        source = uuid.uuid4().hex  # the words come when it is compiled, from no cache
    parts = (
        str(FORM),
        triton.__version__,
        card.name,
        launch.kernel,
        launch.specialisation,
        source,
        launch.options.hash(),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def compiled(launch: Launch, card: Card) -> dict[str, Any]:
    """Its facts, with the ``excess`` of the card's limits; or the compiler's ``error``."""
    import triton

    triton.knobs.nvidia.dump_ptxas_log = True
    triton.knobs.compilation.always_compile = True
    said = io.StringIO()
    begin = time.perf_counter()
    try:
        with contextlib.redirect_stdout(said):
            made = triton.compile(
                launch.source, target=card.triton(), options=dict(vars(launch.options))
            )
    except Exception as error:  # noqa: BLE001 - the compiler's words are the result
        return {"error": _words(error)[:_LONGEST_WORDS]}
    found = facts(card, made, said.getvalue(), time.perf_counter() - begin)
    return {**dataclasses.asdict(found), "excess": excess(card, found)}


def _words(error: BaseException) -> str:
    """An exception with its causes: Triton wraps the one that says what is wrong."""
    words = f"{type(error).__name__}: {error}".strip()
    return words if error.__cause__ is None else f"{words}\n{_words(error.__cause__)}"

"""Text and JSON as every database can hold them, and back again."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_LONGEST = 200_000  # of a failure's text, in characters
# PostgreSQL refuses NUL, and lone surrogates have no UTF-8. Text that holds either is stored as the
# inside of a JSON string behind a character that Unicode promises never to assign.
_ESCAPED = "\ufdd0"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

# A spreadsheet takes text that begins so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

_encode = json.JSONEncoder(allow_nan=False, check_circular=False).encode


def stored(text: str) -> str:
    """``text`` as a column can hold it; ``restored`` is the inverse."""
    if text.isascii() and "\x00" not in text:
        return text
    if text.startswith(_ESCAPED) or _UNSTORABLE.search(text):
        return _ESCAPED + json.dumps(text)[1:-1]
    return text


def restored(text: str) -> str:
    """What ``stored`` was given."""
    if not text.startswith(_ESCAPED):
        return text
    inside = text[len(_ESCAPED) :]
    value = json.loads(f'"{inside}"')
    assert isinstance(value, str)
    return value


def bounded(text: str, longest: int = _LONGEST) -> str:
    """``text``, of which the middle is left out where it is longer than ``longest`` characters."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def spreadsheet_safe(text: str) -> str:
    """``text`` as a cell of CSV that no spreadsheet runs."""
    text = text.replace("\x00", "\\0")
    return f"'{text}" if text.startswith(_FORMULA) else text


def dumps(value: object) -> str:
    """``value`` as JSON in plain ASCII: NaN as null, infinities as text, no NUL, no surrogate."""
    try:
        return _encode(value)
    except ValueError:
        return _encode(finite(value))


def loads(text: str) -> Any:  # noqa: ANN401 - any JSON type
    """What ``dumps`` was given."""
    return json.loads(text)


def finite(value: object) -> object:
    """``value`` with NaN as None and infinities as text, as the events have them."""
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value

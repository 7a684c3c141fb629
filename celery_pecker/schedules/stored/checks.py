"""Check single fields of a stored schedule, and of an edit of one. Pure."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from celery_pecker.kernel.declared import is_whole
from celery_pecker.kernel.errors import InvalidField
from celery_pecker.schedules.declarations import storable

MAX_BYTES = 65_536
"""Of args, kwargs and options, each as JSON."""
WHOLE = 1e16
"""From here on PostgreSQL brings floats of JSON back as whole numbers."""
MAX_BY = 200
"""Characters of the name of an edit's user."""


def check_name(name: object) -> str:
    """Return the name of an entry.

    Raises:
        InvalidField: PostgreSQL could not hold it.
    """
    if not isinstance(name, str) or not storable(name):
        refuse("name", name, "a text of 1 to 1000 bytes of UTF-8 without NUL")
    return name


def check_by(by: object) -> str | None:
    """Return the user of an edit; None: the database's user."""
    if by is None:
        return None
    if not isinstance(by, str) or not by or len(by) > MAX_BY or not storable(by):
        refuse("by", by, f"a text of 1 to {MAX_BY} characters without NUL")
    return by


def check_version(version: Any) -> int | None:
    """Return the version that an edit is for; None: whichever there is."""
    if version is None:
        return None
    if not is_whole(version, 0):
        refuse("version", version, "a whole number from 0 (there must be none) on")
    return int(version)


def refuse(field: str, value: object, allowed: str) -> NoReturn:
    """Raise InvalidField with what is allowed."""
    text = repr(value)
    shown = text if len(text) <= MAX_BY else f"{text[:MAX_BY]}…"
    message = f"{field} is {shown}; allowed is {allowed}"
    raise InvalidField(message, field=field)


def checked_json(field: str, value: Any, kind: type) -> Any:
    """Return a value as JSON brings it back.

    Raises:
        InvalidField: JSON or PostgreSQL cannot hold it.
    """
    if not isinstance(value, kind):
        refuse(field, value, "a list or tuple" if kind is list else "a dict")
    try:
        text = json.dumps(value, allow_nan=False)
        document = json.loads(text)
        same = document == _without_tuples(value)
    except (TypeError, ValueError, RecursionError) as error:
        # The text of what is nested too deep would raise once more.
        shown = "nested too deep" if isinstance(error, RecursionError) else value
        refuse(field, shown, f"what JSON can hold ({error})")
    if _has_whole_float(document):
        refuse(
            field, value, "floats below 1e16: larger ones come back as whole numbers"
        )
    if not same:
        refuse(field, value, "what JSON brings back as it was: keys that are texts")
    if "\\u0000" in text or not _encodable(text):
        refuse(field, value, "text that PostgreSQL can hold: no NUL, no half of a pair")
    if len(text) > MAX_BYTES:
        message = f"{field} has {len(text)} bytes as JSON; allowed are {MAX_BYTES}"
        raise InvalidField(message, field=field)
    return document


def _has_whole_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(_has_whole_float, value))
    return isinstance(value, float) and abs(value) >= WHOLE


def _without_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_tuples(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_tuples(one) for one in value]
    return value


def _encodable(text: str) -> bool:
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True

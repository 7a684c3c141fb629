"""Why a job failed, as JSON: its exception can be made again in another process."""

from __future__ import annotations

from collections.abc import Mapping
from traceback import format_exception
from typing import Any

from celery_sharding.codec import encode
from celery_sharding.errors import ItemNotSerializable, ShardingError

LONGEST = 10_000
"""Characters of a message, and of a traceback: of that one the end."""


def reason_of(error: BaseException) -> dict[str, Any]:
    """Return code, type, module, args, message and traceback of an exception."""
    kind = type(error)
    return {
        "code": getattr(error, "code", "") if isinstance(error, ShardingError) else "",
        "type": kind.__qualname__,
        "module": kind.__module__,
        "args": [_plain(one) for one in error.args],
        "message": _storable(str(error))[:LONGEST],
        "traceback": _storable("".join(format_exception(error)))[-LONGEST:],
    }


def as_celery(reason: Mapping[str, Any]) -> dict[str, Any]:
    """Return it as Celery's result backends write an exception."""
    return {
        "exc_type": reason["type"],
        "exc_module": reason.get("module"),
        "exc_message": reason.get("args", [reason.get("message", "")]),
    }


def _plain(value: Any) -> Any:
    """Return what can be stored: an argument that is no JSON as what it says."""
    if isinstance(value, str):
        return _storable(value)[:LONGEST]
    try:
        size = len(encode(value))
    except ItemNotSerializable:
        size = LONGEST + 1
    if size > LONGEST or not isinstance(value, bool | int | float | None):
        return _storable(repr(value))[:LONGEST]
    return value


def _storable(text: str) -> str:
    """Return text that PostgreSQL takes: no NUL, no half of a surrogate pair."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()

"""Why a job failed, as JSON: its exception can be rebuilt in another process."""

from collections.abc import Mapping
from traceback import format_exception
from typing import Any

from celery_pecker.kernel.user_code import call
from celery_sharding.errors import ShardingError

LONGEST = 10_000
"""Characters of a message, and of a traceback: of that one the end."""
LARGE = 1e300
"""Numbers from here on are stored as text."""


def reason_of(error: BaseException) -> dict[str, Any]:
    """Return code, type, module, args, message and traceback of an exception."""
    kind = type(error)
    name = kind.__qualname__
    # Users' classes: describing a failure may fail itself, and must not lose it.
    trace = call(f"the traceback of {name}", [name], format_exception, error)
    return {
        "code": error.code if isinstance(error, ShardingError) else "",
        "type": name,
        "module": kind.__module__,
        "args": [_plain(one) for one in error.args],
        "message": _storable(call(f"str() of {name}", name, str, error))[:LONGEST],
        "traceback": _storable("".join(trace))[-LONGEST:],
    }


def as_celery(reason: Mapping[str, Any]) -> dict[str, Any]:
    """Return it as Celery's result backends write an exception."""
    return {
        "exc_type": reason["type"],
        "exc_module": reason.get("module"),
        "exc_message": reason.get("args", [reason.get("message", "")]),
    }


def _plain(value: Any) -> Any:
    """Return an argument as JSON of PostgreSQL has it; another as its repr."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) < LARGE:  # NaN is not
        return value
    if isinstance(value, str):
        return _storable(value)[:LONGEST]
    text = call("repr() of an exception's argument", type(value).__name__, repr, value)
    return _storable(text)[:LONGEST]


def _storable(text: str) -> str:
    """Return text that PostgreSQL takes: no NUL, no half of a surrogate pair."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()

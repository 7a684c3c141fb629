"""What a command prints for programs: JSON, the same for all of them."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from celery_pecker.kernel.clock import from_us
from celery_pecker.surfaces.console.instants import for_programs

INSTANTS = {
    "at_us",
    "claimed_us",
    "declared_until_us",
    "due_us",
    "holder_seen_us",
    "last_us",
    "next_us",
    "now_us",
    "seen_us",
    "since_us",
    "started_us",
}
"""Fields that are instants; the other ``_us`` are lengths of time."""


def plain(value: object) -> Any:
    """Return a value as JSON has it.

    Instants as `instants.for_programs` has them, lengths of time in seconds; an instant
    ``x_us`` gets its ``x``.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        known = {str(key): plain(value) for key, value in value.items()}
        seen = {key.removesuffix("_us"): known[key] for key in known if key in INSTANTS}
        return {**known, **{key: instant(us) for key, us in seen.items()}}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return _single(value)


def _single(value: object) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return for_programs(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def instant(us: int | None) -> str | None:
    """Return an instant as programs get it."""
    return None if us is None else for_programs(from_us(us))

"""What a command prints for programs: JSON, the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from celery_pecker.surfaces.console.instants import for_programs


def plain(value: object) -> Any:
    """Return a value as JSON has it.

    Instants as `instants.for_programs` has them, lengths of time in seconds.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(value) for key, value in value.items()}
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

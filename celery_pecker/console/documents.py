"""What a command prints for programs: JSON, the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from celery_pecker.console.instants import for_programs


def plain(found: object) -> Any:
    """Return something as JSON can say it.

    Instants as `instants.for_programs` has them, lengths of time in seconds.
    """
    if is_dataclass(found) and not isinstance(found, type):
        return plain(asdict(found))
    if isinstance(found, Mapping):
        return {str(key): plain(value) for key, value in found.items()}
    if isinstance(found, tuple) and hasattr(found, "_asdict"):
        return plain(found._asdict())
    if isinstance(found, (list, tuple)):
        return [plain(one) for one in found]
    return _single(found)


def _single(found: object) -> Any:
    if isinstance(found, Enum):
        return found.value
    if isinstance(found, datetime):
        return for_programs(found)
    if isinstance(found, timedelta):
        return found.total_seconds()
    if found is None or isinstance(found, (bool, int, float, str)):
        return found
    return str(found)

"""Asking a processor's gate whether the database that items touch has room."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.utils.imports import symbol_by_name

from celery_pecker.kernel import user_code
from celery_sharding.processor import Processor

SOON = 1.0
"""Seconds until it is asked once more, where the gate names no time."""
OPEN = (True, 0.0)


def admitted(
    processor: Processor, app: Celery, path: str | None = None
) -> float | None:
    """Return None where shards may run, else the seconds until the next question.

    `path` leads to what makes the gate of tasks that have none of their own. A gate
    that fails lets pass, and is logged: it is there to be polite.
    """
    database = processor.options.database or _named(processor.throttle)
    if database is None or (processor.gate is None and path is None):
        return None
    passes, retry_in = user_code.call(
        f"the gate of {processor.name}", OPEN, _ask, processor, database, app, path
    )
    return None if passes else retry_in


def _named(throttle: object) -> str | None:
    database = throttle[0] if isinstance(throttle, tuple) and throttle else throttle
    return database if isinstance(database, str) else None


def _ask(
    processor: Processor, database: str, app: Celery, path: str | None
) -> tuple[bool, float]:
    gate = processor.gate
    if gate is None and path is not None:
        gate = processor.gate = symbol_by_name(path)(app)
    if isinstance(gate, type) or not hasattr(gate, "admit"):
        # Made in the process that uses it, not in the one that imports the task.
        gate = processor.gate = gate()
    answer: Any = gate.admit(database, 1.0)
    if isinstance(answer, bool):
        return answer, SOON
    passes, retry_in = bool(answer[0]), answer[-1]
    return passes, max(float(retry_in), 0.05)

"""Headers of messages about runs and deadlines.

`pecker` comes with the message of a slot: which one it is, and by when its run must
have ended. `pecker_deadline` goes with every message that is sent while a deadline is
in force: what the sender has left, and on behalf of which run. Both are read by the
guard (celery_pecker.runs.guard); what cannot be read is left aside and logged, since
a worker that refuses other people's headers would stop other people's work.
"""

import logging
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery_pecker.kernel.clock import to_us
from celery_pecker.runs.run import Run

logger = logging.getLogger(__name__)

PECKER = "pecker"
DEADLINE = "pecker_deadline"

NAMESPACE = uuid.UUID("5c0ff3ab-9a1d-5d5e-8f0b-7e6a3c1d2b49")
"""Of the task ids of slots (I5), as in celery_pecker.schedules.engine.model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """A sender's deadline, from its message."""

    at: datetime
    """The instant, by the database's clock where the sender knew it."""
    left: float
    """Seconds that the sender had left when it sent."""
    run: Run | None
    """The run on whose behalf it was sent."""


def read(header: object, *, schema: str, attempt: int = 0) -> Run | None:
    """Return the run of a `pecker` header; None: it has none."""
    if not isinstance(header, Mapping):
        return None
    try:
        deadline = header.get("deadline")
        ends = None if deadline is None else _instant(deadline)
        return _run(header, deadline=ends, attempt=attempt, schema=schema)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        logger.warning("pecker: header %r cannot be read: %r", PECKER, error)
        return None


def is_requested(header: object) -> bool:
    """Return whether this run was requested, beside the grid."""
    return isinstance(header, Mapping) and bool(header.get("asked"))


def belongs(run: Run, task_id: object) -> bool:
    """Return whether a message with this id is the slot's own.

    A task that passes its headers on to its subtasks makes no new runs of the
    slot: their ids are others. A retry keeps the id.
    """
    name = f"{run.schema}\0{run.name}\0{run.due_us}\0{run.era}"
    return str(task_id) == str(uuid.uuid5(NAMESPACE, name))


def deadline_header(left: float, at: datetime, run: Run | None) -> dict[str, Any]:
    """Return the `pecker_deadline` header of a message that is sent now."""
    header: dict[str, Any] = {
        "at": at.isoformat(timespec="microseconds"),
        "left": round(left, 6),
    }
    if run is not None:
        header |= {
            "name": run.name,
            "due_at": run.due_at.isoformat(timespec="microseconds"),
            "era": run.era,
            "epoch": run.epoch,
            "attempt": run.attempt,
        }
    return header


def inherited(header: object, *, schema: str) -> Inherited | None:
    """Return the content of a `pecker_deadline` header; None: it has none."""
    if not isinstance(header, Mapping):
        return None
    try:
        at, left = _instant(header["at"]), float(header["left"])
        if math.isnan(left):
            message = f"{header['left']!r} is no number of seconds"
            raise ValueError(message)  # noqa: TRY301  # one place for what cannot be read
        run = None
        if "name" in header:
            attempt = int(header.get("attempt", 0))
            facts = {"deadline": at, "attempt": attempt, "schema": schema}
            run = _run(header, **facts, inherited=True)
        return Inherited(at=at, left=left, run=run)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        logger.warning("pecker: header %r cannot be read: %r", DEADLINE, error)
        return None


def _run(header: Mapping[str, Any], **facts: Any) -> Run:
    return Run(
        name=str(header["name"]),
        due_at=_instant(header["due_at"]),
        era=int(header["era"]),
        epoch=int(header["epoch"]),
        **facts,
    )


def _instant(text: Any) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.utcoffset() != timedelta(0):
        raise ValueError(f"{text!r} is no instant in UTC")
    to_us(instant)
    return instant

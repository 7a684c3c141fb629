"""A message whose connection broke while the worker had it, and what its pool has.

On a broken connection Celery empties its own lists of what waits, and asks the pool to
drop what no process has accepted. Only prefork can; threads, greenlets and solo go on
with all they were given.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from celery.concurrency.prefork import TaskPool as Prefork


class Disposition(StrEnum):
    """What becomes of a held message over the next connection."""

    OPEN = "open"
    """Not decided: the pool has not been asked yet."""
    KEPT = "kept"
    """The pool has it; its own acknowledgement will decide."""
    DONE = "done"
    """Acknowledged or rejected: forgotten by Redis."""
    BACK = "back"
    """Not started: first in its queue again."""
    LAST = "last"
    """Rejected by a run that asks for another one: last in its queue."""


SETTLED_BY_US = frozenset({Disposition.DONE, Disposition.BACK, Disposition.LAST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A message of a lost connection."""

    tag: str
    message: Any
    lost_at: float
    """Seconds since 1970, as kombu stamps deliveries: a later stamp is another's."""
    disposition: Disposition = Disposition.OPEN
    request: Any = None
    """Celery's request, if the message was handed to the pool."""
    recorded: bool = True
    """False if the connection broke between the fetch and the record in `unacked`."""


def sent(pool: Any) -> list[Any]:
    """Return jobs on their way to a process: written, or begun, not yet accepted.

    Celery drops these too, but the process runs what arrives. To be asked before the
    pool is flushed.
    """
    return [
        job
        for job in _jobs(pool).values()
        if not job._accepted and job._write_to is not None  # noqa: SLF001
    ]


def put_back(pool: Any, jobs: list[Any]) -> None:
    """Return to the pool those of the jobs that a live process will run.

    Without this their acceptance and their result are thrown away, a message that is
    running would count as not started, and its process as idle.
    """
    if not jobs:
        return
    billiard = pool._pool  # noqa: SLF001
    for job in jobs:
        process = job._write_to  # noqa: SLF001
        if not job.ready() and process._is_alive():  # noqa: SLF001
            billiard._cache.setdefault(job._job, job)  # noqa: SLF001
            billiard._busy_workers.add(process.inqW_fd)  # noqa: SLF001


def has(pool: Any, request: Any) -> bool:
    """Return whether the pool runs the request or will run it."""
    if request._already_cancelled or request._apply_result is None:  # noqa: SLF001
        # Terminated because the connection broke; or it never came to the pool.
        return False
    if not isinstance(pool, Prefork):
        return True
    job = request._apply_result()  # noqa: SLF001 — a weak reference
    return job is not None and job._job in _jobs(pool)  # noqa: SLF001


def _jobs(pool: Any) -> dict[int, Any]:
    if not isinstance(pool, Prefork):
        return {}
    billiard: Any = getattr(pool, "_pool", None)
    return billiard._cache if billiard is not None else {}  # noqa: SLF001

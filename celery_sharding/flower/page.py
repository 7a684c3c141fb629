"""What the pages are, what they read and what can be done on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from celery import Celery

from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.surfaces.flower.pages import Page, Query, Source
from celery_sharding.errors import InstanceNotFound, JobNotFound
from celery_sharding.flower import payloads
from celery_sharding.ledger import Ledger, ledger_of_thread
from celery_sharding.messages import WORK
from celery_sharding.overview import take_snapshot

FOLDER = Path(__file__).parent
ROWS = 50
"""On one page of the list."""
DIGITS = 18
"""Of a number in an address, at most: PostgreSQL's end there."""
SHARD_DIGITS = 9
Answer = TypeVar("Answer")


def ledger_of(source: Source) -> Ledger:
    """Return this thread's own ledger."""
    return ledger_of_thread(source.settings, role="flower")


def asked(source: Source, question: Callable[[Ledger], Answer]) -> Answer:
    """Return the answer, from a connection that may have been dropped meanwhile."""
    ledger = ledger_of(source)
    stood = ledger.database.connected
    try:
        return question(ledger)
    except DatabaseUnavailable:
        if not stood:
            raise
        # The server was restarted since the last question, unnoticed here.
        return question(ledger)


def read_jobs(source: Source, query: Query) -> dict[str, Any]:
    """Return one page of the jobs, the youngest first, and the figures of all."""

    def question(ledger: Ledger) -> dict[str, Any]:
        totals = ledger.reading.totals()
        rows = ledger.reading.jobs(
            open_only=query.get("open") == "1",
            search=query.get("search", "").replace("\0", "").strip(),
            before=number(query, "before"),
            most=ROWS + 1,
        )
        return {
            "now": payloads.us(totals.now),
            "totals": {**totals._asdict(), "now": payloads.us(totals.now)},
            "rows": [payloads.job(row) for row in rows[:ROWS]],
            "more": len(rows) > ROWS,
        }

    return asked(source, question)


def read_job(source: Source, query: Query) -> dict[str, Any] | None:
    """Return one job, with the shard that was chosen; None: there is no such job."""
    origin = number(query, "origin", SHARD_DIGITS)
    place = number(query, "place", SHARD_DIGITS)
    first = (-1, -1) if origin is None or place is None else (origin, place)

    def question(ledger: Ledger) -> dict[str, Any] | None:
        try:
            seen = take_snapshot(ledger, query.get("id", ""), errors_after=first)
        except JobNotFound:
            return None
        chosen = number(query, "shard", SHARD_DIGITS)
        return {
            **payloads.detail(seen),
            "shard": _chosen(ledger, seen.row.leading, chosen),
        }

    return asked(source, question)


def _chosen(ledger: Ledger, job: int, shard: int | None) -> dict[str, Any] | None:
    if shard is None:
        return None
    try:
        return payloads.shard(ledger.reading.shard(job, shard))
    except InstanceNotFound:
        return None


def number(query: Query, name: str, digits: int = DIGITS) -> int | None:
    """Return a whole number of an address; None: there is none."""
    text = query.get(name, "")[:digits]
    sign, plain = ("-", text[1:]) if text.startswith("-") else ("", text)
    return int(sign + plain) if plain.isascii() and plain.isdigit() else None


# What can be done: over a new connection, since it must not be done twice.


def pause(source: Source, name: str, by: str) -> dict[str, Any]:
    """Let no further item of the job begin."""
    del by
    _anew(source, name).control.pause(name)
    return {"message": "Paused: workers stop at their next item."}


def resume(source: Source, name: str, by: str) -> dict[str, Any]:
    """Let the job go on."""
    del by
    _anew(source, name).control.resume(name)
    return {"message": "It goes on where it stopped."}


def cancel(source: Source, name: str, by: str) -> dict[str, Any]:
    """End the job."""
    del by
    _anew(source, name).control.cancel(name)
    return {"message": "Cancelled: workers stop at their next item."}


def retry(source: Source, name: str, by: str) -> dict[str, Any]:
    """Run the failed items once more."""
    del by
    items = _anew(source, name).control.retry_failed(name)
    return {"message": f"{items:,} items run again." if items else "No item is left."}


def _anew(source: Source, name: str) -> Ledger:
    """Return a ledger with a new connection, if it knows that job."""
    ledger = ledger_of(source)
    ledger.close()
    ledger.reading.job(name)
    return ledger


ACTS = {"pause": pause, "resume": resume, "cancel": cancel, "retry": retry}


def wanted(app: Celery) -> bool:
    """Return whether an app has sharded tasks: one may use schedules alone."""
    return bool(app.conf.get("pecker_dsn")) and WORK in app.tasks


def figures(app: Celery) -> Iterable[Any]:
    """Return the figures of an app's jobs; none where it has no sharded tasks."""
    if not wanted(app):
        return ()
    from celery_sharding.metrics import read  # noqa: PLC0415  # needs prometheus-client

    return read(app)


UNREAD = "The sharded jobs cannot be read"
COMFORT = (
    "This says nothing about the jobs themselves: workers that reach the database go"
    " on."
)
JOBS = Page(
    name="sharding",
    title="Sharded jobs",
    url="/sharding",
    template="jobs.html",
    read=read_jobs,
    acts=ACTS,
    folder=FOLDER,
    shown=wanted,
    figures=figures,
    unread=UNREAD,
    comfort=COMFORT,
)
JOB = Page(
    name="sharding-job",
    title="Sharded job",
    url="/sharding/job",
    template="job.html",
    read=read_job,
    acts=ACTS,
    under="sharding",
    folder=FOLDER,
    unread=UNREAD,
    comfort=COMFORT,
)
PAGES = (JOBS, JOB)

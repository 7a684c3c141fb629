"""Reads jobs: for people, for Post, for waiting callers. It locks and decides nothing.

Every statement is one snapshot, and finds its rows by an index on the job.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.error_groups import Seen
from celery_sharding.codec import decode
from celery_sharding.errors import DatabaseUnavailable, InstanceNotFound, JobNotFound
from celery_sharding.ledger.base import R, Repository, record
from celery_sharding.ledger.rows import (
    ErrorRow,
    Grid,
    JobFigures,
    JobRow,
    Part,
    ResultRow,
    ShardRow,
    Totals,
    grid_of,
)
from celery_sharding.ledger.upkeep import FRESH
from celery_sharding.model import (
    Code,
    ItemError,
    LayerProgress,
    Outcome,
    Progress,
    Stage,
)

STALL_TIMEOUT = 30.0
"""Seconds after which what is ready or claimed, and does not move, is shown as such."""
RETRY_INTERVAL = 0.5
"""Seconds until a question without an answer is asked once more."""
PAGE = 500
"""Errors, and writes of results, that are read at once."""
PAGE_BYTES = 4_000_000
"""Results that are read at once; one write is read in any case."""
EVERY_SHARD = -1
"""Before the first."""
ANY: Mapping[str, object] = {
    "shard": None,
    "codes": None,
    "layer": None,
    "after": EVERY_SHARD,
    "oldest": False,
}
"""Which shards are asked for, by default."""
EVERY_JOB: Mapping[str, object] = {
    **dict.fromkeys(("task_id", "search", "task", "state", "until", "before")),
    "open_only": False,
}
"""Which jobs: `search`, part of name, key or task id; `until`, submitted by then; those
`before` a younger one."""


class Errors(Repository):
    """Failed items of a job, in the order of their places."""

    def errors(
        self, job: int, *, after: tuple[int, int] = (-1, -1), most: int = PAGE
    ) -> list[ErrorRow]:
        """Return failed items behind the place (origin, place), in that order."""
        origin, place = after
        params = {"job": job, "origin": origin, "place": place, "most": most}
        return self._read(record(_error), "list_errors", **params)

    def each_seen(self, job: int) -> Iterator[Seen]:
        """Yield all failed items as what is grouped, by their places."""
        for origin, place, error in self.each_row(job):
            shard = f"{error.shard:,}"
            known = (error.type, error.message, error.traceback, error.at)
            yield Seen((origin, place), shard, *known)

    def each_row(self, job: int) -> Iterator[ErrorRow]:
        """Yield all of them, in memory of one page."""
        after = (-1, -1)
        while page := self.errors(job, after=after):
            yield from page
            after = (page[-1].origin, page[-1].place)


class Reading(Errors):
    """Questions to the ledger that change nothing."""

    def __init__(self, database: Database, *, waits: float = 0.0) -> None:
        """Take the database; retry an unanswered query for ``waits`` seconds."""
        super().__init__(database)
        self._waits = waits

    def _read(self, of: Callable[..., R], label: str, **params: object) -> list[R]:
        """Run a statement; retry it if a connection had died since it was last used.

        A restart of PostgreSQL an hour ago is no reason to fail a caller now.
        """
        stood = self.database.connected
        until = monotonic() + self._waits
        while True:
            try:
                return super()._read(of, label, **params)
            except DatabaseUnavailable:
                if not stood and monotonic() >= until:
                    raise
            if not stood:
                threading.Event().wait(RETRY_INTERVAL)
            stood = False

    def job(self, task_id: str) -> JobRow:
        """Return a job; raise JobNotFound."""
        rows = self.jobs(task_id=task_id, most=1) if _is_text(task_id) else []
        if not rows:
            raise JobNotFound(f"no sharded job has the task id {task_id!r}")
        return rows[0]

    def jobs(self, *, most: int = 50, **asked: object) -> list[JobRow]:
        """Return the youngest jobs of which all is true that is asked (`EVERY_JOB`)."""
        params = {**EVERY_JOB, **asked, "most": most, "fresh": FRESH}
        return self._read(record(JobRow), "list_jobs", **params)

    def layers(self, job: int) -> list[LayerProgress]:
        """Return a job's layers, in their order."""
        return self._read(LayerProgress, "list_layers", job=job)

    def progress(self, task_id: str) -> Progress:
        """Return how far a job is, in two statements; raise JobNotFound."""
        row = self.job(task_id)
        return row.progress(tuple(self.layers(row.leading)))

    def grid(self, job: int) -> Grid:
        """Return how all shards of a job stand."""
        parts = self._read(Part, "read_grid", job=job, stall_timeout=STALL_TIMEOUT)
        return grid_of(parts)

    def shards(
        self,
        job: int,
        *,
        status: Sequence[Code] | Code | None = None,
        layer: int | None = None,
        after: int = EVERY_SHARD,
        most: int = 100,
    ) -> list[ShardRow]:
        """Return shards above `after` by their number, with their derived codes."""
        wanted = [status] if isinstance(status, Code) else status
        codes = None if wanted is None else [int(code) for code in wanted]
        return self._shards(job, codes=codes, layer=layer, after=after, most=most)

    def shard(self, job: int, number: int) -> ShardRow:
        """Return one shard; raise InstanceNotFound."""
        rows = self._shards(job, shard=number, most=1)
        if not rows:
            raise InstanceNotFound(f"the job has no shard {number}")
        return rows[0]

    def stragglers(self, job: int, *, most: int = 20) -> list[ShardRow]:
        """Return the shards that were claimed and have not ended, the longest first."""
        return self._shards(job, oldest=True, most=most)

    def results(
        self, job: int, *, after: tuple[int, int] = (-1, -1), most: int = PAGE
    ) -> list[ResultRow]:
        """Return results behind the place (shard, at), of bounded size."""
        shard, at = after
        return self._read(
            ResultRow,
            "list_results",
            job=job,
            shard=shard,
            at=at,
            most=most,
            bytes=PAGE_BYTES,
        )

    def each_error(self, task_id: str) -> Iterator[ItemError]:
        """Yield all failed items, one by one, in memory of one page."""
        for row in self.each_row(self.job(task_id).leading):
            yield row.error

    def each_result(self, task_id: str) -> Iterator[Any]:
        """Yield all results, one by one, in memory of one page as it is stored.

        And of one write decoded: results may be ten times as large as they are stored.
        """
        job, after = self.job(task_id).leading, (-1, -1)
        while page := self.results(job, after=after):
            after = (page[-1].shard, page[-1].at)
            for row in page:
                yield from row.values

    def figures(self) -> JobFigures:
        """Return the figures of all jobs for monitoring, in two statements."""
        [row] = self._read(dict[str, Any], "read_figures")
        totals = self.totals()
        return JobFigures(
            stages={one.value: row[one] for one in Stage if one is not Stage.ENDED},
            outcomes={one.value: getattr(totals, one) for one in Outcome},
            items={name: row[name] for name in ("total", "done", "failed")},
            tickets={"held": totals.held, "sent": row["sent"]},
            paused=totals.paused,
            oldest=row["oldest"],
            overdue=row["overdue"],
            overdue_seconds=row["overdue_seconds"],
            executors=totals.executors,
            slots=totals.slots,
        )

    def totals(self) -> Totals:
        """Return the figures of all jobs at once."""
        [totals] = self._read(Totals, "read_totals", fresh=FRESH)
        return totals

    def _shards(self, job: int, *, most: int, **asked: object) -> list[ShardRow]:
        return self._read(
            record(ShardRow),
            "list_shards",
            job=job,
            most=most,
            stall_timeout=STALL_TIMEOUT,
            **{**ANY, **asked},
        )


def _is_text(text: str) -> bool:
    """Return whether PostgreSQL can have the text: no NUL, no half surrogate pair."""
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def _error(*, origin: int, place: int, item: bytes | None, **columns: Any) -> ErrorRow:
    shown = None if item is None else decode(item)
    return ErrorRow(origin, place, ItemError(item=shown, place=place, **columns))

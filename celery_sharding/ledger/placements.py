"""Shards that belong to workers: their owners, and tickets that reach them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from celery_sharding.ledger.base import Repository
from celery_sharding.ledger.upkeep import FRESH, Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedTicket:
    """A ticket that is to be published, and where."""

    ticket: int
    seq: int
    queue: str | None
    """The queue of the worker whose shards wait; None: that of the job."""


class Placements(Repository):
    """Jobs with ``placement="even"``."""

    def serving(self, queues: Sequence[str] | None) -> list[Executor]:
        """Return the live workers that consume from one of these queues, by name.

        None: it is not known which the job's are; then those of any.
        """
        rows = self._run(
            "serving_executors",
            fresh=FRESH,
            queues=None if queues is None else [*queues],
        )
        return [Executor(*row) for row in rows]

    def orphans(self, *, most: int = 100_000) -> dict[int, list[int]]:
        """Return the open shards, by job, whose worker is gone or has no queue now."""
        by_job: dict[int, list[int]] = {}
        for job, shard in self._run("orphaned_shards", fresh=FRESH, most=most):
            by_job.setdefault(job, []).append(shard)
        return by_job

    def deal(self, job: int, owners: Sequence[tuple[int, str | None]]) -> int:
        """Assign those shards to those workers, or to any (None); return how many."""
        return self._change(
            "deal_shards",
            job=job,
            shards=[shard for shard, _ in owners],
            owners=[owner for _, owner in owners],
        )

    def release_worker(self, job: int, hostname: str) -> int:
        """Free what was assigned to that worker; return how many shards."""
        return self._change("release_shards", job=job, hostname=hostname)

    def to_publish(
        self, job: int, *, slots: int | None, resend: float
    ) -> list[AddressedTicket]:
        """Return tickets that are to be published, each to a worker with open shards.

        As many as `Tickets.to_publish`; never to a worker that has none of its own.
        """
        rows = self._run(
            "tickets_to_publish_by_worker",
            job=job,
            slots=slots,
            resend=resend,
            fresh=FRESH,
        )
        return [
            AddressedTicket(ticket=ticket, seq=seq, queue=queue)
            for ticket, seq, queue in sorted(rows)
        ]

"""Plans: the planner's lease; shards, items, layers and tickets, written at once."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kombu.utils.json import dumps

from celery_pecker.kernel.errors import LeaseLost
from celery_sharding.ledger.base import Repository, StageLease, record
from celery_sharding.model import Planned

ROWS, BYTES = 1_000, 1_000_000
"""Shards and encoded items that one statement writes: it takes a fraction of
pecker_database_timeout, and no more of a plan is in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a plan came to."""

    total: int
    """Items."""
    layers: int
    shards: int


@dataclass(slots=True)
class _Some:
    """Shards for one statement, their first number, and the size of their items."""

    first: int
    shards: list[Planned]
    size: int = 0


class Plans(Repository):
    """Jobs at stage planning."""

    def begin(self, task_id: str, holder: str, lease: float) -> StageLease | None:
        """Return the lease to plan a job; None: another process has it.

        None: the job is planned already or being planned, follows another, or there is
        no such job. ``lease``: seconds until a silent holder counts as dead.
        """
        begun = record(StageLease.begun, task_id=task_id, holder=holder, lease=lease)
        return self._read_one(
            begun, "begin_plan", task_id=task_id, holder=holder, lease=lease
        )

    def renew(self, turn: StageLease, lease: float) -> bool:
        """Renew the turn for that many seconds; return whether it goes on."""
        return self._renew(turn.job, turn.epoch, lease, "planning")

    def write(self, turn: StageLease, shards: Iterable[Planned]) -> Written:
        """Write the whole plan and let the job go on, or write nothing.

        Shards are numbered from 0 in their order; they are taken one by one and not
        kept. They should be at hand: the transaction is open meanwhile, and is undone
        when one takes as long as the lease. Raises LeaseLost where another plans by
        now, DatabaseUnavailable where it is not known whether the plan stands.
        """
        if not self.renew(turn, turn.lease):
            raise LeaseLost(_another(turn))
        items: Counter[int] = Counter()
        parts: Counter[int] = Counter()
        with self.bounded(turn.lease):
            for some in _portions(shards):
                for one in some.shards:
                    items[one.layer] += one.count
                    parts[one.layer] += 1
                self._write(turn.job, some)
            return self._end(turn, items, parts)

    def _write(self, job: int, some: _Some) -> None:
        numbered = [*enumerate(some.shards, some.first)]
        self._change(
            "write_shards",
            job=job,
            shards=[number for number, _ in numbered],
            layers=[one.layer for one in some.shards],
            counts=[one.count for one in some.shards],
            owners=[one.owner for one in some.shards],
            references=[_text(one.reference) for one in some.shards],
        )
        stored = [
            (number, one.body) for number, one in numbered if one.body is not None
        ]
        if stored:
            self._change(
                "write_items",
                job=job,
                shards=[number for number, _ in stored],
                bodies=[body for _, body in stored],
            )

    def _end(
        self, turn: StageLease, items: Counter[int], parts: Counter[int]
    ) -> Written:
        written = Written(
            total=items.total(),
            layers=max(parts, default=-1) + 1,
            shards=parts.total(),
        )
        first = min(parts, default=0)
        if parts:
            layers = range(written.layers)
            self._change(
                "write_layers",
                job=turn.job,
                first=first,
                layers=[*layers],
                totals=[items[layer] for layer in layers],
                shards=[parts[layer] for layer in layers],
            )
        ended = self._run_one(
            "end_plan",
            job=turn.job,
            epoch=turn.epoch,
            first=first,
            layers=written.layers,
            total=written.total,
            shards=written.shards,
        )
        if not ended:
            raise LeaseLost(_another(turn))
        return written


def _another(turn: StageLease) -> str:
    return (
        f"job {turn.task_id} is not planned here any more: its epoch is not"
        f" {turn.epoch}, or its stage not planning; nothing was written"
    )


def _text(reference: Mapping[str, Any] | None) -> str | None:
    return None if reference is None else str(dumps(reference))


def _portions(shards: Iterable[Planned]) -> Iterator[_Some]:
    """Yield the shards in portions for one statement each."""
    some = _Some(0, [])
    for one in shards:
        size = len(one.body or b"")
        if some.shards and (len(some.shards) >= ROWS or some.size + size > BYTES):
            yield some
            some = _Some(some.first + len(some.shards), [])
        some.shards.append(one)
        some.size += size
    if some.shards:
        yield some

"""A time slice: shards are claimed and run under one ticket, batch after batch."""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from celery_pecker.kernel.clock import monotonic
from celery_sharding import codec, flow, sources
from celery_sharding.errors import DatabaseUnavailable
from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, Shard, Stage
from celery_sharding.processor import Processor
from celery_sharding.runner.hold_renewal import HungItem
from celery_sharding.runner.holding import Holding
from celery_sharding.runner.limits import attempt
from celery_sharding.runner.result_buffer import Known
from celery_sharding.runner.running import Running, fail_shard
from celery_sharding.runner.shard_run import ShardRun
from celery_sharding.runner.step_writer import Stop, Work

logger = logging.getLogger(__name__)

MISSING = "its items are not in the ledger"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A shard's own items, or why they cannot be had."""

    items: Sequence[Any]
    known: Known
    error: BaseException | str | None = None


class Loader:
    """Gets at the items of a batch of shards."""

    def __init__(
        self, ledger: Ledger, job: int, records: Sequence[Shard], conf: Any
    ) -> None:
        """Load what is stored of all of them at once."""
        stored = [
            one.origin
            for one in records
            if one.reference is None or sources.is_listed(one.reference)
        ]
        self._bodies: Mapping[int, bytes] = (
            ledger.shards.items(job, sorted({*stored})) if stored else {}
        )
        torn = [
            one
            for one in records
            if _ended_in_failed_call(one) or one.done > one.returned
        ]
        self._pending = ledger.shards.pending(job, torn) if torn else {}
        self._conf = conf

    def load(self, record: Shard) -> Loaded:
        """Return the items of one, in its order."""
        items, error = attempt(self._items, record)
        pending = self._pending.get(record.shard, ())
        retry = [place for place, code in pending if code is not Code.DIED]
        known = Known(
            retry=retry if _ended_in_failed_call(record) else (),
            failed=frozenset(place for place, _ in pending),
            counted=record.reference is None or record.picks is not None,
        )
        if error is None and items is None:
            return Loaded([], known, MISSING)
        return Loaded(items or [], known, error)

    def _items(self, record: Shard) -> Sequence[Any] | None:
        reference = record.reference
        body = self._bodies.get(record.origin)
        if body is None and (reference is None or sources.is_listed(reference)):
            return None
        stored: Any = None if body is None else codec.decode(body)
        whole = sources.items_of(reference, self._conf, stored)
        if record.picks is not None:
            return [whole[place] for place in record.picks]
        if record.reference is not None:
            # how many there are, it says itself
            return whole[record.lo :]
        return whole[record.lo : record.hi]


def _ended_in_failed_call(record: Shard) -> bool:
    """Return whether items of it that have ended are to be retried in the end."""
    return record.cursor > record.done + record.failed


TARGET = 0.3
"""Seconds of work in a batch."""
MOST = 500
"""Shards in a batch, at most."""
GROWTH = 4
"""How much more than the last time is claimed, at most."""
WEIGHT = 0.5
"""Of the last batch, in what a shard is believed to take."""
KEPT = 100
"""Jobs that are remembered, in each process."""


class ItemBatch:
    """How many shards of one job are claimed at once, by what they took so far.

    Enough for a moment's work, never much more: shards that take a millisecond are not
    worth three round trips each, and those that were claimed and wait behind a slow one
    are kept from others.
    """

    __slots__ = ("_each", "size")

    def __init__(self) -> None:
        self.size = 1
        self._each: float | None = None

    def took(self, shards: int, seconds: float, *, slice_: float) -> None:
        """Note that so many shards took so long; `size` is what to claim the next time.

        ``slice_``: seconds that a ticket may be kept; a batch is at most half of it.
        """
        if not shards:
            return
        each = max(seconds / shards, 1e-6)
        if self._each is not None:
            each = WEIGHT * each + (1 - WEIGHT) * self._each
        self._each = each
        fits = int(min(TARGET, slice_ / 2) / each)
        self.size = max(1, min(fits, self.size * GROWTH, MOST))

    def alone(self) -> None:
        """Begin with one shard: a process died over one, and others may be like it."""
        self.size = 1
        self._each = None


class Batches:
    """What this process knows of the jobs that it last ran shards of."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[int, ItemBatch] = OrderedDict()

    def of(self, job: int) -> ItemBatch:
        """Return the batches of a job."""
        batch = self._jobs.pop(job, None) or ItemBatch()
        self._jobs[job] = batch
        while len(self._jobs) > KEPT:
            self._jobs.popitem(last=False)
        return batch


STRAGGLES = 2 * TARGET
"""Seconds that shards wait behind another before they are given back."""
GOES_ON = frozenset({None, Stop.SHUTDOWN})
"""Reasons to stop after which others go on with the ticket."""
ON = frozenset({Stop.END, Stop.FAILED, Stop.TIMED_OUT})
"""Ends of a shard after which the next may be run."""


@dataclass(eq=False, repr=False, kw_only=True)
class Slice:
    """Runs shards under one ticket until its time, its work or its right is over."""

    app: Any
    holding: Holding
    processor: Processor
    work: Work
    batch: ItemBatch
    owns_message: bool
    """Whether this process has the job's own message in hand, and runs Post."""
    stop: Stop | None = None
    """Why the last shard stopped."""
    ended: bool = False
    """Whether the items of the job have ended, and its ticket with them."""

    def __post_init__(self) -> None:
        """Watch the items of its shards."""
        self.layer, self._after = self.holding.turn.layer, -1
        """The layer of the job that runs now, and the shard claimed last."""
        self.hung_item = HungItem(self.app, self.holding, pool=self.work.pool)

    def run(self, seconds: float) -> bool:
        """Run shards for that long, at least one.

        Return whether there may be more to run, in any process.
        """
        begun = monotonic()
        while self.holding.stop is None:
            records = self._claim()
            if not records:
                if self._moved():
                    continue
                return False
            stop = self.stop = self._run_batch(records, seconds)
            self.holding.flush()
            closing = self.holding.take_closing()
            if closing or stop is Stop.FAILED:
                self._move_on()
                if self.ended:
                    return False
                self._moved()
            if stop not in ON or monotonic() - begun >= seconds:
                break
        # The job's deadline is over here first: the ledger may not know it yet.
        over = self.holding.away or self.stop is Stop.OVER
        return not over and self.holding.stop in GOES_ON

    def _claim(self) -> list[Shard]:
        sent = monotonic()
        records = self.holding.ledger.shards.claim(
            self.holding.hold,
            layer=self.layer,
            most=self.batch.size,
            after=self._after,
            hostname=self.holding.hostname,
            lease=self.holding.lease,
        )
        if records:
            self._after = max(one.shard for one in records)
            self.holding.renewed(sent)
        return records

    def _moved(self) -> bool:
        """Return whether the job is in another layer now, and this ticket may go on."""
        holding = self.holding
        reply = holding.renew(self.holding.ledger)
        if reply is None or holding.stop is not None or reply.layer == self.layer:
            return False
        self.layer, self._after = reply.layer, -1
        return True

    def _run_batch(self, records: Sequence[Shard], seconds: float) -> Stop:
        """Run claimed shards; those that are not begun are given back."""
        holding, begun = self.holding, monotonic()
        if any(one.deaths for one in records):
            self.batch.alone()
        loader = Loader(self.holding.ledger, holding.hold.job, records, self.app.conf)
        holding.line_up(records, give_back_at=begun + STRAGGLES)
        ran, stop = 0, Stop.END
        while stop in ON and (record := holding.take_next()) is not None:
            stop = self._run_shard(record, loader)
            ran += 1
        holding.give_back()
        if not any(one.deaths for one in records):
            self.batch.took(ran, monotonic() - begun, slice_=seconds)
        return stop

    def _run_shard(self, record: Shard, loader: Loader) -> Stop:
        loaded = loader.load(record)
        if isinstance(loaded.error, DatabaseUnavailable):
            logger.warning(
                "sharding: items of %s are away: %s", self.holding, loaded.error
            )
            self.holding.put_back(record)
            return Stop.AWAY
        broken = loaded.error is not None
        shard_run = ShardRun(
            record,
            range(record.count) if broken else loaded.items,
            work=self.work,
            writer=self.holding,
            known=loaded.known,
        )
        if loaded.error is not None:
            return fail_shard(shard_run, loaded.error, returns=self.processor.returns)
        with self.hung_item.watching(shard_run):
            return Running(self.processor, shard_run).run()

    def _move_on(self) -> None:
        hold = self.holding.hold
        if not self.owns_message:
            flow.advance_job(self.app, self.holding.ledger, hold.job)
            return
        stands = flow.close(self.app, self.holding.ledger, hold)
        self.ended = (
            stands is not None and stands.moved and stands.stage is Stage.POSTING
        )

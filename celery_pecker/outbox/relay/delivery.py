"""Send a batch, and write what became of it."""

import logging
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field

from celery_pecker.brokers.publisher.bulk_lanes import Pushed
from celery_pecker.brokers.publisher.stored_messages import StoredPublisher
from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.clock import Clock, new_id
from celery_pecker.kernel.errors import (
    BrokerRefuses,
    BrokerUnavailable,
    DatabaseUnavailable,
    LeaseLost,
)
from celery_pecker.kernel.lease import TrustWindow
from celery_pecker.outbox.relay import batch_plan
from celery_pecker.outbox.relay.batches import Batches, RelayBatch, RelayTally

logger = logging.getLogger("celery_pecker.outbox")

HEALTHY_INTERVAL = 60.0
"""Seconds for which a broker that took messages counts as well."""
FLUSH = 100
"""Messages sent one by one before they are deleted together."""
LATELY = 10_000
"""Counts that nobody has taken, at most; the oldest are dropped."""
RATED = 100
"""Tasks whose rate is reported."""
MOST_UNWRITTEN = 100
"""Batches that were sent and could not be deleted, which are tried again."""


@dataclass
class Delivery:
    """Brings one batch after the other to the broker."""

    batches: Batches
    publisher: StoredPublisher
    _: KW_ONLY
    clock: Clock
    _unwritten: list[tuple[RelayBatch, Pushed[int]]] = field(default_factory=list)
    _tasks: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Tasks of the messages in hand, and their routing keys."""
    _counts: Counter[str] = field(default_factory=Counter)
    tally: RelayTally = field(default_factory=RelayTally)
    lately: deque[tuple[tuple[str, str], int]] = field(
        default_factory=lambda: deque(maxlen=LATELY)
    )
    """How many were sent of a task to a queue, until another thread takes it."""

    def __post_init__(self) -> None:
        self._took_at = self._rated_at = float("-inf")

    def deliver(self, batch: RelayBatch, trust: TrustWindow) -> None:
        """Send a batch within the trust window; give back what was not sent."""
        token = f"outbox:{batch.token}"
        self._tasks.clear()
        try:
            if batch.tries and not batch.alone and self.publisher.pushed(token):
                self._write(batch, Pushed(sent={*batch.ids}))
                return
            messages = self.batches.read(batch)
            self._tasks = {one.id: (one.task, one.routing_key) for one in messages}
            plan = batch_plan.plan(
                messages,
                check=self.publisher.check,
                is_batchable=self.publisher.is_batchable,
                tries=batch.tries,
            )
        except BrokerUnavailable as error:
            self._write(batch, Pushed(broken=error))
            return
        if batch.alone:
            messages = [*plan.together, *plan.alone]
            self._one_by_one(batch, messages, plan.parked, trust)
            return
        rest: RelayBatch | None = batch
        apart: RelayBatch | None = None
        if plan.parked or plan.alone:
            # Before the push: what is pushed under the token is the batch, no more.
            alone = {one.id for one in plan.alone}
            rest, apart = self._write(batch, Pushed(refused=plan.parked, alone=alone))
        if rest is not None:
            pushed = Pushed[int]()
            if plan.together:
                pushed = self.publisher.push(plan.together, token, trust=trust)
            _, spoiled = self._write(rest, pushed, ended=True)
            if spoiled is not None:
                messages = [one for one in plan.together if one.id in pushed.alone]
                self._one_by_one(spoiled, messages, {}, trust)
        if apart is not None:
            self._one_by_one(apart, plan.alone, {}, trust)

    def rate(self) -> None:
        """Return messages per second, by task, since the last call."""
        now = self.clock.monotonic()
        seconds, self._rated_at = now - self._rated_at, now
        counts, self._counts = self._counts, Counter()
        self.tally.rates = {
            task: round(count / seconds, 3) for task, count in counts.most_common(RATED)
        }

    def settle(self) -> None:
        """Delete what was sent while the database gave no answer."""
        while self._unwritten:
            batch, pushed = self._unwritten.pop(0)
            self._write(batch, pushed)

    def _write(
        self, batch: RelayBatch, pushed: Pushed[int], *, ended: bool = False
    ) -> tuple[RelayBatch | None, RelayBatch | None]:
        """Write what became of a batch; return what is left, and what was set apart.

        Args:
            batch: It, or what is left of it.
            pushed: What is known of its messages.
            ended: Whether nothing of it is to be sent any more unless it is broken:
                rows that are gone leave the batch too.

        """
        if ended and pushed.broken is None and not pushed.alone:
            pushed.sent.update({*batch.ids} - pushed.refused.keys())
        try:
            return self._written(batch, pushed)
        except LeaseLost as error:
            logger.info("pecker: outbox: %s", error)
            return None, None
        except DatabaseUnavailable:
            if pushed.sent or pushed.refused:
                self._unwritten.append((batch, pushed))
                del self._unwritten[:-MOST_UNWRITTEN]
            raise

    def _written(
        self, batch: RelayBatch, pushed: Pushed[int]
    ) -> tuple[RelayBatch | None, RelayBatch | None]:
        rest: RelayBatch | None = batch
        apart: RelayBatch | None = None
        if pushed.sent.issuperset(batch.ids):
            self.tally.sent += self.batches.close(batch)
            rest = None
            if not batch.alone:
                self.publisher.settle(f"outbox:{batch.token}")
        elif pushed.sent or pushed.refused or pushed.alone:
            rest, apart = self.batches.part(
                batch,
                sent=sorted(pushed.sent),
                parked=pushed.refused,
                apart=sorted(pushed.alone),
                token=new_id() if pushed.alone else None,
            )
            self.tally.sent += len(pushed.sent)
        self._count(pushed)
        if rest is not None and pushed.broken is not None:
            tries = batch.tries
            if isinstance(pushed.broken, BrokerRefuses):
                tries = min(tries, batch_plan.SUSPECT_TRIES)
            wait = batch_plan.wait(tries)
            self.batches.release_for_retry(rest, wait=wait, tries=tries)
        return rest, apart

    def _count(self, pushed: Pushed[int]) -> None:
        if pushed.sent:
            self._took_at = self.clock.monotonic()
            sent = Counter(
                self._tasks[key] for key in pushed.sent if key in self._tasks
            )
            self.lately.extend(sent.items())
            for (task, _), count in sent.items():
                self._counts[task] += count
        for id_, error in pushed.refused.items():
            self.tally.parked += 1
            logger.error("pecker: outbox: message %d is parked: %s", id_, error)
        if pushed.broken is not None:
            logger.warning(
                "pecker: outbox: a batch was not sent whole, it is tried again: %s",
                pushed.broken,
            )

    def _one_by_one(
        self,
        batch: RelayBatch,
        messages: Sequence[Message],
        parked: dict[int, str],
        trust: TrustWindow,
    ) -> None:
        """Send the messages of a batch one after the other."""
        pushed, rest = Pushed(refused=dict(parked)), batch
        healthy = self.clock.monotonic() - self._took_at < HEALTHY_INTERVAL
        doomed = batch_plan.to_park(messages, tries=batch.tries, healthy=healthy)
        if doomed is not None:
            pushed.refused[doomed] = (
                f"each of {batch.tries} tries ended with its relay or connection gone"
            )
        flush = 1 if batch.tries else FLUSH
        for message in messages:
            if message.id == doomed:
                continue
            one = self.publisher.push_alone(
                message, f"outbox:{batch.token}:{message.id}", trust=trust
            )
            pushed.sent |= one.sent
            pushed.refused |= one.refused
            pushed.broken = one.broken
            if pushed.broken is not None:
                break
            if len(pushed.sent) >= flush:
                left, _ = self._write(rest, pushed)
                if left is None:
                    return
                pushed, rest = Pushed[int](), left
        self._write(rest, pushed, ended=True)

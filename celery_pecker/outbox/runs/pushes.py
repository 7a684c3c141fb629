"""Send the messages of rows that run until they are done.

Each scheduler replica and relay does, on the thread of the table. Nothing has to be
exact here: a message that is sent twice starts one run, and one that is lost is sent
again. So there is no batch and no stored token; the claim has moved the
rows out of the way for long enough.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence

from celery_pecker.brokers.publisher.stored_messages import StoredPublisher
from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.clock import SYSTEM, new_tag
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.lease import SLACK, TrustWindow
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.runs import header, holds
from celery_pecker.outbox.runs.header import RowRef
from celery_pecker.outbox.runs.holds import Holds
from celery_pecker.outbox.runs.load import Load
from celery_pecker.outbox.runs.rows import MAX_PUSHES, Pushed, Rows

logger = logging.getLogger("celery_pecker.outbox")

LOOK_INTERVAL = 2.0
"""Seconds between two looks at the load, and at holds of before a step of the clock."""
IDLE_INTERVAL = 0.2
"""Seconds between two looks at most, where nothing was due."""
SLICE_BYTES = 4 << 20
"""Bytes of messages that are read at once; a larger one comes alone (I9)."""


class Pushes:
    """Sends what is due of one table, over its relay's connections."""

    def __init__(
        self,
        database: Database,
        publisher: StoredPublisher,
        settings: Settings,
        name: str,
    ) -> None:
        longest = Holds(settings.outbox_backoff, holds.LONGEST)
        self._rows = Rows(database, longest, log=settings.outbox_history)
        self._publisher = publisher
        self._name = name
        self._trust = settings.outbox_backoff / 2
        self._load = Load()
        self._look_at = self._next = float("-inf")
        self.sent = 0
        """Messages since the start."""

    def step(self) -> float:
        """Send what is due; return the seconds until the next look.

        To be called while the broker takes messages: what cannot be sent waits for its
        hold.
        """
        now = SYSTEM.monotonic()
        if now < self._next:
            return self._next - now
        if now >= self._look_at:
            self._rows.mend(SLACK)
            self._load = Load.now(self._rows.database)
            self._look_at = now + LOOK_INTERVAL
        claimed = self._rows.claim_pushes(only=self._load.only)
        trust = TrustWindow(opened=now, seconds=self._trust)
        for part in slices(claimed):
            if not self._send(part, trust):
                break
        rest = 0.0 if len(claimed) >= MAX_PUSHES // 2 else IDLE_INTERVAL
        self._next = now + rest
        return rest

    def _send(self, part: Sequence[Pushed], trust: TrustWindow) -> bool:
        """Send some; whether the broker still takes messages."""
        epochs = {one.id: one.epoch for one in part}
        refused: dict[int, str] = {}
        together: list[Message] = []
        alone: list[Message] = []
        for stored in self._rows.read([*epochs.items()]):
            try:
                self._publisher.check(stored)
                epoch = epochs[stored.id]
                ref = RowRef(stored.id, epoch, self._name, stored.task_id)
                message = stored._replace(headers=header.add(stored.headers, ref))
            except ValueError as error:
                refused[stored.id] = f"it cannot be read: {error}"
                continue
            fits = self._publisher.is_batchable(message)
            (together if fits else alone).append(message)
        broken: BaseException | None = None
        if together:
            token = f"outbox-runs:{new_tag()}"
            pushed = self._publisher.push(together, token, trust=trust)
            self.sent += len(pushed.sent)
            refused |= pushed.refused
            broken = pushed.broken
            alone += [one for one in together if one.id in pushed.alone]
        for message in alone:
            if broken is not None:
                break
            token = f"outbox-runs:{new_tag()}"
            pushed = self._publisher.push_alone(message, token, trust=trust)
            self.sent += len(pushed.sent)
            refused |= pushed.refused
            broken = pushed.broken
        for row_id, why in refused.items():
            self._rows.fail(row_id, epochs[row_id], why, park=True)
            logger.error("pecker: outbox: message %d is parked: %s", row_id, why)
        if broken is not None:
            logger.warning(
                "pecker: outbox %s: recorded tasks were not sent, and are due again"
                " after their holds: %s",
                *(self._name, broken),
            )
        return broken is None


def slices(claimed: Iterable[Pushed]) -> Iterator[list[Pushed]]:
    """Yield them in parts of so many bytes; what is larger comes alone."""
    part: list[Pushed] = []
    size = 0
    for one in claimed:
        if part and size + one.size > SLICE_BYTES:
            yield part
            part, size = [], 0
        part.append(one)
        size += one.size
    if part:
        yield part

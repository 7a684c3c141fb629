"""Run the statements of a relay against one table."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import LeaseLost
from celery_pecker.outbox.model import TABLE

MOST = 1_000
"""Ids of one batch; their answer stays below 64 kB (I9)."""
MOST_BYTES = 4 << 20
"""Bytes of messages of one batch; a larger message is a batch by itself."""


@dataclass(frozen=True, slots=True)
class RelayBatch:
    """Rows that this relay has in hand."""

    number: int
    token: uuid.UUID
    epoch: int
    ids: list[int]
    alone: bool = False
    """Its messages are sent one by one."""
    tries: int = 0
    """How often it was taken over; 0: fresh."""


class Claim(NamedTuple):
    """The answer to a claim."""

    batch: RelayBatch | None
    had_turn: bool
    """False: a rival claimed at the same time."""
    above: int
    """From this id on it walked."""
    last: int | None
    """Up to this id the walk of ids has passed over nothing; None: unknown."""
    oldest: int
    """The oldest transaction that was under way."""
    newest: int
    """The first transaction that had not begun."""


@dataclass(slots=True)
class RelayTally:
    """What a relay did since it started."""

    sent: int = 0
    retried: int = 0
    """Messages in batches that were taken over."""
    parked: int = 0
    broker: str | None = None
    """Why it cannot send; None: it can."""
    rates: dict[str, float] = field(default_factory=dict)
    """Messages per second, by task, in the last seconds."""


@dataclass
class Batches:
    """The batches of one table, for one relay."""

    database: Database
    holder: uuid.UUID
    _: KW_ONLY
    hold: float

    def claim(
        self,
        token: uuid.UUID,
        *,
        above: int | None,
        most: int = MOST,
        size: int = MOST_BYTES,
    ) -> Claim:
        """Take ids that are due and in no batch; a lost race has no batch.

        Args:
            token: Of the batch.
            above: The id from which to walk; None: from where the relays have come to.
            most: Ids at most.
            size: Bytes of their messages at most.

        """
        rows = self.database.run(
            "claim_outbox",
            token=token,
            holder=self.holder,
            hold=self.hold,
            above=above,
            most=most,
            bytes=size,
        )
        if not rows:
            return Claim(None, had_turn=False, above=0, last=None, oldest=0, newest=0)
        [(had_turn, number, token, epoch, ids, above, last, oldest, newest)] = rows
        batch = None
        if number is not None:
            batch = RelayBatch(number, token, epoch, ids)
        return Claim(batch, had_turn, above, last, oldest, newest)

    def writers(self) -> list[str]:
        """Return the transactions that write into the table, or may."""
        schema = self.database.schema
        [(writers,)] = self.database.run(
            "read_outbox_writers", schema=schema, table=TABLE
        )
        return list(writers)

    def straggler(self, after: int, up_to: int) -> int | None:
        """Return the first id of these that waits and that no relay has."""
        rows = self.database.run("find_outbox_behind", after=after, up_to=up_to)
        return int(rows[0][0]) if rows else None

    def reclaim(self, *, mine: bool = False) -> RelayBatch | None:
        """Take over a batch whose holder did not finish it in time.

        Args:
            mine: Also one of this relay's own, which it lost sight of.

        """
        row = self.database.run_one(
            "reclaim_outbox",
            holder=self.holder,
            hold=self.hold,
            mine=mine,
        )
        return None if row is None else RelayBatch(*row)

    def read(self, batch: RelayBatch) -> list[Message]:
        """Return the messages of a batch, by id; parked and dropped ones are out."""
        rows = self.database.run("read_outbox", ids=batch.ids)
        return sorted(map(Message.stored, rows), key=attrgetter("id"))

    def close(self, batch: RelayBatch) -> int:
        """Delete a batch that the broker has; return how many rows went.

        Raises:
            LeaseLost: another relay has taken the batch over.

        """
        [(closed, sent)] = self.database.run(
            "close_outbox_batch", batch=batch.number, epoch=batch.epoch
        )
        if not self.database.one_row("close_outbox_batch", closed):
            raise _lost(batch)
        return int(sent)

    def part(
        self,
        batch: RelayBatch,
        *,
        sent: Sequence[int] = (),
        parked: Mapping[int, str] | None = None,
        apart: Sequence[int] = (),
        token: uuid.UUID | None = None,
    ) -> tuple[RelayBatch | None, RelayBatch | None]:
        """Take some of a batch out of it; return what is left, and those set apart.

        Args:
            batch: The batch as this relay knows it.
            sent: The broker has these: they are deleted.
            parked: These are put aside, with their errors.
            apart: These go into a batch of their own, to be sent one by one.
            token: Of that batch.

        Raises:
            LeaseLost: another relay has taken the batch over.

        """
        parked = parked or {}
        [(held, number)] = self.database.run(
            "split_outbox_batch",
            batch=batch.number,
            epoch=batch.epoch,
            sent=[*sent],
            parked=[*parked],
            errors=[*parked.values()],
            apart=[*apart],
            token=token,
        )
        if not self.database.one_row("split_outbox_batch", held):
            raise _lost(batch)
        out = {*sent, *parked, *apart}
        left = [one for one in batch.ids if one not in out]
        rest = replace(batch, ids=left) if left else None
        if number is None or token is None:
            return rest, None
        return rest, RelayBatch(number, token, batch.epoch, [*apart], alone=True)

    def release_for_retry(self, batch: RelayBatch, *, wait: float, tries: int) -> None:
        """Release a batch, to be retried after so many seconds; at most `tries` count.

        A try that the broker refused, whatever the message, says nothing of it.
        """
        self.database.change_one(
            "release_outbox_batch",
            batch=batch.number,
            epoch=batch.epoch,
            wait=wait,
            tries=tries,
        )

    def announce(self, *, host: str, pid: int, tally: RelayTally) -> int:
        """Write that this relay is there; return how many others are."""
        figures = {**asdict(tally), "rates": json.dumps(tally.rates)}
        [(others,)] = self.database.run(
            "announce_relay", holder=self.holder, host=host, pid=pid, **figures
        )
        return int(others)


def _lost(batch: RelayBatch) -> LeaseLost:
    message = f"batch {batch.number} of the outbox was taken over by another relay"
    return LeaseLost(message)

"""Tickets: rights to run shards of a job. Their number limits the concurrency.

A ticket lies idle, is sent (a message names it and its number), or is held until its
lease is over. Its number rises each time that it is taken or lost, and never goes back:
it is the fencing token of the hold, and of the shards that are claimed under it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from celery_sharding.codec import decode
from celery_sharding.ledger.base import Repository, record
from celery_sharding.model import Hold, HoldReply, Turn
from celery_sharding.policies import from_json


class Overdue(NamedTuple):
    """A ticket whose message is to be published once more."""

    job: int
    ticket: int
    seq: int
    task: str
    queue: str | None
    """That of the job's options."""
    continuation: Mapping[str, Any]


class Tickets(Repository):
    """Tickets are taken, kept, passed on, laid down, and taken from the dead."""

    def take(
        self,
        job: int,
        ticket: int,
        seq: int,
        *,
        holder: str,
        hostname: str,
        lease: float,
    ) -> Turn | None:
        """Take that ticket for `holder`, for `lease` seconds; None: it is not free.

        None: another copy of the message was first, or the job takes no ticket now
        (paused, decided, limited to fewer); then it lies idle.
        """

        def turn(
            *, seq: int, options: Mapping[str, Any], call: bytes, **columns: Any
        ) -> Turn:
            called: Mapping[str, Any] = decode(call)
            return Turn(
                hold=Hold(job=job, ticket=ticket, seq=seq, holder=holder),
                options=from_json(options),
                args=tuple(called["args"]),
                kwargs=called["kwargs"],
                **columns,
            )

        return self._read_one(
            record(turn),
            "take_ticket",
            job=job,
            ticket=ticket,
            seq=seq,
            holder=holder,
            hostname=hostname,
            lease=lease,
        )

    def renew(self, hold: Hold, lease: float) -> HoldReply:
        """Renew the ticket for that long; return the ledger's reply."""
        reply = self._read_one(
            record(HoldReply, held=True),
            "renew_ticket",
            **hold.named,
            lease=lease,
        )
        return reply or HoldReply(held=False)

    def release(self, hold: Hold, *, resend: float = 10.0) -> bool:
        """Free the ticket for the receiver of its message, which the caller publishes.

        The message names the number of this hold. False: it was lost; nothing is to be
        published. What is claimed under it may be claimed by others. One that was not
        taken within `resend` seconds counts as lost.
        """
        return self._let_go(hold, state="sent", resend=resend)

    def set_idle(self, hold: Hold, wake_in: float | None = None) -> bool:
        """Let the ticket lie idle for at least that many seconds; False: it was lost.

        What is claimed under it may be claimed by others.
        """
        return self._let_go(hold, state="idle", wake_in=wake_in)

    def _let_go(self, hold: Hold, **freed: object) -> bool:
        freed = {"wake_in": None, "resend": None, **freed}
        return self._run_one("free_ticket", **hold.named, **freed) is not None

    def to_publish(
        self, job: int, *, slots: int | None, resend: float
    ) -> list[tuple[int, int]]:
        """Return tickets and numbers that are to be published: as many as are of use.

        Never more than the job's concurrency are out, one more than `slots` (what live
        workers can run at once; None: it is not known), or one for each shard that may
        be claimed. One whose message was not taken within `resend` seconds is sent
        again, and then less and less often. None while the job is paused, or not
        sharding.
        """
        rows = self._run("tickets_to_publish", job=job, slots=slots, resend=resend)
        return sorted((ticket, seq) for ticket, seq in rows)

    def resend(self, *, resend: float, most: int) -> list[Overdue]:
        """Mark tickets as sent once more whose message was not taken; return them.

        At most so many; those of paused and ended jobs lie idle. Jobs whose shards
        belong to workers are left out: `placements.to_publish` returns theirs.
        """
        return self._read(Overdue, "resend_tickets", resend=resend, most=most)

    def unsent(self, job: int, tickets: Sequence[tuple[int, int]]) -> int:
        """Let tickets lie idle whose messages the broker did not take.

        For a second, then they may be summoned again; return how many.
        """
        return self._change(
            "unsent_tickets",
            job=job,
            tickets=[ticket for ticket, _ in tickets],
            seqs=[seq for _, seq in tickets],
        )

    def end_expired(self, job: int | None = None, *, most: int = 100) -> list[int]:
        """End holds whose lease is over, of one job or of any; return the jobs.

        Their shards may be claimed again, go on from their cursor, and count a death.
        So do shards that are claimed under no hold, whatever left them.
        """
        ended = self._numbers("end_expired_holds", job=job, most=most)
        return self._freed(ended, None if job is None else [job], died=True)

    def end_holds_of(
        self, prefix: str, *, in_hand: tuple[int, int] | None = None
    ) -> list[int]:
        """End all holds of a dead process at once; return the jobs.

        Names of holders begin with hostname and pid: "a@host:123:". ``in_hand``: the
        job and shard that it died over, none else counts a death; None: not known.
        """
        ended = self._numbers("end_holds", job=None, prefix=prefix)
        if not ended:
            return []
        return self._freed(ended, ended, died=True, in_hand=in_hand)

    def end_all_holds(self, job: int) -> list[int]:
        """End all holds of a job: their holders write nothing more.

        It counts as no death; what they had claimed may be claimed again.
        """
        ended = self._numbers("end_holds", job=job, prefix=None)
        return self._freed(ended, [job], died=False)

    def _freed(
        self,
        ended: list[int],
        jobs: list[int] | None,
        *,
        died: bool,
        in_hand: tuple[int, int] | None = None,
    ) -> list[int]:
        """Free shards without a hold; return these jobs, and those."""
        over, shard = in_hand or (None, None)
        freed = self._numbers(
            "free_orphans", jobs=jobs, died=died, over=over, shard=shard
        )
        return sorted({*ended, *freed})

"""A worker's turn with shards of its own, by hand."""

from __future__ import annotations

from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, Failure, Shard, Step, Turn
from tests.integration.sharding.conftest import LEASE

RESEND = 10.0


def summoned(ledger: Ledger, job: int) -> list[str | None]:
    """Return where tickets are sent to."""
    told = ledger.placements.to_publish(job, slots=ledger.upkeep.slots(), resend=RESEND)
    return sorted((one.direct_queue for one in told), key=str)


def take(ledger: Ledger, job: int, hostname: str) -> Turn:
    """Return the turn of a worker that takes what was sent to it."""
    ((ticket, seq),) = ledger.database._connected().execute(
        "select ticket, seq from pecker_tickets where job = %s and hostname = %s"
        " and state = 'sent' order by ticket limit 1",
        (job, hostname),
    )
    turn = ledger.tickets.take(
        job, ticket, seq, holder=f"{hostname}:1:x", hostname=hostname, lease=LEASE
    )
    assert turn is not None
    return turn


def claim(ledger: Ledger, turn: Turn, hostname: str, most: int = 1) -> list[Shard]:
    """Return what that worker gets."""
    return ledger.shards.claim(turn.hold, layer=0, most=most, hostname=hostname)


def closed(ledger: Ledger, turn: Turn, shard: Shard) -> None:
    """The shard has ended well."""
    step = Step(
        shard=shard.shard, cursor=1, ahead=1, done=1, failed=0, status=Code.SUCCEEDED
    )
    assert ledger.shards.write(turn.hold, [step], lease=LEASE).held


def failure(shard: Shard) -> Failure:
    """Return what is written of its item."""
    return Failure(
        origin=shard.origin,
        place=0,
        shard=shard.shard,
        layer=0,
        code=Code.FAILED,
        attempt=1,
        type="ValueError",
        message="bad row",
    )

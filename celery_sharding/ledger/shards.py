"""Shards: which process has claimed each, and how far it is.

A shard is held if its ticket and epoch are those of a ticket that is held. Every
statement that writes to one locks the ticket's row first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg

from celery_sharding.errors import DatabaseUnavailable
from celery_sharding.ledger.base import Repository
from celery_sharding.ledger.step_columns import columns
from celery_sharding.model import Code, Hold, HoldReply, Shard, Stage, Step

ROUNDS = 5
"""How often a write is tried whose new shards' numbers another has dealt meanwhile."""


class Shards(Repository):
    """Shards are claimed under a ticket, read, and written to."""

    def claim(
        self,
        hold: Hold,
        *,
        layer: int,
        most: int,
        after: int = -1,
        hostname: str = "",
        lease: float | None = None,
    ) -> list[Shard]:
        """Return shards that are this hold's alone while it is valid, by their number.

        The first runs (202): all of it may be begun, unless a process died over it. A
        shard with deaths comes alone. The others are claimed (201). ``after``: the
        greatest number that was claimed under this hold; beyond the last it goes on at
        the first. ``lease``: seconds for which the hold is renewed; None: it is not.

        None is returned where there is nothing, and where there is nothing for this
        hold: it was lost, the job is paused, decided, in another layer, or limited to
        fewer tickets.
        """
        rows = self._run(
            "claim_shards",
            job=hold.job,
            ticket=hold.ticket,
            seq=hold.seq,
            layer=layer,
            most=most,
            after=after,
            hostname=hostname,
            lease=lease,
        )
        return [
            Shard(
                shard=shard,
                layer=of,
                origin=origin,
                lo=lo,
                hi=hi,
                cursor=cursor,
                ahead=ahead,
                done=done,
                failed=failed,
                deaths=deaths,
                attempt=attempt,
                picks=picks,
                returned=returned,
                reference=reference,
                first_claimed=claimed_at,
                spent=spent,
            )
            for (
                shard,
                of,
                origin,
                lo,
                hi,
                cursor,
                ahead,
                done,
                failed,
                deaths,
                attempt,
                picks,
                returned,
                reference,
                claimed_at,
                spent,
            ) in rows
        ]

    def items(self, job: int, origins: Sequence[int]) -> dict[int, bytes]:
        """Return what these shards work on, encoded; none where a source has it."""
        rows = self._run("read_items", job=job, origins=[*origins])
        return {shard: bytes(body) for shard, body in rows}

    def pending(
        self, job: int, shards: Sequence[Shard]
    ) -> Mapping[int, Sequence[tuple[int, Code]]]:
        """Return the failed items of shards that others ran before, by place and code.

        Of a shard that goes on after a death: what it was to try again in the end stood
        in the memory of the dead process.
        """
        by_shard: dict[int, list[tuple[int, Code]]] = {}
        rows = self._run(
            "read_pending",
            job=job,
            shards=[one.shard for one in shards],
            origins=[one.origin for one in shards],
        )
        for shard, place, code in rows:
            by_shard.setdefault(shard, []).append((place, Code(code)))
        return by_shard

    def write(self, hold: Hold, steps: Sequence[Step], *, lease: float) -> HoldReply:
        """Write what shards have come to, all of it or nothing.

        The hold is renewed. Without it (``held`` False) nothing was written. A shard
        that is not this hold's any more is among ``lost``, and nothing of it was
        written. ``layer_open``: open shards of the layer, as it is counted; 0: the
        caller has to check whether it is closed.

        Raises DatabaseUnavailable when it is not known whether it was written: the same
        write may be repeated, and counts once.
        """
        parameters = columns(steps)
        for _ in range(ROUNDS):
            try:
                row = self._run_one(
                    "write_steps",
                    job=hold.job,
                    ticket=hold.ticket,
                    seq=hold.seq,
                    lease=lease,
                    **parameters,
                )
            except psycopg.errors.UniqueViolation:
                continue  # nothing was written: by now the other's shards are seen
            return _reply(row)
        message = (
            f"job {hold.job}: numbers for the shards of items that are tried again were"
            f" dealt by others {ROUNDS} times; nothing was written"
        )
        raise DatabaseUnavailable(message)


def _reply(row: tuple[object, ...] | None) -> HoldReply:
    """Return the ledger's reply; no row: another has the ticket."""
    if row is None:
        return HoldReply(held=False)
    stage, paused, concurrency, layer, layer_open, lost = row
    return HoldReply(
        held=True,
        stage=Stage(str(stage)),
        paused=bool(paused),
        concurrency=int(concurrency),  # type: ignore[call-overload]  # an integer
        layer=int(layer),  # type: ignore[call-overload]  # an integer
        layer_open=int(layer_open),  # type: ignore[call-overload]  # an integer
        lost=tuple(lost),  # type: ignore[arg-type]  # integers
    )

"""Shards: which process has claimed each, and how far it is.

A shard is held if its ticket and epoch are those of a ticket that is held. Every
statement that writes to one locks the ticket's row first.

Steps of many shards are written as the columns of one statement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields

import psycopg

from celery_sharding.codec import storable
from celery_sharding.errors import DatabaseUnavailable
from celery_sharding.ledger.base import Repository, record
from celery_sharding.model import Code, Failure, Hold, HoldReply, Shard, Step

LAST = -1
"""Where the value stands that the processor returned at the end."""
RUNS = frozenset({Code.PUSHED, Code.RUNNING})


def columns(steps: Sequence[Step]) -> dict[str, object]:
    """Return the parameters of `write_steps`; each shard has one step."""
    shards = [step.shard for step in steps]
    if len({*shards}) < len(shards):
        raise ValueError(f"a write has one step for each shard, not {sorted(shards)}")
    return {
        "shards": shards,
        "cursors": [step.cursor for step in steps],
        "aheads": [step.ahead for step in steps],
        "dones": [step.done for step in steps],
        "failed": [step.failed for step in steps],
        "returned": [step.returned for step in steps],
        "forgotten": [step.shard for step in steps if step.forget],
        "statuses": [int(step.status) for step in steps],
        "counts": [step.count for step in steps],
        **_results(steps),
        **_failures(steps),
        **_mended(steps),
        **_retries(steps),
    }


def place_of(step: Step) -> int:
    """Return where the results of a step stand among those of its shard.

    By its cursor, so that a write which is repeated finds them there. A step that gives
    the shard back, and one that closes it, have places of their own: what they bring
    may have come since the last flush, without the cursor moving.
    """
    kind = 0 if step.status in RUNS else 1 if step.status is Code.WAITING else 2
    return 3 * step.cursor + kind


def _results(steps: Sequence[Step]) -> dict[str, object]:
    rows = [
        (step.shard, place, body)
        for step in steps
        for place, body in ((place_of(step), step.results), (LAST, step.result))
        if body is not None
    ]
    return {
        "result_shards": [shard for shard, _, _ in rows],
        "result_ats": [place for _, place, _ in rows],
        "results": [body for _, _, body in rows],
    }


FAILURE = [one.name for one in fields(Failure)]


def _stored(value: object) -> object:
    return storable(value) if isinstance(value, str) else value


def _failures(steps: Sequence[Step]) -> dict[str, object]:
    # The last word on an item counts; two in one statement would be refused.
    last: dict[tuple[int, int], tuple[int, Failure]] = {
        (failure.origin, failure.place): (step.shard, failure)
        for step in steps
        for failure in step.failures
    }
    return {
        "error_steps": [shard for shard, _ in last.values()],
        **{
            f"error_{name}s": [_stored(getattr(one, name)) for _, one in last.values()]
            for name in FAILURE
        },
    }


def _mended(steps: Sequence[Step]) -> dict[str, object]:
    rows = [(step.shard, *item) for step in steps for item in step.mended]
    return {
        "mended_steps": [shard for shard, _, _ in rows],
        "mended_origins": [origin for _, origin, _ in rows],
        "mended_places": [place for _, _, place in rows],
    }


def _retries(steps: Sequence[Step]) -> dict[str, object]:
    rows = [
        (step.shard, *step.retry)
        for step in steps
        if step.retry is not None and step.retry[0]
    ]
    return {
        "retry_shards": [shard for shard, _, _ in rows],
        # An array of arrays would need them to be of one length.
        "retry_picks": [
            "{" + ",".join(str(place) for place in places) + "}"
            for _, places, _ in rows
        ],
        "retry_delays": [float(delay) for _, _, delay in rows],
    }


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
        return self._read(
            Shard,
            "claim_shards",
            **hold.named,
            layer=layer,
            most=most,
            after=after,
            hostname=hostname,
            lease=lease,
        )

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
                reply = self._read_one(
                    record(HoldReply, held=True),
                    "write_steps",
                    **hold.named,
                    lease=lease,
                    **parameters,
                )
            except psycopg.errors.UniqueViolation:
                continue  # nothing was written: by now the other's shards are seen
            return reply or HoldReply(held=False)
        raise DatabaseUnavailable(
            f"job {hold.job}: numbers for the shards of items that are tried again were"
            f" dealt by others {ROUNDS} times; nothing was written"
        )

"""Jobs whose shards belong to workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from celery_sharding.codec import encode_items
from celery_sharding.ledger import Ledger
from celery_sharding.model import Placement, Planned
from tests.integration.sharding.conftest import LEASE

Placed = Callable[..., int]
Owners = Callable[[int], list[str | None]]
Beat = Callable[..., None]
QUEUE = "imports"


@pytest.fixture
def placed(ledger: Ledger, submitted: Callable[..., str]) -> Placed:
    """Give a function that makes a job of these owners' shards; its number.

    All else are fields of Options.
    """

    def make(owners: Sequence[str | None], **options: object) -> int:
        task_id = submitted(placement=Placement.EVEN, **options)
        turn = ledger.plans.begin(task_id, "planner:1:a", LEASE)
        assert turn is not None
        body = encode_items([1])
        ledger.plans.write(
            turn, [Planned(layer=0, count=1, body=body, owner=one) for one in owners]
        )
        return turn.job

    return make


@pytest.fixture
def owners(ledger: Ledger) -> Owners:
    """Give a function that tells whose a job's shards are, in their order."""

    def told(job: int) -> list[str | None]:
        rows = ledger.database._connected().execute(
            "select owner from pecker_shards where job = %s order by shard", (job,)
        )
        return [row[0] for row in rows]

    return told


@pytest.fixture
def beat(ledger: Ledger) -> Beat:
    """Give a function that makes workers be seen, with so many slots each."""

    def seen(*hostnames: str, slots: int = 1) -> None:
        for one in hostnames:
            ledger.upkeep.record_worker(
                one, slots, f"{one}.dq", queues=[QUEUE, f"{one}.dq"]
            )

    return seen

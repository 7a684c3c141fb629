"""The database fails over to a standby: nothing that was replicated is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from celery_pecker.kernel.errors import PeckerError
from celery_pecker.testing import EmbeddedPostgres, eventually
from tests.integration.outbox_relay.making import Made
from tests.integration.outbox_relay.rows import column, record
from tests.integration.outbox_relay.standby import (
    BEHIND,
    PROMOTE,
    Standby,
    either,
    replicated,
)
from tests.integration.outbox_relay.wires import RedisWire

pytestmark = pytest.mark.soak

AMPLE = 60.0


@pytest.fixture
def pair() -> Iterator[tuple[EmbeddedPostgres, Standby]]:
    """Give a server and its standby."""
    with replicated() as servers:
        yield servers


def test_a_promoted_standby_is_delivered_whole(
    pair: tuple[EmbeddedPostgres, Standby], redis_url: str, queue_name: str
) -> None:
    """What waited, and the batch of a relay that went down with its server."""
    primary, standby = pair
    wire = RedisWire(redis_url, queue_name)
    lost = Made(primary.dsn, redis_url)
    made = Made(either(primary, standby), redis_url, hold=2.0)
    with psycopg.connect(primary.dsn, autocommit=True) as before:
        record(before, 200, queue=queue_name)
        made.step()
        record(before, 200, queue=queue_name)
        lost.batches.hold = 2.0
        assert lost.batches.claim(lost.batches.holder, above=0, most=50).batch
        record(before, 200, queue=queue_name)
        eventually(
            lambda: column(before, BEHIND) == [1], AMPLE, "the standby has it all"
        )
    primary.kill()
    with suppress(PeckerError):
        made.step()
    with psycopg.connect(standby.dsn, autocommit=True) as after:
        assert column(after, PROMOTE) == [True]

        def delivered() -> bool:
            with suppress(PeckerError):
                made.step()
            return column(after, "select count(*) from pecker_outbox") == [0]

        eventually(delivered, AMPLE, "the outbox is empty")
    found = wire.task_ids()
    assert len(found) == 600
    assert {*found.values()} == {1}
    made.close()
    lost.close()

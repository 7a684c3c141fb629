"""Where a claim begins to walk: past what is gone, and before whatever may come."""

from __future__ import annotations

from typing import Any

import psycopg

from celery_pecker.kernel.clock import new_id
from celery_pecker.outbox.relay.watermark import StragglerScan
from celery_pecker.testing import eventually
from tests.integration.outbox_relay.conftest import Makes, Relays
from tests.integration.outbox_relay.making import Made
from tests.integration.outbox_relay.rows import column, record

LEFT = "select id from pecker_outbox"


def passes(made: Made, above: int) -> None:
    """Have the relay take steps until it walks from there."""

    def passed() -> bool:
        made.step()
        return made.relay._watermark.above == above

    eventually(passed, 30.0, f"the relay walks from {above}")


def test_a_long_transaction_that_writes_elsewhere_keeps_nothing(
    dsn: str, outbox: psycopg.Connection[Any], makes: Makes, redis_url: str
) -> None:
    """It has a number, and is older than all that is recorded meanwhile."""
    made = makes(redis_url)
    with psycopg.connect(dsn) as report:
        report.execute("create table report (total bigint)")
        ids = record(outbox, 1_200)
        passes(made, ids[-1])


def test_what_a_transaction_recorded_is_waited_for(
    dsn: str, outbox: psycopg.Connection[Any], makes: Makes, redis_url: str
) -> None:
    """Its ids lie below those that are gone, and nobody can see them yet."""
    made = makes(redis_url)
    with psycopg.connect(dsn) as slow:
        before = record(outbox, 10)
        passes(made, before[-1])
        held = record(slow, 1_500)
        record(outbox, 10)
        [writer] = made.batches.writers()
        made.relay._watermark._since = float("-inf")
        made.step()
        made.step()
        assert made.relay._watermark.above == before[-1], writer
        slow.commit()
        assert made.batches.writers() == []
        made.step()
        made.step()
        assert column(outbox, LEFT) == [], held


def test_a_new_relay_begins_where_the_others_have_come_to(
    outbox: psycopg.Connection[Any], makes: Makes, relays: Relays, redis_url: str
) -> None:
    """It would walk over each row that was deleted and is still in the index."""
    made = makes(redis_url)
    ids = record(outbox, 1_200)
    passes(made, ids[-1])
    record(outbox, 1)
    made.step()
    [last] = record(outbox, 1)
    claim = relays().claim(new_id(), above=None)
    assert claim.above == ids[-1]
    assert claim.batch is not None
    assert claim.batch.ids == [last]


def test_what_lies_below_is_seen_after_a_while(
    outbox: psycopg.Connection[Any], makes: Makes, redis_url: str
) -> None:
    """Somebody has set the sequence back; the new ids are delivered all the same."""
    made = makes(redis_url)
    ids = record(outbox, 1_200)
    passes(made, ids[-1])
    outbox.execute("alter table pecker_outbox alter id restart")
    again = record(outbox, 3)
    assert again[-1] < ids[-1]

    made.relay._scan = StragglerScan()
    made.step()
    assert column(outbox, LEFT) == []

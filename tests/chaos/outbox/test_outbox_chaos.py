"""Callers, relays, database and broker die and freeze; each order has its message."""

from __future__ import annotations

from pathlib import Path

import pytest

from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis
from tests.chaos.outbox.events import RELAY_EVENTS, WINDOWS, events
from tests.chaos.outbox.stand import Stand, run

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

EVENTS = 10
SEED = 12


def test_half_of_the_events_are_aimed_at_each_window() -> None:
    """The same for a seed, whatever else there is."""
    drawn = [*events(400, seed=SEED, own_broker=True)]
    aimed = [one for one in drawn if one.point]
    assert len(aimed) == 200
    assert {one.point for one in aimed} == {*WINDOWS}
    assert {one.kind for one in aimed} == {*RELAY_EVENTS}
    assert drawn == [*events(400, seed=SEED, own_broker=True)]
    assert len({one.kind for one in drawn}) == 9


@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
@pytest.mark.timeout(300)
def test_each_order_has_its_message(
    broker: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """On Redis once; on RabbitMQ at least once, under the id that the caller has."""
    with EmbeddedPostgres() as postgres:
        if broker == "redis":
            with EmbeddedRedis(settings={"appendfsync": "always"}) as redis:
                stand = Stand(tmp_path, postgres, redis=redis)
                _judge(stand, own_broker=True)
        else:
            amqp_url = request.getfixturevalue("amqp_url")
            _judge(Stand(tmp_path, postgres, amqp_url=amqp_url), own_broker=False)


def _judge(stand: Stand, *, own_broker: bool) -> None:
    try:
        verdict = run(stand, [*events(EVENTS, seed=SEED, own_broker=own_broker)])
    except BaseException as error:
        for log in sorted(stand.folder.glob("*.log")):
            error.add_note(f"{log.name}:\n{log.read_text()[-3_000:]}")
        raise
    finally:
        stand.close()
    assert verdict["ordered"] > 0
    for wrong in ("lost", "made up", "doubled", "crashed", "held"):
        assert not verdict[wrong], (wrong, verdict)

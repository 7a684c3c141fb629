"""Messages are built before the claim of their entry, and not all before the first."""

from __future__ import annotations

import psycopg

from celery_pecker.kernel.errors import BrokerUnavailable
from celery_pecker.schedules.engine.model import Entry
from celery_pecker.testing.manual import ManualPecker, RecordingPublisher
from tests.integration.schedules.conftest import Starter

MANY = {f"entry {n}": 10.0 for n in range(50)}


class Builder(RecordingPublisher):
    """Keeps what it built, and how many slots were claimed at each time."""

    def __init__(self, dsn: str) -> None:
        super().__init__()
        self.claimed: set[int] = set()
        self.built: set[str] = set()
        self.away = True
        self._dsn = dsn

    def prepare(self, entry: object) -> None:
        """Build one; note how many slots are claimed at this moment."""
        if self.away:
            raise BrokerUnavailable
        assert isinstance(entry, Entry)
        assert entry.name not in self.built
        self.built.add(entry.name)
        with psycopg.connect(self._dsn) as connection:
            [(claimed,)] = connection.execute(
                "select count(*) from pecker_tasks where epoch > 0"
            )
        self.claimed.add(claimed)


def started(start: Starter, dsn: str) -> tuple[ManualPecker, Builder]:
    """Return a replica that could not build anything so far."""
    builder = Builder(dsn)
    return start(dict.fromkeys(MANY, 10.0), publisher=builder), builder


def test_what_is_due_is_built_before_it_is_claimed(start: Starter, dsn: str) -> None:
    """A process that dies between claim and publish loses slots: no work is there."""
    pecker, builder = started(start, dsn)
    pecker.clock.advance_us(10_000_000)
    builder.away = False
    assert len(pecker.turn()) == len(MANY)
    assert builder.claimed == {0}
    assert builder.built == MANY.keys()


def test_the_rest_is_built_while_nothing_is_due(start: Starter, dsn: str) -> None:
    """So a replica of 20,000 entries is at work before their messages are built."""
    pecker, builder = started(start, dsn)
    builder.away = False
    assert pecker.turn() == []
    assert builder.built == MANY.keys()


def test_a_broker_that_goes_away_while_they_are_built_costs_no_slot(
    start: Starter, dsn: str
) -> None:
    """Nothing is claimed; the slots are left to other replicas, or to a later step."""
    pecker, builder = started(start, dsn)
    pecker.clock.advance_us(10_000_000)
    pecker.service.step()
    assert pecker.publisher.sent == []
    builder.away = False
    pecker.pass_time(1)
    assert len(pecker.publisher.sent) == len(MANY)
    assert builder.claimed == {0}

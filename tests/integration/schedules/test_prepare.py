"""Messages are built before the claim of their entry, and not all before the first."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg

from celery_pecker.kernel.errors import BrokerUnavailable
from celery_pecker.testing.manual import ManualPecker
from tests.integration.schedules.conftest import Starter

MANY = {f"entry {n}": 10.0 for n in range(50)}


class Builder:
    """Stands for the publisher's building of messages; keeps what was claimed then."""

    def __init__(self, pecker: ManualPecker, dsn: str) -> None:
        self.claimed: list[int] = []
        self.built: set[str] = set()
        self.away = False
        self._connection = psycopg.connect(dsn, autocommit=True)
        pecker.publisher.prepare = self.prepare  # type: ignore[method-assign]
        pecker.publisher.prepare_more = self.prepare_more  # type: ignore[method-assign]

    def prepare(self, names: Iterable[str]) -> None:
        """Build some; note how many slots were claimed at this moment."""
        if self.away:
            raise BrokerUnavailable
        self.built.update(names)
        [(claimed,)] = self._connection.execute(
            "select count(*) from pecker_tasks where epoch > 0"
        )
        self.claimed.append(claimed)

    def prepare_more(self, *, within: float) -> bool:
        """Build one."""
        assert within <= 0.1
        left = sorted(MANY.keys() - self.built)
        self.built.update(left[:1])
        return len(left) > 1

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def test_what_is_due_is_built_before_it_is_claimed(start: Starter, dsn: str) -> None:
    """A process that dies between claim and publish loses slots: no work is there."""
    pecker = start(dict.fromkeys(MANY, 10.0))
    builder = Builder(pecker, dsn)
    assert len(pecker.pass_time(10)) == len(MANY)
    assert builder.claimed == [0]
    assert builder.built == MANY.keys()
    builder.close()


def test_the_rest_is_built_while_nothing_is_due(start: Starter, dsn: str) -> None:
    """So a replica of 20,000 entries is at work before their messages are built."""
    pecker = start(dict.fromkeys(MANY, 10.0))
    builder = Builder(pecker, dsn)
    pecker.turn()
    assert builder.built == MANY.keys()
    assert builder.claimed == []
    builder.close()


def test_a_broker_that_goes_away_while_they_are_built_costs_no_slot(
    start: Starter, dsn: str
) -> None:
    """Nothing is claimed; the slots are left to other replicas, or to a later step."""
    pecker = start(dict.fromkeys(MANY, 10.0))
    builder = Builder(pecker, dsn)
    builder.away = pecker.publisher.unreachable = True
    pecker.publisher.ensure = lambda: None  # type: ignore[method-assign]
    pecker.clock.advance_us(10_000_000)
    pecker.service.step()
    assert pecker.publisher.sent == []
    builder.away = False
    pecker.pass_time(1)
    assert len(pecker.publisher.sent) == len(MANY)
    builder.close()

"""A task waits before it takes a slot, and others pass."""

from __future__ import annotations

import pytest

from tests.integration.throttle.crossed import pools_and_brokers
from tests.integration.throttle.worker.stand import Stand

pytestmark = pytest.mark.cluster


@pools_and_brokers("prefork", "threads", "gevent", "solo")
def test_held_until_its_database_opens(either: Stand, pool: str) -> None:
    """More wait than the prefetch has room for, and other tasks pass all the same."""
    either.start(pool=pool)
    either.until_shut()
    names = [f"g{number}" for number in range(30)]
    either.send("gated", *names)
    either.until_held(30)
    either.send("free", "f1", "f2")
    either.send("other", "o1")
    either.until(either.ran_all("f1", "f2", "o1"), "others pass")
    assert not set(names) & set(either.ran)
    either.reopen()
    either.until(either.ran_all(*names), "all ran")
    assert set(either.ran.values()) == {1}
    either.until_held(0)
    told = either.inspect()
    assert told["prefetch_more"] == 0
    assert told["databases"]["main"]["admitted"] == 30

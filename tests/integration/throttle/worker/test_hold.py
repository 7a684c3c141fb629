"""A task waits before it takes a slot, and others pass."""

from __future__ import annotations

import pytest

from tests.integration.throttle.crossed import pools_and_brokers
from tests.integration.throttle.worker.stand import Stand
from throttle import flower
from throttle.findings import explain
from throttle.model import Estimator
from throttle.overview import judge
from throttle.settings import Settings

pytestmark = pytest.mark.cluster


@pools_and_brokers("prefork", "threads", "gevent", "solo")
def test_held_until_its_database_opens(either: Stand, pool: str) -> None:
    """More wait than the prefetch has room for, and other tasks pass all the same."""
    either.start(pool=pool)
    either.until_shut()
    names = [f"g{number}" for number in range(30)]
    either.send("gated", *names)
    either.until_held(30)
    told = either.inspect("throttle_held", task_id="g7")
    assert (told["database"], told["task"], told["ahead"]) == ("main", "gated", 7)
    assert told["seconds"] > 0
    assert not either.inspect("throttle_held", task_id="nobody")
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


@pools_and_brokers("solo")
def test_explain_names_the_worker_that_holds_a_task(either: Stand, pool: str) -> None:
    """How long it has waited, behind how many, and what holds its database shut."""
    either.start(pool=pool)
    either.until_shut()
    either.send("gated", *(f"g{number}" for number in range(4)))
    either.until_held(4)
    limits, views = Settings.read(either.conf).limits, either.store.look()
    statuses = judge(views, limits, estimator=Estimator.FAST)
    reply = explain(either.sender, "g2", statuses)
    assert (reply.verdict, reply.trouble) == ("held", False)
    assert either.name(0) in reply.why
    assert "before 'main', behind 2 older tasks" in reply.why
    assert any("4 tasks wait" in fact for fact in reply.facts), reply.facts
    assert explain(either.sender, "nobody", statuses).verdict == "not_held"
    seen = flower.Source(either.sender, Settings.read(either.conf))
    origin = flower.find(seen, "g2", "gated")
    assert origin is not None
    assert "before 'main', behind 2 older tasks" in origin.text
    assert flower.find(seen, "nobody", "gated") is None
    seen.looks.close()
    either.end()
    either.reopen()
    assert explain(either.sender, "g2", statuses).verdict == "unknown"

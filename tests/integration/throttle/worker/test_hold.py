"""A task waits before it takes a slot, and others pass."""

from __future__ import annotations

import re

import pytest

from celery_pecker.schedules.overview.verdicts import Explanation
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
    assert (told["database"], told["task"]) == ("main", "gated")
    assert 0 < told["ahead"] < 30  # those that came before it
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

    def answer(task: str, verdict: str) -> Explanation:
        # Workers have a second to answer, which a full machine may not give them.
        replies: list[Explanation] = []

        def answered() -> bool:
            replies.append(explain(either.sender, task, statuses))
            return replies[-1].verdict == verdict

        either.until(answered, f"it is {verdict}")
        return replies[-1]

    reply = answer("g2", "held")
    assert not reply.trouble
    assert either.name(0) in reply.why
    assert re.search("before 'main', behind [123] older task", reply.why)
    assert any("4 tasks wait" in fact for fact in reply.facts), reply.facts
    answer("nobody", "not_held")
    seen = flower.Source(either.sender, Settings.read(either.conf))
    either.until(lambda: flower.find(seen, "g2", "gated"), "Flower says so")
    origin = flower.find(seen, "g2", "gated")
    assert origin is None or "behind" in origin.text
    assert flower.find(seen, "nobody", "gated") is None
    seen.looks.close()
    either.end()
    either.reopen()
    # Workers of other tests on this broker may answer: they hold no such task.
    reply = explain(either.sender, "g2", statuses)
    assert reply.verdict in {"unknown", "not_held"}

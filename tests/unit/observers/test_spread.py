"""After a blackout the observers of a host do not all begin at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from celery import Celery

from celery_pecker.kernel.clock import monotonic
from celery_pecker.observers import Observers
from celery_pecker.observers.hosts.lives import Lives
from celery_pecker.observers.lease import Trust
from celery_pecker.observers.model import Report
from tests.unit.observers.test_no_more_threads import claimed, plain

APART = 1_000.0


def test_lives_begin_one_after_another() -> None:
    """And what failed not before its next try."""
    app = Celery("spread", broker="memory://", set_as_current=False)
    app.conf.pecker_dsn = "dbname=nowhere"
    observers = Observers(app)
    observers.observer(plain)
    trust = Trust()
    trust.renew(monotonic(), 100.0)
    made = Lives(observers.kinds, trust, schema="public")
    failed = replace(claimed(4), delay=9 * APART)
    waits: dict[int, float] = {}

    async def begin() -> None:
        made.begin(made.add([claimed(1), claimed(2), claimed(3), failed]), APART)
        now = asyncio.get_running_loop().time()
        for ident, life in made.by_id.items():
            waits[ident] = 0.0 if life.timer is None else life.timer.when() - now
        made.end(list(made.by_id), Report.RELEASED, "the test is over")

    asyncio.run(begin())
    assert {i: round(wait / APART) for i, wait in waits.items()} == {
        1: 0,
        2: 1,
        3: 2,
        4: 9,
    }

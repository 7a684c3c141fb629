"""Code that ends because its host is not trusted has neither failed nor finished."""

from __future__ import annotations

import asyncio
from typing import Any

from celery import Celery

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import LeaseLost
from celery_pecker.observers import Lease, Observers
from celery_pecker.observers.hosts.lives import Lives
from celery_pecker.observers.lease import Claimed, Trust
from celery_pecker.observers.model import Report


async def leaving(lease: Lease) -> None:
    """Come to an end, as the lease says so."""
    assert lease.stopping


async def checking(lease: Lease) -> None:
    """Let the check raise."""
    lease.check()


async def losing(lease: Lease) -> None:
    """Say that the lease is lost."""
    message = "a guard on another database"
    raise LeaseLost(message)


def lived(kind: Any, trusted: float) -> Lives:
    """Return what is known once the code of an observer has ended."""
    app = Celery("lapsed", broker="memory://", set_as_current=False)
    app.conf.pecker_dsn = "dbname=nowhere"
    observers = Observers(app)
    name = observers.observer(kind).kind
    trust = Trust()
    trust.renew(monotonic(), trusted)
    ended = asyncio.Event()
    made = Lives(observers.kinds, trust, schema="public", wake=ended.set)
    one = Claimed(
        id=1,
        epoch=1,
        name="one",
        kind=name,
        args={},
        weight=1,
        state=None,
        failures=0,
        delay=0.0,
        node="n",
    )

    async def live() -> None:
        made.begin(made.add([one]), 0.0)
        await ended.wait()
        made.end([1], Report.RELEASED, "the test is over")

    asyncio.run(live())
    return made


def test_what_returns_without_trust_is_not_deleted() -> None:
    """Else an outage of the database would end it for ever."""
    made = lived(leaving, 0.0)
    assert [*made.fenced] == [1]
    assert [*made.outcomes] == []


def test_what_asks_before_its_host_does_has_not_failed() -> None:
    """Nothing is reported of it: the tables know who has it."""
    made = lived(checking, 0.0)
    assert [*made.fenced] == [1]
    assert [*made.outcomes] == []


def test_what_says_that_a_trusted_lease_is_lost_has_failed() -> None:
    """It is tried again by its policy, after its wait."""
    made = lived(losing, 100.0)
    [failed, *_] = made.outcomes
    assert (failed.report, failed.failures, failed.delay) == (Report.FAILED, 1, 1.0)
    assert failed.error == "LeaseLost: a guard on another database"

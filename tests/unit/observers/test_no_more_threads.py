"""A machine without room for one more thread or process: said, and tried again."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

import pytest
from celery import Celery

from celery_pecker.kernel.clock import monotonic
from celery_pecker.observers import Lease, Observers
from celery_pecker.observers.hosts import lives, supervised_hosts
from celery_pecker.observers.hosts.lives import InThread
from celery_pecker.observers.lease import Claimed, Trust
from celery_pecker.observers.model import Report
from celery_pecker.testing import eventually


def plain(lease: Lease) -> None:
    """Wait in a thread."""
    while not lease.wait(30.0):
        pass


def claimed(ident: int) -> Claimed:
    """Return an observer that was taken."""
    return Claimed(
        id=ident,
        epoch=1,
        name=f"o{ident}",
        kind="plain",
        args={},
        weight=1,
        state=None,
        failures=0,
        delay=0.0,
        node="n",
    )


def test_what_cannot_begin_has_failed_and_the_next_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is tried again by its policy."""
    app = Celery("full", broker="memory://", set_as_current=False)
    app.conf.pecker_dsn = "dbname=nowhere"
    observers = Observers(app)
    observers.observer(plain)
    trust = Trust()
    trust.renew(monotonic(), 100.0)
    made = lives.Lives(observers.kinds, trust, schema="public")

    def full(name: str, call: Any, ended: Any) -> InThread:
        if name == "o1":
            message = "can't start new thread"
            raise RuntimeError(message)
        return InThread(name, call, ended)

    monkeypatch.setattr(lives, "InThread", full)

    async def begin() -> None:
        made.begin(made.add([claimed(1), claimed(2)]), 0.0)
        assert made.by_id[1].timer is not None
        assert made.by_id[2].running is not None
        made.end([1, 2], Report.RELEASED, "the test is over")

    asyncio.run(begin())
    [failed, *_] = made.outcomes
    assert (failed.id, failed.report) == (1, Report.FAILED)
    assert failed.error == "RuntimeError: can't start new thread"


def test_a_host_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its thread would end, and nobody would ever start one."""

    def full(*_args: Any, **_options: Any) -> Any:
        message = "too many open files"
        raise OSError(message)

    monkeypatch.setattr(subprocess, "Popen", full)
    host = supervised_hosts.SupervisedHost(
        {"name": "one", "conf": {"pecker_observers_lease": 5.0}}
    )
    host.start()
    eventually(lambda: host.info()["deaths"] >= 2, timeout=60.0)
    host.stop()
    assert host.join(60.0)


def test_a_stop_while_a_host_is_being_started_reaches_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would run on until a second signal: nobody knew its process yet."""
    start = subprocess.Popen
    host = supervised_hosts.SupervisedHost(
        {"name": "one", "conf": {"pecker_observers_lease": 5.0}}
    )

    def slow(_words: list[str], **options: Any) -> Any:
        process = start(["sleep", "600"], **options)
        host.stop()
        return process

    monkeypatch.setattr(subprocess, "Popen", slow)
    host.start()
    assert host.join(20.0)

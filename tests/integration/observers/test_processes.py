"""A process of one observer says how it ended, and its host knows it."""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import LeaseLost
from celery_pecker.observers import Lease
from celery_pecker.observers.hosts.child import InProcess, ProcessDied
from celery_pecker.observers.lease import Claimed, Trust
from celery_pecker.observers.model import Unreachable
from celery_pecker.testing import eventually
from tests.integration.observers import watch_app
from tests.integration.observers.conftest import SECONDS, Crew

TOLD = {
    "home": watch_app.__name__,
    "path": [],
    "modules": [],
    "conf": {},
    "loglevel": "WARNING",
}


def run(
    kind: str, trusted: float, **args: Any
) -> tuple[Lease, queue.Queue[BaseException | None]]:
    """Run an observer in a process; return its lease, and what hears of its end."""
    claimed = Claimed(
        id=1,
        epoch=1,
        name="own",
        kind=kind,
        args=args,
        weight=1,
        state=None,
        failures=0,
        delay=0.0,
        node="one",
    )
    lease = Lease(
        claimed,
        Trust(),
        schema="public",
        unreachable=Unreachable.STOP,
        save=lambda *_: None,
    )
    ends: queue.Queue[BaseException | None] = queue.Queue()
    InProcess({**TOLD, "trust": monotonic() + trusted}, claimed, lease, ends.put)
    return lease, ends


@pytest.mark.parametrize("raises", [False, True])
def test_a_process_that_ends_without_trust_says_so(raises: bool) -> None:
    """Else it would be deleted as one that returned, or tried by its policy."""
    lease, ends = run("asking", -1.0, raises=raises)
    error = ends.get(timeout=SECONDS)
    assert isinstance(error, LeaseLost) if raises else error is None
    assert lease.lapsed


def test_a_process_that_died_is_missed_while_what_it_forked_lives() -> None:
    """A child has its output too: that does not end with the process."""
    lease, ends = run("forking", 600.0)
    try:
        error = ends.get(timeout=SECONDS)
    finally:
        eventually(lambda: lease.state is not None, timeout=SECONDS)
        os.kill(lease.state, signal.SIGKILL)
    assert isinstance(error, ProcessDied)
    assert str(error) == "its process ended with 7"


def test_a_host_that_leaves_ends_where_its_tables_are_gone(
    crews: Callable[..., Crew],
) -> None:
    """Nobody would end it: its supervisor is gone when it is asked to leave."""
    crew = crews(pecker_observers_lease=1.0)
    supervisor = crew.start("one")
    with psycopg.connect(crew.dsn, autocommit=True) as connection:
        connection.execute("drop table pecker_observer_nodes cascade")
    supervisor.stop()
    assert supervisor.join(SECONDS)

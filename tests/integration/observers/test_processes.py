"""A process of one observer says how it ended, and its host knows it."""

from __future__ import annotations

import queue
from collections.abc import Callable

import psycopg
import pytest

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import LeaseLost
from celery_pecker.observers import Lease
from celery_pecker.observers.hosts.child import InProcess
from celery_pecker.observers.lease import Claimed, Trust
from celery_pecker.observers.model import Unreachable
from tests.integration.observers import watch_app
from tests.integration.observers.conftest import SECONDS, Crew

TOLD = {"home": watch_app.__name__, "modules": [], "conf": {}, "loglevel": "WARNING"}


@pytest.mark.parametrize("raises", [False, True])
def test_a_process_that_ends_without_trust_says_so(raises: bool) -> None:
    """Else it would be deleted as one that returned, or tried by its policy."""
    claimed = Claimed(
        id=1,
        epoch=1,
        name="own",
        kind="asking",
        args={"raises": raises},
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
    InProcess({**TOLD, "trust": monotonic() - 1.0}, claimed, lease, ends.put)
    error = ends.get(timeout=SECONDS)
    assert isinstance(error, LeaseLost) if raises else error is None
    assert lease.lapsed


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

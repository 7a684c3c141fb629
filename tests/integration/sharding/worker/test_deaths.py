"""Workers and their children that die, freeze, or are told to stop, in the middle."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from celery_pecker.testing import eventually
from celery_sharding.model import Code
from tests.integration.sharding.worker.conftest import Jobs
from tests.integration.sharding.worker.jobs_app import POISON

pytestmark = pytest.mark.xdist_group("cluster")
Make = Callable[..., Jobs]


def noted(result: Any) -> list[Any]:
    """Return the items whose results stand in the ledger, each as often as it does."""
    return sorted(str(item) for item, _ in result.results())


@pytest.mark.cluster
def test_shards_of_a_killed_child_go_on_at_once(jobs: Make) -> None:
    """From their cursor, however long its lease: the worker saw it die."""
    made = jobs(sharding_lease=600.0)
    made.worker("-P", "prefork", "-c", "2")
    items = [*range(80)]
    result = made.note.apply_async((items,), {"pace": 0.05}, size=(40, 40))
    eventually(lambda: len(made.seen()) > 30, 30.0, "it is in the middle")
    victim = made.pids()[-1]
    os.kill(victim, signal.SIGKILL)
    assert result.get(timeout=40.0) == {"total": 80, "done": 80, "failed": 0}
    assert noted(result) == sorted(map(str, items))
    seen = made.seen()
    assert {*seen} == {str(item) for item in items}
    assert sum(seen.values()) - len(seen) <= 10  # not from the beginning

"""A worker that supervises hosts: ``pecker_worker = {"observers"}``."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable

import pytest

from celery_pecker.observers import Place, Status
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.integration.observers import watch_app
from tests.integration.observers.conftest import SECONDS, Crew


@pytest.mark.soak
def test_a_worker_runs_observers_and_hands_over_at_its_end(
    crews: Callable[..., Crew], request: pytest.FixtureRequest
) -> None:
    """Lives end by themselves, wait for a host, and the host has said goodbye."""
    crew = crews()
    conf = {
        "pecker_worker": ["observers"],
        "pecker_observers_capacity": 10,
        "pecker_observers_lease": 30.0,
    }
    worker = ProcessContainer(
        [
            *(sys.executable, "-m", "tests.lean", "-A", watch_app.__name__, "worker"),
            *("-P", "solo", "-l", "INFO", "-n", "w@host"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ],
        name="worker",
        env={
            "PECKER_TEST_DSN_OF_APP": crew.dsn,
            "PECKER_TEST_CONF": json.dumps(conf),
        },
    )
    request.addfinalizer(worker.remove)
    worker.start()
    crew.observers.start("watch", "one")
    crew.noted("one", "began {}")
    row = crew.at("one", Place.RUNNING)
    eventually(lambda: "ready." in worker.life_log(), timeout=SECONDS)
    [node] = crew.observers.nodes()
    assert (node.name, node.node) == ("w@host-0", row.node)
    assert worker.exit_code is None
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.wait(SECONDS) == 0
    assert [what for what, *_ in crew.notes("one")] == ["began {}", "ended"]
    row = crew.row("one")
    assert (row.place, row.status) == (Place.WAITING, Status.PROCESSING)
    [node] = crew.observers.nodes(dead=True)
    assert node.state == "dead"
    assert crew.observers.nodes() == []
    events = [one.event for one in reversed(crew.observers.history("one"))]
    assert events == ["created", "started", "released"]

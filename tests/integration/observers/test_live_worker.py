"""`celery inspect` and `celery control` for the hosts of a worker that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from celery_pecker.kernel.clock import new_id
from celery_pecker.observers import Place
from example_project.processes import ProcessContainer
from tests.integration.observers import watch_app
from tests.integration.observers.conftest import SECONDS, Crew

CELERY = (sys.executable, "-m", "tests.lean", "-A", watch_app.__name__)


@pytest.mark.soak
def test_a_worker_is_asked_for_its_hosts_and_drained(
    crews: Callable[..., Crew], redis_url: str, request: pytest.FixtureRequest
) -> None:
    """Over the broker: who runs there; what is drained ends, and begins when it may."""
    crew = crews()
    name = f"w@{new_id().hex[:12]}"
    conf = {
        "broker_url": redis_url,
        "task_default_queue": name,
        "pecker_worker": ["observers"],
        "pecker_observers_capacity": 10,
    }
    env = {"PECKER_TEST_DSN_OF_APP": crew.dsn, "PECKER_TEST_CONF": json.dumps(conf)}
    worker = ProcessContainer(
        [
            *(*CELERY, "worker", "-P", "solo", "-l", "INFO", "-n", name),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ],
        name="worker",
        env=env,
    )
    request.addfinalizer(worker.remove)
    worker.start()

    def asked(kind: str, action: str) -> Any:
        """Return what the worker answers to a command."""
        words = [*CELERY, kind, "-d", name, "-t", str(SECONDS), "--json", action]
        done = subprocess.run(
            words,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr + worker.life_log()
        replies = json.loads(done.stdout)
        return (replies if kind == "inspect" else replies[0])[name]

    crew.observers.start("watch", "seen")
    crew.noted("seen", "began {}")
    crew.at("seen", Place.RUNNING)
    [host] = asked("inspect", "observers")["hosts"]
    assert (host["state"], host["names"]) == ("up", {"seen": "running"})
    assert (host["load"], host["capacity"]) == (1, 10)
    assert asked("control", "pecker_drain") == {"ok": "1 of 1 hosts are drained"}
    crew.noted("seen", "ended")
    crew.at("seen", Place.WAITING)
    [host] = asked("inspect", "observers")["hosts"]
    assert (host["state"], host["names"]) == ("draining", {})
    assert asked("control", "pecker_undrain") == {"ok": "1 of 1 hosts are undrained"}
    crew.noted("seen", "began {}", times=2)
    crew.observers.stop("seen")
    crew.at("seen", Place.GONE)

"""``pecker observe``: a process that supervises hosts, and loads no app for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest

from celery_pecker.observers import Place
from celery_pecker.observers.hosts import supervisor_main
from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.integration.observers import watch_app
from tests.integration.observers.conftest import SECONDS, Crew

STARTING = 180.0
"""Seconds: two processes import Celery, one after the other, on a busy machine."""
LOADED = """
import sys
import {}
print(sorted({{"celery", "kombu", "psycopg", "asyncio"}} & sys.modules.keys()))
"""


def test_supervising_needs_neither_celery_nor_a_driver() -> None:
    """They are most of the memory of a process that does nothing for hours."""
    code = LOADED.format(supervisor_main.__name__)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_host_that_died_is_buried_and_replaced(
    crews: Callable[..., Crew], request: pytest.FixtureRequest
) -> None:
    """At once, not when its lease is over; a signal has the next one hand over."""
    crew = crews()
    observe = ProcessContainer(
        [
            *(sys.executable, "-m", "tests.lean", "-A", watch_app.__name__),
            *("pecker", "observe", "--name", "here", "--capacity", "5"),
        ],
        name="observe",
        env={
            "PECKER_TEST_DSN_OF_APP": crew.dsn,
            "PECKER_TEST_CONF": '{"pecker_observers_lease": 100.0}',
        },
    )
    request.addfinalizer(observe.remove)
    # Before any host is there: each looks once more a second after it has joined.
    crew.observers.start("watch", "one")
    observe.start()
    [node] = eventually(crew.observers.nodes, timeout=STARTING)
    crew.noted("one", "began {}")
    words = psutil.Process(observe.pid).cmdline()
    assert words[1:3] == ["-m", supervisor_main.__name__]
    assert words[3:5] == ["-A", watch_app.__name__]
    [host] = psutil.Process(observe.pid).children()
    host.kill()
    eventually(
        lambda: [one.node for one in crew.observers.nodes()] not in ([], [node.node]),
        timeout=STARTING,
    )
    first, second = crew.noted("one", "began {}", times=2)
    assert second[1] > first[1]
    assert "host here-0 of observers ended (-9)" in observe.logs().decode()
    os.kill(observe.pid, signal.SIGTERM)
    assert observe.wait(SECONDS) == 0
    crew.at("one", Place.WAITING)
    eventually(lambda: not crew.observers.nodes(), timeout=SECONDS)

"""Items that run when their worker is ended, and items that raise no Exception."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from celery_pecker.testing import eventually
from celery_sharding.model import Code
from example_project.processes import ProcessContainer
from tests.integration.sharding.worker.conftest import Jobs
from tests.integration.sharding.worker.jobs_app import RAISED, STUBBORN

pytestmark = [
    pytest.mark.cluster,
    # Celery's backend calls what redis-py would have called otherwise.
    pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning"),
]
Make = Callable[..., Jobs]


def quits(worker: ProcessContainer, _: Jobs) -> None:
    """SIGQUIT: the worker ends what its pool runs."""
    os.kill(worker.pid, signal.SIGQUIT)


def interrupts(worker: ProcessContainer, _: Jobs) -> None:
    """SIGINT twice, as by Ctrl-C."""
    os.kill(worker.pid, signal.SIGINT)
    eventually(lambda: "Ctrl+C again" in worker.life_log(), 30.0, "it was seen")
    os.kill(worker.pid, signal.SIGINT)


def ends_group(worker: ProcessContainer, made: Jobs) -> None:
    """SIGTERM to all processes, as systemd and ``tini -g`` do."""
    for process in {worker.pid, *made.pids()}:
        os.kill(process, signal.SIGTERM)


@pytest.mark.parametrize(
    ("pool", "end"),
    [
        *(("prefork", end) for end in (quits, interrupts, ends_group)),
        *((pool, quits) for pool in ("threads", "gevent", "solo")),
        *((pool, interrupts) for pool in ("threads", "gevent", "solo")),
    ],
)
def test_what_runs_when_its_worker_is_ended_runs_elsewhere_at_once(
    jobs: Make, pool: str, end: Callable[[ProcessContainer, Jobs], None]
) -> None:
    """However long its lease. It has not failed, and no process died over it."""
    made = jobs(sharding_lease=600.0)
    worker = made.worker("-P", pool, "-c", "2")
    result = made.note.apply_async(([*range(6)],), {"pace": 1.0})
    running = 1 if pool == "solo" else 2
    eventually(lambda: len(made.seen()) >= running, 30.0, "items run")
    end(worker, made)
    worker.wait(30.0)
    assert not made.held()
    assert "died over" not in worker.life_log()
    made.worker("-P", pool, "-c", "2")
    assert result.get(timeout=40.0) == {"total": 6, "done": 6, "failed": 0}
    assert made.rows("select max(deaths), max(attempt) from pecker_shards") == [(0, 0)]
    assert sum(made.seen().values()) <= 6 + running


@pytest.mark.parametrize("item", ["plain", STUBBORN])
def test_a_child_that_is_ended_alone_is_replaced(jobs: Make, item: str) -> None:
    """Its item runs again; if it caught the signal it has ended, and its process, too.

    That counts as a death over it, as the item itself may be what ends its process.
    """
    made = jobs(sharding_lease=600.0)
    made.worker("-P", "prefork", "-c", "1")
    result = made.note.apply_async(([item, 1, 2],), {"pace": 0.5})
    eventually(lambda: len(made.seen()) == 1, 30.0, "it runs")
    (child,) = made.pids()
    os.kill(child, signal.SIGTERM)
    assert result.get(timeout=40.0) == {"total": 3, "done": 3, "failed": 0}
    assert made.seen() == {item: 1 if item == STUBBORN else 2, "1": 1, "2": 1}
    assert made.pids()[-1] != child
    assert made.rows("select max(attempt) from pecker_shards") == [(0,)]


def test_an_item_that_ends_its_process_by_a_signal_does_not_do_so_for_ever(
    jobs: Make,
) -> None:
    """It is blamed as one that kills it."""
    made = jobs(sharding_lease=600.0)
    made.worker("-P", "prefork", "-c", "2")
    result = made.note.delay([1, "ends itself", 2])
    assert result.get(timeout=60.0) == {"total": 3, "done": 2, "failed": 1}
    (error,) = result.errors()
    assert (error.item, error.code) == ("ends itself", Code.DIED)


def test_a_child_whose_job_is_revoked_and_terminated_is_replaced(jobs: Make) -> None:
    """A crash in it would end another job, later, as if that were revoked."""
    made = jobs(sharding_lease=600.0)
    made.worker("-P", "prefork", "-c", "1")
    result = made.note.apply_async(([*range(60)],), {"pace": 0.1})
    eventually(lambda: len(made.seen()) > 1, 30.0, "it runs")
    child = made.pids()[-1]
    made.app.control.revoke(result.id, terminate=True)
    made.note.delay(["later"]).get(timeout=40.0)
    assert made.pids()[-1] != child


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_whatever_an_item_raises_is_its_own_failure(jobs: Make, pool: str) -> None:
    """The job goes on, and ends once: what follows is called, and no errback."""
    made = jobs(sharding_lease=600.0)
    worker = made.worker("-P", pool, "-c", "2")
    items = [one for kind in RAISED for one in (kind, f"after {kind}")]
    result = made.note.apply_async(
        (items,),
        link=made.app.tasks["jobs.told"].si(1),
        link_error=made.app.tasks["jobs.blamed"].s(),
    )
    counted = {"total": len(items), "done": len(RAISED), "failed": len(RAISED)}
    assert result.get(timeout=40.0) == counted
    eventually(lambda: made.seen()["told"] == 1, 30.0, "what follows was called")
    assert {one.item: one.code for one in result.errors()} == dict.fromkeys(
        RAISED, Code.FAILED
    )
    assert {*made.seen().values()} == {1}
    assert "blamed" not in made.seen()
    assert worker.exit_code is None

"""A worker and the messages it holds outlive a restart of Redis."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable

import psutil
import pytest

from tests.integration.worker.stand import PLAIN, Stand

Stands = Callable[..., Stand]

AHEAD = ("ahead-1", "ahead-2", "ahead-3")


def occupy(stand: Stand) -> None:
    """Two tasks run, one of either kind of acknowledgement; more wait in the worker."""
    stand.send("hold_late", "late")
    stand.send("hold", "early")
    stand.until(lambda: stand.journal.total() == 2, "two tasks run")
    for name in AHEAD:
        stand.send("mark", name)
    stand.send("mark_late", "ahead-late")
    stand.send("mark", "scheduled", countdown=600)
    held = {"late", *AHEAD, "ahead-late", "scheduled"}
    stand.until(lambda: set(stand.held) == held, "the worker holds all but the early")


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_each_held_message_runs_once_when_redis_was_restarted(
    stand: Stands, pool: str
) -> None:
    """Running tasks keep their message, waiting ones are given back at once."""
    # With mingle, gossip and heartbeat, as workers are started: channels that break too
    site = stand()
    site.start("-P", pool, "-c", "2")
    occupy(site)
    before = site.held

    site.restart_redis(slowly=True)

    # A thread pool takes nothing back, so what it was given stays with the worker.
    returned = {"scheduled"} | (
        {*AHEAD, "ahead-late"} if pool == "prefork" else set[str]()
    )
    site.until(
        lambda: (
            {name for name, at in site.held.items() if at > before[name]} == returned
        ),
        "what was not started is given back, and delivered anew",
    )
    assert set(site.held) == set(before)
    assert site.journal == Counter(["began late", "began early"])

    site.open("late", "early")
    site.until(lambda: set(site.held) == {"scheduled"}, "all else is acknowledged")
    site.until(lambda: site.journal.total() == 8, "each task ran")
    once = ["began late", "began early", "ended late", "ended early", "ran ahead-late"]
    assert site.journal == Counter([*once, *(f"ran {name}" for name in AHEAD)])
    assert site.queued == []

    # Again, with nothing running; and the end of the worker is as it always was.
    site.restart_redis()
    site.send("mark", "after")
    site.until(lambda: site.journal["ran after"] == 1, "a new task runs")
    site.worker.stop()
    assert site.worker.exit_code == 0
    assert site.queued == ["scheduled"]
    assert site.held == {}


def test_an_idle_solo_worker_and_a_busy_one_survive(stand: Stands) -> None:
    """What a solo worker finished while Redis was away is acknowledged afterwards."""
    site = stand()
    site.start("-P", "solo", *PLAIN)
    site.restart_redis()

    site.send("mark", "scheduled", countdown=600)
    site.send("hold_late", "late")
    site.until(lambda: site.journal["began late"] == 1, "it runs")
    site.server.kill()
    site.open("late")
    site.until(lambda: site.losses == 2, "it noticed")
    site.server.start()

    site.until(lambda: set(site.held) == {"scheduled"}, "it was acknowledged")
    site.send("mark", "after")
    site.until(lambda: site.journal["ran after"] == 1, "a new task runs")
    assert site.journal == Counter(["began late", "ended late", "ran after"])


def test_a_cut_connection_does_not_hand_out_what_still_runs(stand: Stands) -> None:
    """Redis is well and only the connections broke: kombu gives back all, we do not."""
    site = stand()
    site.start("-P", "prefork", "-c", "2", *PLAIN)
    occupy(site)
    before = site.held

    site.cut()

    site.until(lambda: site.held.get("ahead-1", 0) > before["ahead-1"], "given back")
    assert site.held["late"] == before["late"]
    site.open("late", "early")
    site.until(lambda: set(site.held) == {"scheduled"}, "all else is acknowledged")
    assert set(site.journal.values()) == {1}


def test_a_worker_that_is_ended_gives_back_what_it_kept(stand: Stands) -> None:
    """A cold shutdown returns the messages of earlier connections like its own."""
    site = stand()
    site.start("-P", "prefork", "-c", "2", *PLAIN)
    site.send("hold_late", "kept")
    site.until(lambda: site.journal["began kept"] == 1, "it runs")
    site.cut()
    site.send("hold_late", "new")
    site.until(lambda: site.journal["began new"] == 1, "another runs")
    site.until(lambda: site.accepted == {"kept", "new"}, "the worker knows of both")

    os.kill(site.worker.pid, signal.SIGQUIT)
    site.until(lambda: not site.running, "the worker ended")

    assert sorted(site.queued) == ["kept", "new"]
    assert site.held == {}


def test_a_message_fetched_but_not_recorded_is_not_lost(stand: Stands) -> None:
    """Redis dies between handing a message out and writing down who has it."""
    site = stand()
    site.start("-P", "prefork", "-c", "1", *PLAIN)
    site.send("mark", "first")
    site.until(lambda: site.journal["ran first"] == 1, "the worker fetches")
    site.until(lambda: site.held == {}, "and has acknowledged it")

    # The answer waits at a frozen worker, which finds Redis gone when it goes on.
    site.until(site.freeze_while_it_fetches, "it waits for an answer")
    site.send("mark", "second")
    assert site.held == {}
    site.server.kill()
    os.kill(site.worker.pid, signal.SIGCONT)
    site.until(lambda: site.losses == 1, "it noticed")
    site.server.start()

    site.until(lambda: site.journal["ran second"] == 1, "it ran")
    site.until(lambda: site.held == {}, "it was acknowledged")
    assert site.journal == Counter(["ran first", "ran second"])


def test_a_task_on_its_way_to_a_process_runs_once(stand: Stands) -> None:
    """A pool process that has not said that it began is going to: nobody else may."""
    site = stand()
    site.start("-P", "prefork", "-c", "1", *PLAIN)
    site.send("mark", "first")
    site.until(lambda: site.journal["ran first"] == 1, "the process is up")
    site.until(lambda: site.held == {}, "and waits for more")
    (child,) = psutil.Process(site.worker.pid).children()
    child.send_signal(signal.SIGSTOP)
    site.send("mark", "sent")
    site.until(lambda: "sent" in site.held, "the worker has it")
    site.until(lambda: site.log.count("Task mark[sent] received") == 1, "and sent it")
    before = site.held

    site.restart_redis()
    site.send("mark", "next")
    site.until(lambda: "next" in site.held, "the worker fetches again")
    assert site.held["sent"] == before["sent"]

    child.send_signal(signal.SIGCONT)
    site.until(lambda: site.held == {} and site.journal.total() == 3, "all ran")
    assert site.journal == Counter(["ran first", "ran sent", "ran next"])


def test_a_task_that_celery_terminates_at_the_loss_goes_back(stand: Stands) -> None:
    """`worker_cancel_long_running_tasks_on_connection_loss` keeps its meaning.

    And what goes back keeps its order: the oldest is the next one again.
    """
    site = stand()
    site.start(
        *("-P", "prefork", "-c", "1", *PLAIN),
        worker_cancel_long_running_tasks_on_connection_loss=True,
    )
    site.send("hold_late", "late")
    site.until(lambda: site.journal["began late"] == 1, "it runs")
    for name in AHEAD:
        site.send("mark", name)
    site.until(lambda: set(site.held) == {"late", *AHEAD}, "the others wait")
    site.until(lambda: "late" in site.accepted, "the worker knows that it runs")

    site.restart_redis()

    site.until(lambda: site.journal["began late"] == 2, "it runs again")
    site.open("late")
    site.until(lambda: site.held == {}, "all is acknowledged")
    site.until(lambda: site.journal.total() == 6, "all ran")
    in_order = ["began late", "began late", "ended late"]
    assert site.lines == [*in_order, *(f"ran {name}" for name in AHEAD)]


def test_the_worker_survives_a_redis_that_lost_its_data(stand: Stands) -> None:
    """What waited is gone with the data; what ran ends; what comes runs."""
    site = stand(forgetful=True)
    site.start("-P", "prefork", "-c", "2", *PLAIN)
    occupy(site)

    site.restart_redis()
    site.open("late", "early")
    site.until(lambda: site.journal.total() == 4, "what ran has ended")
    site.send("mark", "after")
    site.until(lambda: site.journal["ran after"] == 1, "a new task runs")

    assert set(site.journal.values()) == {1}
    assert not {f"ran {name}" for name in AHEAD} & set(site.journal)
    site.until(lambda: site.held == {}, "nothing is held")
    assert site.queued == []


def test_without_the_guard_the_worker_exits(stand: Stands) -> None:
    """The fault of celery and kombu 5.7: once this is red, the guard may retire."""
    site = stand()
    site.start("-P", "prefork", "-c", "2", *PLAIN, guarded=False)
    occupy(site)

    site.lose_redis()
    site.open("late", "early")
    site.until(lambda: not site.running, "the worker exits")

    assert site.worker.exit_code == 1
    assert "'NoneType' object has no attribute 'hostname'" in site.log

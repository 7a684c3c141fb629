"""Observers on real hosts: they begin, fail, end, and go on from their cursor."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from celery_pecker.observers import Answer, Place, Status
from celery_pecker.testing import eventually
from tests.integration.observers.conftest import SECONDS, Crew


@pytest.fixture(scope="module")
def crew(crews: Callable[..., Crew]) -> Crew:
    """Give one host for all tests of the module."""
    made = crews(pecker_observers_lease=3.0)
    made.start("one")
    return made


def test_one_runs_until_it_is_stopped(crew: Crew) -> None:
    """With its arguments; then its name is free."""
    crew.observers.start("watch", "btc", symbol="BTC")
    crew.noted("btc", 'began {"symbol": "BTC"}')
    assert crew.at("btc", Place.RUNNING).status is Status.PROCESSING
    assert crew.observers.stop("btc") is Answer.ASKED
    assert crew.at("btc", Place.GONE).status is Status.DELETED
    assert [what for what, *_ in crew.notes("btc")][1:] == ["ended"]


def test_what_fails_is_tried_again_in_place_and_then_parked(crew: Crew) -> None:
    """By its policy: two more tries here; its error stays in the row."""
    crew.observers.start("failing", "bad")
    row = crew.at("bad", Place.PARKED)
    assert row.failures == 3
    assert row.last_error == "ConnectionError: bad cannot go on"
    assert row.node is None
    assert row.status is Status.PROCESSING
    tries = crew.noted("bad", "tried", times=3)
    assert len({pid for _, _, pid, _ in tries}) == 1
    assert crew.observers.restart("bad") is Answer.ASKED
    crew.noted("bad", "tried", times=6)
    assert crew.at("bad", Place.PARKED).failures == 3


def test_code_that_says_its_lease_is_lost_has_failed_while_it_is_not(
    crew: Crew,
) -> None:
    """It is tried by its policy, and parked: it does not begin anew for ever."""
    crew.observers.start("losing", "lost")
    row = crew.at("lost", Place.PARKED)
    assert (row.failures, row.moves) == (3, 0)
    assert row.last_error == "LeaseLost: a guard on another database"
    epochs = {epoch for _, epoch, _, _ in crew.noted("lost", "tried", times=3)}
    assert len(epochs) == 1


def test_one_that_exits_ends_no_other(crew: Crew) -> None:
    """Its host, and what else it runs, goes on."""
    crew.observers.start("watch", "beside")
    [beside] = crew.noted("beside", "began {}")
    crew.observers.start("exiting", "exit")
    row = crew.at("exit", Place.PARKED)
    assert row.last_error == "Exited: observer 'exit' raised SystemExit(3)"
    assert crew.noted("exit", "began")[0][2] == beside[2]
    crew.observers.stop("beside")
    crew.at("beside", Place.GONE)
    assert [one[:3] for one in crew.notes("beside")] == [
        beside[:3],
        ("ended", *beside[1:3]),
    ]


def test_one_that_comes_to_its_end_is_deleted(crew: Crew) -> None:
    """It has stopped itself."""
    crew.observers.start("brief", "once")
    assert crew.at("once", Place.GONE).status is Status.DELETED


def test_the_next_life_goes_on_from_the_cursor(crew: Crew) -> None:
    """A restart ends one life, and begins another under a higher epoch."""
    crew.observers.start("counting", "count")
    crew.noted("count", "counts 1")
    assert crew.observers.restart("count") is Answer.ASKED
    first, second = crew.noted("count", "counts 2")
    assert second[1] > first[1]


def test_a_plain_function_runs_in_a_thread(crew: Crew) -> None:
    """And ends by its lease."""
    crew.observers.start("plain", "thread")
    crew.noted("thread", "began")
    crew.observers.stop("thread")
    crew.at("thread", Place.GONE)
    crew.noted("thread", "ended")


def test_a_process_of_its_own_goes_on_from_its_cursor(crew: Crew) -> None:
    """It dies without a word: the host lives, and tries it again."""
    crew.observers.start("apart", "own")
    [first] = crew.noted("own", "counts 1")
    host = crew.at("own", Place.RUNNING).node
    eventually(lambda: crew.row("own").state == 1, timeout=SECONDS)
    os.kill(first[2], signal.SIGKILL)
    second = crew.noted("own", "counts 2")[-1]
    assert second[2] != first[2]
    assert crew.row("own").node == host
    assert "its process ended with -9" in str(crew.row("own").last_error)
    crew.observers.stop("own")
    crew.noted("own", "ended")
    crew.at("own", Place.GONE)


def test_a_process_that_does_not_end_is_killed(crew: Crew) -> None:
    """After its grace; nobody else on the host notices."""
    crew.observers.start("stuck", "stuck")
    crew.noted("stuck", "began")
    crew.observers.stop("stuck")
    assert crew.at("stuck", Place.GONE).status is Status.DELETED


def test_a_lone_host_that_is_blocked_is_replaced(crew: Crew) -> None:
    """Nobody else is there to take its observers: its supervisor hears no beat."""
    crew.observers.start("blocking", "alone")
    notes = crew.noted("alone", "began", times=2)
    assert notes[0][2] != notes[-1][2]
    crew.observers.stop("alone")
    crew.at("alone", Place.GONE)


def test_a_lone_host_that_a_callback_blocks_is_replaced(crew: Crew) -> None:
    """No observer has the event loop: the host cannot know which one to report."""
    crew.observers.start("blocking_later", "callback")
    notes = crew.noted("callback", "began", times=2)
    assert notes[0][2] != notes[-1][2]
    assert crew.row("callback").failures == 0
    crew.observers.stop("callback")
    crew.at("callback", Place.GONE)


def test_one_that_blocks_each_of_its_hosts_is_parked(crew: Crew) -> None:
    """By its policy, as one that raises: no host hangs for it any more."""
    crew.observers.start("hanging", "hangs")
    row = crew.at("hangs", Place.PARKED)
    assert row.failures == 2
    assert "EventLoopBlocked: it held up the event loop of its host for" in str(
        row.last_error
    )
    assert len({pid for _, _, pid, _ in crew.notes("hangs")}) == 2

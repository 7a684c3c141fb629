"""Real hosts that are killed, frozen, blocked, drained."""

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
    """Give two hosts, each with a supervisor, for all tests of the module."""
    made = crews(pecker_observers_lease=3.0)
    made.start("left")
    made.start("right")
    return made


def lives(crew: Crew, name: str, most: int) -> list[tuple[int, int]]:
    """Wait for so many lives of an observer; return their epochs and processes."""
    notes = crew.noted(name, "began {}", times=most)
    return [(epoch, pid) for what, epoch, pid, _ in notes if what == "began {}"]


def test_what_a_killed_host_ran_begins_elsewhere_or_anew(crew: Crew) -> None:
    """Its supervisor has waited for its end, and says so at once."""
    crew.observers.start("watch", "killed")
    [(first, pid)] = lives(crew, "killed", 1)
    os.kill(pid, signal.SIGKILL)
    _, (second, other) = lives(crew, "killed", 2)
    assert second > first
    assert other != pid
    assert crew.row("killed").status is Status.PROCESSING


def test_a_frozen_host_is_replaced(crew: Crew) -> None:
    """It beats no more: it is killed before its lease is over."""
    crew.observers.start("watch", "frozen")
    [(first, pid)] = lives(crew, "frozen", 1)
    os.kill(pid, signal.SIGSTOP)
    _, (second, other) = lives(crew, "frozen", 2)
    assert second > first
    assert other != pid


def test_an_observer_that_blocks_its_host_has_it_replaced(crew: Crew) -> None:
    """The others on it are run on by another host."""
    crew.observers.start("blocking", "block")
    notes = crew.noted("block", "began", times=2)
    assert notes[0][2] != notes[-1][2]
    assert crew.at("block", Place.RUNNING).state == "blocked once"
    assert crew.observers.stop("block") is Answer.ASKED


def test_a_drained_host_hands_over(crew: Crew) -> None:
    """Its lives end, and begin on the other one; it takes nothing until it may."""
    crew.observers.start("watch", "moved")
    lives(crew, "moved", 1)
    before = crew.at("moved", Place.RUNNING).node
    assert before is not None
    assert crew.observers.drain(before) == 1
    lives(crew, "moved", 2)
    eventually(lambda: crew.row("moved").node not in {None, before}, timeout=SECONDS)
    assert crew.row("moved").moves == 1
    assert crew.observers.undrain(before) == 1


def test_a_drained_host_that_dies_comes_back_drained(
    crews: Callable[..., Crew],
) -> None:
    """Each time, until it may take observers again."""
    crew = crews(pecker_observers_lease=3.0)
    [host] = crew.start("drained").hosts

    def dies(deaths: int) -> str:
        os.kill(host.info()["pid"], signal.SIGKILL)
        eventually(lambda: host.info()["deaths"] == deaths, timeout=SECONDS)
        return state()

    def state() -> str:
        eventually(lambda: host.info()["node"] != "", timeout=SECONDS)
        node = host.info()["node"]
        [found] = [one.state for one in crew.observers.nodes() if one.node == node]
        return str(found)

    assert state() == "up"
    assert crew.observers.drain(host.info()["name"]) == 1
    assert dies(deaths=1) == "draining"
    assert dies(deaths=2) == "draining"
    assert crew.observers.undrain(host.info()["name"]) == 1
    assert dies(deaths=3) == "up"
    crew.close()

"""A host that has grown beyond its limit is replaced, and nobody stands still."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import pytest

from celery_pecker.observers import Place
from celery_pecker.observers.hosts import capacity, supervised_hosts
from celery_pecker.testing import eventually
from tests.integration.observers.conftest import SECONDS, Crew

LIMIT = 250_000_000
"""Bytes: more than a host of the tests has, less than one that leaks."""


@pytest.mark.slow
def test_a_host_that_has_grown_hands_over_to_one_that_is_up(
    crews: Callable[..., Crew],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The other observers of it move once, to a process that has joined before."""
    monkeypatch.setattr(supervised_hosts, "LIVED", 0.0)
    crew = crews(pecker_observers_memory_bytes=LIMIT)
    supervisor = crew.start("one")
    crew.observers.start("watch", "beside")
    crew.noted("beside", "began {}")
    assert [host["replaced"] for host in supervisor.info()] == [0]
    with caplog.at_level(logging.WARNING, logger="celery_pecker.observers"):
        crew.observers.start("leaking", "leak")
        crew.noted("leak", "leaks", times=2)
        crew.noted("beside", "began {}", times=2)
    eventually(lambda: len(crew.observers.nodes()) == 1, timeout=SECONDS)
    name = supervisor.info()[0]["name"]  # other tests of the module have left theirs
    nodes = [one for one in crew.observers.nodes(dead=True) if one.name == name]
    old, new = sorted(nodes, key=lambda one: one.started_at)
    assert old.left_at is not None
    assert new.started_at < old.left_at
    assert {crew.at(name, Place.RUNNING).node for name in ("leak", "beside")} == {
        new.node
    }
    [info] = supervisor.info()
    assert (info["replaced"], info["deaths"], info["node"]) == (1, 0, new.node)
    assert [crew.row(name).moves for name in ("leak", "beside")] == [1, 1]
    assert "and pecker_observers_memory_bytes is 250000000" in caplog.text
    crew.close()


@pytest.mark.slow
def test_a_process_of_an_observer_counts(
    crews: Callable[..., Crew], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host has little, and both together are beyond the limit."""
    monkeypatch.setattr(supervised_hosts, "LIVED", 0.0)
    crew = crews(pecker_observers_memory_bytes=LIMIT)
    supervisor = crew.start("parent")
    crew.observers.start("leaking_apart", "apart")
    crew.noted("apart", "leaks", times=2)
    eventually(lambda: supervisor.info()[0]["replaced"] == 1, timeout=SECONDS)
    crew.close()


@pytest.mark.slow
def test_a_host_that_drains_is_not_replaced(
    crews: Callable[..., Crew], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor would be up, and take what the drain gives away."""
    monkeypatch.setattr(supervised_hosts, "LIVED", 3_600.0)
    crew = crews(pecker_observers_memory_bytes=10_000_000)  # any host has more
    supervisor = crew.start("full")
    [host] = supervisor.hosts
    name = host.info()["name"]

    def memory() -> int:
        return 0 if host._process is None else host._process.memory

    eventually(lambda: memory() > 10_000_000, timeout=SECONDS)
    assert crew.observers.drain(name) == 1
    eventually(lambda: memory() == 0, timeout=SECONDS / 3)
    monkeypatch.setattr(supervised_hosts, "LIVED", 0.0)
    # Longer than between two beats, of which each may have it replaced.
    assert not host.join(0.5)
    nodes = [one for one in crew.observers.nodes() if one.name == name]
    assert [one.state for one in nodes] == ["draining"]
    assert host.info()["replaced"] == 0
    assert crew.observers.undrain(name) == 1
    eventually(lambda: host.info()["replaced"] > 0, timeout=SECONDS)
    crew.close()


def test_the_memory_of_this_process_is_that_of_now() -> None:
    """A host that has freed what it had is not replaced for it."""
    before = capacity.used()
    assert 1_000_000 < before < 100_000_000_000
    filled = b"x" * 100_000_000
    with_it = capacity.used()
    assert with_it > before + 50_000_000
    del filled
    assert capacity.used() < with_it - 50_000_000


@pytest.mark.skipif(not capacity.PROC.exists(), reason="other processes are not seen")
def test_the_memory_of_a_process_that_has_ended_is_none() -> None:
    """A child may end while its host is measured."""
    alone = capacity.used()
    assert capacity.used([os.getpid()]) > 1.5 * alone
    assert capacity.used([2**22 + 1]) < 1.5 * alone  # above the most that Linux has

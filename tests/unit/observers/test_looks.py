"""When a host looks at the tables next, and when it does not."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from celery_pecker.kernel.clock import monotonic
from celery_pecker.observers.hosts.host import Host, Plan
from celery_pecker.observers.hosts.tables import Pulse
from celery_pecker.observers.placement import SETTLING, HostLoad, Survey, Waiting

LEASE = 100.0
LOAD = HostLoad(
    node="one", up=True, capacity=9, weight=0, count=0, kinds=frozenset({"watch"})
)
WAITING = Waiting(kind="watch", weight=1, count=1, age=0.0)
PLAN = Plan(name="one", pid=1, capacity=1, lease=LEASE, start_rate=1, history=0)


class Stand:
    """A host without tables and lives, and what it asked of them."""

    def __init__(
        self, *, held: int = 0, draining: bool = False, waiting: int = 0
    ) -> None:
        self.asked: list[str] = []
        self.joined: list[bool] = []
        """Of each time: whether it drained before."""
        self.on_turn: Any = None
        life = SimpleNamespace(ending=None, claimed=None)
        lives: Any = SimpleNamespace(
            turned=monotonic(),
            stuck="",
            fenced=deque[int](),
            fence=lambda *_: None,
            outcomes=deque[Any](),
            cursors={},
            by_id=dict.fromkeys(range(held), life),
            weight=0,
            end=lambda *_: None,
            add=lambda _: [],
            stack=lambda: "here",
            on_turn=lambda: self.on_turn,
            fail_blocking=lambda life, _: self.asked.append(
                f"blame {life.claimed.name}"
            ),
        )
        self.lives = lives
        self.pulse = Pulse(
            "up" if waiting else "draining",
            (),
            orphans=False,
            orders=False,
            waiting=bool(waiting),
            draining=draining,
            notices=False,
        )

        def answer() -> Pulse:
            self.asked.append("pulse")
            return self.pulse

        tables: Any = SimpleNamespace(
            node="one",
            database=SimpleNamespace(
                made=0, change=lambda *_, **__: self.asked.append("drain")
            ),
            join=lambda *_, **about: self.joined.append(about["drains"]),
            survey=lambda: Survey((LOAD,), (replace(WAITING, weight=waiting),)),
            claim=self.claim,
            pulse=answer,
            retake=self.retake,
        )
        trust: Any = SimpleNamespace(renew=lambda *_: None, end=lambda: None)
        self.host = Host(
            PLAN,
            tables,
            lives,
            trust,
            on_loop=lambda _: None,
            over=lambda: None,
            notices=lambda: None,
            events=cast("Any", SimpleNamespace()),
            abort=lambda: self.asked.append("abort"),
        )

    def claim(self, _room: int, _most: int) -> list[Any]:
        """Take nothing."""
        self.asked.append("claim")
        return []

    def retake(self, running: list[int], _most: int) -> list[Any]:
        """Take nothing."""
        assert running == []
        self.asked.append("retake")
        return []


def test_a_drained_host_that_is_empty_looks_as_seldom_as_any() -> None:
    """It may stay so for days; one that still holds something hurries."""
    empty, full = Stand(), Stand(held=3, draining=True)
    for stand in (empty, full):
        stand.host.step()  # it learns that it drains
    assert empty.host.step() == PLAN.look
    assert full.host.step() < 1.0 < PLAN.look
    assert "retake" not in [*empty.asked, *full.asked]


def test_a_drained_host_ends_what_it_holds_and_does_not_run() -> None:
    """It lost its trust while it drained; nobody else may take it."""
    stand = Stand(draining=True)
    stand.host.step()
    stand.host.step()
    assert stand.asked == ["pulse", "drain", "pulse", "retake"]


def test_a_drained_host_that_was_buried_drains() -> None:
    """It joins once more after an outage; people have drained it for good."""
    stand = Stand()
    stand.host.step()  # it learns that it drains
    drains = stand.pulse
    stand.pulse = drains._replace(state=None)
    stand.host.step()
    stand.pulse = drains
    stand.host.step()
    assert stand.joined == [False, True]


@pytest.mark.parametrize("seconds", [0.0, LEASE])
def test_a_host_whose_event_loop_hangs_does_not_renew(seconds: float) -> None:
    """Its observers stand still: others are to take them."""
    stand = Stand()
    stand.lives.turned -= seconds
    stand.host.step()
    assert ("pulse" in stand.asked) is (seconds == 0.0)


@pytest.mark.parametrize(
    ("seconds", "asked"),
    [(LEASE / 2, []), (LEASE, ["blame loud", "abort"])],
)
def test_code_that_holds_up_the_event_loop_has_failed_by_that(
    seconds: float, asked: list[str]
) -> None:
    """Else each host that takes it would hang, one after another."""
    stand = Stand()
    stand.host.step()
    stand.asked.clear()
    stand.lives.turned -= seconds
    stand.host.step()
    assert stand.asked == []  # nobody is known to hold it up
    stand.on_turn = SimpleNamespace(claimed=SimpleNamespace(name="loud"))
    stand.host.step()
    assert stand.asked == asked


def test_a_host_that_waits_for_others_to_join_looks_soon() -> None:
    """Not after a tenth of a long lease."""
    stand = Stand(waiting=3)
    assert stand.host.step() <= SETTLING < PLAN.look
    assert "claim" not in stand.asked

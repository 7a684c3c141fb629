"""When a host looks at the tables next, and when it does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from celery_pecker.kernel.clock import monotonic
from celery_pecker.observers.hosts.host import Host, Plan
from celery_pecker.observers.hosts.tables import Pulse

LEASE = 100.0
PLAN = Plan(name="one", pid=1, capacity=1, lease=LEASE, start_rate=1, history=0)


class Stand:
    """A host without tables and lives, and what it asked of them."""

    def __init__(self, *, held: int = 0, draining: bool = False) -> None:
        self.asked: list[str] = []
        life = SimpleNamespace(ending=None, claimed=None)
        lives: Any = SimpleNamespace(
            turned=monotonic(),
            stuck="",
            fenced=[],
            outcomes=[],
            cursors={},
            by_id=dict.fromkeys(range(held), life),
            end=lambda *_: None,
            add=lambda _: [],
        )
        self.lives = lives
        pulse = Pulse(
            "draining",
            (),
            orphans=False,
            orders=False,
            waiting=False,
            draining=draining,
            notices=False,
        )

        def answer() -> Pulse:
            self.asked.append("pulse")
            return pulse

        tables: Any = SimpleNamespace(
            join=lambda *_, **__: None,
            pulse=answer,
            drain=lambda: self.asked.append("drain"),
            retake=self.retake,
        )
        trust: Any = SimpleNamespace(renew=lambda *_: None)
        self.host = Host(
            PLAN,
            tables,
            lives,
            trust,
            on_loop=lambda _: None,
            over=lambda: None,
            notices=lambda: None,
            events=cast("Any", SimpleNamespace()),
        )

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


@pytest.mark.parametrize("seconds", [0.0, LEASE])
def test_a_host_whose_event_loop_hangs_does_not_renew(seconds: float) -> None:
    """Its observers stand still: others are to take them."""
    stand = Stand()
    stand.lives.turned -= seconds
    stand.host.step()
    assert ("pulse" in stand.asked) is (seconds == 0.0)

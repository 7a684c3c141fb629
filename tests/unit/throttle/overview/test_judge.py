"""How databases stand, in words: what needs a look comes first."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.unit.throttle.incident import SETTINGS, holder, seen, views
from throttle.model import Estimator, View
from throttle.overview import State, Status, judge


def told(known: dict[str, View] | None = None, **more: Any) -> dict[str, Status]:
    """Return each database by name, in order."""
    found = judge(
        views() if known is None else known,
        SETTINGS.limits,
        estimator=Estimator.FAST,
        **more,
    )
    return {one.name: one for one in found}


def view(operations: float = 0.0, **more: Any) -> View:
    """Return what is known of a database with one worker."""
    at_work = {"id": holder("w@n", 1.0, 5000.0, 20.0, **more.pop("holding", {}))}
    return View(seen=seen(operations, **more), holders=at_work)


def test_what_needs_a_look_comes_first() -> None:
    """Above the limit, holding, lowered, unguarded, calm, and what has no limit."""
    assert {name: one.state for name, one in told().items()} == {
        "reports": State.OVER,
        "main": State.HOLDING,
        "archive": State.UNGUARDED,
        "billing": State.CALM,
        "search": State.CALM,
        "sessions": State.UNLIMITED,
    }
    assert [*told()] == [
        *("reports", "main", "archive", "billing", "search", "sessions")
    ]


@pytest.mark.parametrize(
    ("operations", "more", "state"),
    [
        (5_000.0, {}, State.CALM),
        (5_249.0, {}, State.CALM),  # the grain of the counting
        (5_251.0, {}, State.OVER),
        (2_700.0, {"factor": 0.5}, State.OVER),  # above what is in force
        (2_400.0, {"factor": 0.5}, State.LOWERED),
        (2_400.0, {"factor": 0.5, "holding": {"held": 1}}, State.HOLDING),
        (6_000.0, {"holding": {"held": 1}}, State.OVER),
        (10.0, {"busy": 30.0}, State.OVER),  # the scarcer of the two
    ],
)
def test_a_state_is_what_the_limit_in_force_makes_of_the_traffic(
    operations: float, more: dict[str, Any], state: State
) -> None:
    """Traffic against the limit that the second signal has left."""
    assert told({"main": view(operations, **more)})["main"].state is state


def test_a_picture_says_why_and_who() -> None:
    """The lowered limit, traffic that no gate holds, workers with another limit."""
    reports = told()["reports"]
    assert reports.notes == (
        "the limit is lowered to 50%: 48 active backends, 30 is the threshold",
        (
            "90% of its traffic is outside the gate: processes that hold nothing,"
            " such as web servers"
        ),
        "1 worker with another limit than in these settings: worker2@node-2",
    )
    main = told()["main"]
    assert (
        main.summary
        == "1,204 tasks wait, the oldest for 11 s, most of tenant acme (601)"
    )
    assert main.notes == ()
    assert (main.held, main.parked, main.oldest) == (1204, 120, 11.4)
    assert [worker.held for worker in main.workers] == [412, 398, 201, 193]
    assert [(one.name, one.held) for one in main.tenants] == [
        ("acme", 601),
        ("globex", 400),
        ("initech", 203),
    ]


def test_one_task_waits_in_the_singular() -> None:
    """People read it."""
    one = told({"main": view(holding={"held": 1, "oldest": 0.25})})["main"]
    assert one.summary == "1 task waits, the oldest for 250 ms"


def test_where_nobody_routes_by_tenant_there_are_none() -> None:
    """One nameless tenant is no news."""
    known = view(holding={"held": 3, "tenants": {"": (3, 7)}})
    assert told({"main": known})["main"].tenants == ()


def test_the_estimator_of_the_settings_tells_the_traffic() -> None:
    """It is what the gate goes by."""
    known = view(4_000.0)
    traffic = {
        Estimator.FAST: known.seen.traffic[Estimator.FAST],
        Estimator.WEIGHTED: known.seen.traffic[Estimator.FAST].times(0.5),
    }
    halved = dataclasses.replace(
        known, seen=dataclasses.replace(known.seen, traffic=traffic)
    )
    [one] = [
        status
        for status in judge(
            {"main": halved}, SETTINGS.limits, estimator=Estimator.WEIGHTED
        )
        if status.name == "main"
    ]
    assert one.traffic.operations == 2_000.0
    assert one.fast.operations == 4_000.0
    assert one.used == 0.4

"""Pure decisions: when failed code is tried again, who takes and who gives away."""

from __future__ import annotations

from typing import Any

import pytest

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.observers import Retry
from celery_pecker.observers.hosts.capacity import worked_out
from celery_pecker.observers.placement import (
    HostLoad,
    Looks,
    Surplus,
    Survey,
    Waiting,
    choose,
    room,
    surplus,
)

KINDS = frozenset({"watch"})


def load(node: str, weight: int, capacity: int = 100, **more: Any) -> HostLoad:
    """Return a host that holds so much."""
    fields = {"up": True, "count": weight, "kinds": KINDS, **more}
    return HostLoad(node=node, capacity=capacity, weight=weight, **fields)


def waiting(weight: int, age: float = 0.0, kind: str = "watch") -> Waiting:
    """Return what waits."""
    return Waiting(kind=kind, weight=weight, count=weight, age=age)


def test_retries_are_counted_and_spaced() -> None:
    """N times; 1-4-10 minutes; for ever."""
    assert [Retry(2).delay(n) for n in (1, 2, 3)] == [1.0, 1.0, None]
    minutes = Retry(5, (60, 240, 600))
    assert [minutes.delay(n) for n in range(1, 7)] == [60, 240, 600, 600, 600, None]
    assert Retry(None, (1, 5)).delay(1_000_000) == 5
    assert Retry(0).delay(1) is None


def test_a_life_that_was_well_begins_to_count_anew() -> None:
    """It lasted for the longest wait, and a minute at least."""
    policy = Retry(5, (60, 240, 600))
    assert policy.failures(3, lived=599) == 4
    assert policy.failures(3, lived=600) == 1
    assert Retry(2).failures(1, lived=30) == 2


@pytest.mark.parametrize(
    ("times", "delays"), [(-1, (1,)), (True, (1,)), (1, ()), (1, "soon"), (1, (-1,))]
)
def test_what_is_no_policy_is_refused(times: Any, delays: Any) -> None:
    """With what is allowed."""
    with pytest.raises(Misconfigured, match="allowed is"):
        Retry(times, delays)


def test_the_first_host_that_looks_leaves_the_others_their_share() -> None:
    """It takes the rest only where others leave it."""
    loads = (load("a", 0), load("b", 0))
    assert room(Survey(loads, (waiting(100, age=9),)), "a", 0) == 51
    assert room(Survey(loads, (waiting(100),)), "a", 0, left=True) == 100
    assert room(Survey(loads[:1], (waiting(100),)), "a", 0) == 100


def test_what_others_take_is_not_left_by_them() -> None:
    """Two seconds without progress count, as this host saw them; its own is none."""
    loads = (load("a", 60), load("b", 60))
    looks = Looks()

    def left(now: float, count: int, kind: str = "watch") -> bool:
        survey = Survey(loads, (waiting(count, age=99.0, kind=kind),))
        looks.add(survey, KINDS, now)
        return looks.left

    assert not left(10.0, 80)
    assert not left(12.5, 70)
    assert not left(14.4, 70)
    looks.took(10)
    assert left(14.6, 60)
    assert left(15.0, 50)
    looks.reset()
    assert not left(15.5, 50)
    assert not left(16.0, 50, kind="other")
    assert not left(39.0, 60)
    assert left(41.0, 40), "a heavy one that only this host can take waits among them"


def test_while_hosts_start_nobody_takes_what_the_others_will_have() -> None:
    """For a second after a host was first seen, where most of the weight waits."""
    looks = Looks()
    alone = Survey((load("a", 0),), (waiting(100),))
    both = Survey((load("a", 0), load("b", 0)), (waiting(100),))
    handed = Survey((load("a", 0), load("b", 0, up=False)), (waiting(100),))
    few = Survey((load("a", 50), load("b", 50)), (waiting(40),))

    def settles(survey: Survey, now: float) -> bool:
        looks.add(survey, KINDS, now)
        return looks.settling(survey, now)

    assert settles(alone, 10.0)
    assert settles(both, 10.9)
    assert settles(both, 11.8)
    assert not settles(few, 11.8)
    assert not settles(handed, 11.8)
    assert not settles(both, 12.0)
    assert not settles(alone, 12.1)


@pytest.mark.parametrize("apart", [0.0, 0.3, 0.7])
def test_after_a_cold_start_nothing_moves_again(apart: float) -> None:
    """Four hosts join one after the other; 2,000 wait since long."""
    held: dict[str, int] = {}
    seen: dict[str, Looks] = {}
    waits = 2_000
    looked = sorted(
        (number * apart + n * 0.5, f"{number}")
        for number in range(4)
        for n in range(20)
    )
    for now, node in looked:
        held.setdefault(node, 0)
        loads = tuple(load(name, held[name], 5_000) for name in held)
        survey = Survey(loads, (waiting(waits, age=3_600.0),) if waits else ())
        looks = seen.setdefault(node, Looks())
        looks.add(survey, KINDS, now)
        if not looks.settling(survey, now):
            took = min(room(survey, node, held[node], left=looks.left), 500, waits)
            looks.took(took)
            held[node] += took
            waits -= took
        assert surplus(survey, node, held[node])[0] == 0
    assert waits == 0
    assert max(held.values()) <= 510


def test_a_host_never_takes_more_than_its_capacity() -> None:
    """Nor does one that drains take anything."""
    full = Survey((load("a", 99), load("b", 100)), (waiting(50),))
    assert room(full, "a", 99, left=True) == 1
    draining = Survey((load("a", 0, up=False), load("b", 0)), (waiting(50),))
    assert room(draining, "a", 0, left=True) == 0


def test_after_a_join_no_more_moves_than_must() -> None:
    """Hosts give away, step by step, until all are near their share."""
    held = {"a": 90, "b": 90, "c": 0}
    moved = 0
    for _ in range(100):
        survey = Survey(tuple(load(node, held[node]) for node in held), ())
        given = sum(surplus(survey, node, held[node])[0] for node in ("a", "b"))
        for node in ("a", "b"):
            held[node] -= surplus(survey, node, held[node])[0]
        held["c"] += given
        moved += given
    assert max(held.values()) <= 60 + 3
    assert moved <= 60


def test_what_others_cannot_run_is_not_given_away() -> None:
    """It would wait for nobody, and come back."""
    other = load("b", 0, kinds=frozenset({"other"}))
    given_away = surplus(Survey((load("a", 90), other), ()), "a", 90)
    assert choose([(1, "watch", 1)], given_away) == []


def test_nothing_is_given_away_while_something_waits() -> None:
    """What waits finds the free room first."""
    survey = Survey((load("a", 90), load("b", 0)), (waiting(5),))
    assert surplus(survey, "a", 90)[0] == 0


def test_heavy_ones_are_chosen_only_where_they_fit() -> None:
    """No more weight leaves than was asked for."""
    held = [(1, "watch", 7), (2, "watch", 2), (3, "watch", 2), (4, "watch", 2)]
    assert choose(held, Surplus(5, 5, KINDS)) == [2, 3]


def test_where_all_are_heavy_one_moves_alone() -> None:
    """Each of them is more than a host gives away in one look."""
    survey = Survey((load("a", 20), load("b", 0)), ())
    held = [(ident, "watch", 5) for ident in range(4)]
    assert choose(held, surplus(survey, "a", 20)) == [0]
    held = [(ident, "watch", 15) for ident in range(4)]
    assert choose(held, surplus(survey, "a", 20)) == []


def test_what_no_host_takes_does_not_keep_the_others_where_they_are() -> None:
    """Too heavy for each host, or of a kind that no code has any more."""
    loads = (load("a", 90), load("b", 0))
    survey = Survey(loads, (waiting(5, age=90.0, kind="removed"),))
    assert surplus(survey, "a", 90).weight > 0


def test_a_capacity_is_worked_out_from_cores_and_memory() -> None:
    """The smaller of both, for each of the hosts; one at least."""
    gigabyte = 2**30
    assert worked_out(2, 64 * gigabyte, 1) == 5_000
    assert worked_out(64, gigabyte, 1) == 2_048
    assert worked_out(2, 64 * gigabyte, 4) == 1_250
    assert worked_out(0.0001, 1, 1) == 1

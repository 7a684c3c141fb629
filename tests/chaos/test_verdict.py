"""The judge of the chaos runs is itself judged: it must be able to condemn."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from tests.chaos.driver import AIM, plan
from tests.chaos.verdict import (
    SECOND,
    Arrival,
    Blow,
    Claim,
    Event,
    Evidence,
    judge,
)

START = 1_700_000_000
PHASE = 0.25


def arrival(second: int, name: str = "a", late: float = 0.01) -> Arrival:
    """Return the message of that second's slot."""
    due = START + second + PHASE
    return Arrival(
        name=name,
        due_us=round(due * SECOND),
        era=0,
        epoch=second,
        task_id=f"{name}-{second}",
        at=due + late,
    )


def claim(second: int, pid: int | None = 7) -> Claim:
    """Return the claim of that second's slot, 5 ms after it fell due."""
    due = START + second + PHASE
    return Claim(
        name="a",
        due_us=round(due * SECOND),
        era=0,
        epoch=second,
        pid=pid,
        at=due + 0.005,
    )


def event(second: float, blow: Blow = Blow.KILLED, pid: int | None = 7) -> Event:
    """Return a blow so many seconds after the first slot."""
    began = START + second + PHASE
    return Event(blow=blow, began=began, ended=began + 1, pid=pid, aimed=True)


def evidence(seconds: list[int], **more: Any) -> Evidence:
    """Return what ten slots left behind, if those of `seconds` arrived."""
    given = Evidence(
        period=1.0,
        since=START,
        until=START + 10,
        arrivals=[arrival(second) for second in seconds],
        claims=[claim(second) for second in range(10)],
    )
    return dataclasses.replace(given, **more)


def test_a_run_without_a_loss_stands() -> None:
    """Ten slots due, ten fired, nothing between them longer than the period."""
    verdict = judge(evidence(list(range(10))))
    assert verdict.stands
    assert (verdict.due, verdict.fired, verdict.wakes) == (10, 10, 10)
    assert verdict.gaps["undisturbed"].seconds < 1.01


def test_a_missing_slot_without_a_blow_is_condemned() -> None:
    """A claimed slot that never came, with nobody killed, has no excuse."""
    verdict = judge(evidence([0, 1, 2, 4, 5, 6, 7, 8, 9]))
    assert [lost.cause for lost in verdict.lost] == [None]
    assert not verdict.stands


def test_a_kill_between_claim_and_publish_explains_a_missing_slot() -> None:
    """The claimer's process was killed 20 ms after the claim: counted, and named."""
    verdict = judge(evidence([0, 1, 2, 4, 5, 6, 7, 8, 9], events=[event(3.025)]))
    assert [lost.cause for lost in verdict.lost] == [Blow.KILLED]
    assert verdict.stands
    assert verdict.gaps["after a lost slot"].seconds > 1.9


def test_a_gap_belongs_to_the_blow_that_lies_over_it() -> None:
    """Also to one that had begun before the gap, as a freeze may."""
    frozen = dataclasses.replace(event(2.5, blow=Blow.FROZEN), ended=START + 4.5)
    arrivals = [arrival(n, late=0.3 if n == 4 else 0.01) for n in range(10)]
    gaps = judge(evidence([], arrivals=arrivals, events=[frozen])).gaps
    assert round(gaps["after frozen"].seconds, 2) == 1.29
    assert round(gaps["undisturbed"].seconds, 2) == 1.0


def test_a_kill_of_another_process_explains_nothing() -> None:
    """Only the claimer's own death can lose its slot."""
    events = [event(3.025, pid=8)]
    assert not judge(evidence([0, 1, 2, 4, 5, 6, 7, 8, 9], events=events)).stands


def test_a_kill_long_after_the_claim_explains_nothing() -> None:
    """By then the batch had to be out."""
    events = [event(3.9)]
    assert not judge(evidence([0, 1, 2, 4, 5, 6, 7, 8, 9], events=events)).stands


def test_a_slot_that_nobody_claimed_is_never_excused_by_a_kill() -> None:
    """A ready survivor had to claim it."""
    claims = [claim(second) for second in range(10) if second != 3]
    given = evidence([0, 1, 2, 4, 5, 6, 7, 8, 9], events=[event(3.025)], claims=claims)
    verdict = judge(given)
    assert [lost.claimed for lost in verdict.lost] == [False]
    assert not verdict.stands


def test_an_entry_that_never_fired_is_lost_whole() -> None:
    """An entry is expected by name, not by its first message."""
    verdict = judge(evidence(list(range(10)), claims=[], names=["a", "b"]))
    assert {lost.name for lost in verdict.lost} == {"b"}
    assert not verdict.stands


def test_a_slot_twice_is_condemned() -> None:
    """The same slot under another id is twice; so is one id under two slots."""
    again = dataclasses.replace(arrival(4), task_id="other")
    verdict = judge(evidence([], arrivals=[*map(arrival, range(10)), again]))
    assert verdict.doubled == (("a", arrival(4).due_us),)
    assert not verdict.stands
    same = dataclasses.replace(arrival(4), task_id=arrival(5).task_id)
    others = [arrival(second) for second in range(10) if second != 4]
    assert judge(evidence([], arrivals=[*others, same])).doubled


def test_a_message_off_its_grid_is_condemned() -> None:
    """A slot lies on the grid of its entry, whoever claimed it."""
    off = dataclasses.replace(arrival(4), due_us=arrival(4).due_us + 1000)
    others = [arrival(second) for second in range(10)]
    assert not judge(evidence([], arrivals=[*others, off])).stands


def test_a_server_away_explains_the_slots_of_its_time_only() -> None:
    """A slot before or after the outage has no excuse."""
    away = dataclasses.replace(
        event(3.0, blow=Blow.BROKER_AWAY, pid=None), ended=START + 5.0
    )
    missing = judge(evidence([0, 1, 2, 5, 6, 7, 9], events=[away]))
    assert [(lost.due_us // SECOND - START, lost.cause) for lost in missing.lost] == [
        (3, Blow.BROKER_AWAY),
        (4, Blow.BROKER_AWAY),
        (8, None),
    ]


def test_the_plan_is_the_seed_s_and_half_of_it_is_aimed() -> None:
    """One seed, one plan; every second blow falls 3 to 50 ms after a due instant."""
    first = list(itertools.islice(plan(11), 40))
    assert first == list(itertools.islice(plan(11), 40))
    assert first != list(itertools.islice(plan(12), 40))
    aimed = [blow for blow in first if blow.aimed]
    assert len(aimed) == 20
    assert all(AIM[0] <= blow.offset <= AIM[1] for blow in aimed)

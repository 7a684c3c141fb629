"""Runs that people ask for: soon, once, and never inside another run's deadline."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import psycopg
import pytest
from celery.schedules import crontab

from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.errors import DatabaseUnavailable, PublishUncertain
from celery_pecker.schedules.engine.model import task_id
from celery_pecker.schedules.history.report import Report
from celery_pecker.testing.manual import ManualClock, ManualPecker
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import (
    after,
    ask,
    every,
    missed,
    pause,
    pending,
    told,
)

NOBODY = uuid.UUID(int=0)


@pytest.mark.parametrize("delivery", ["at_most_once", "at_least_once"])
def test_a_run_comes_within_a_second_of_being_asked_for(
    start: Starter, dsn: str, delivery: str
) -> None:
    """It is a slot beside the grid, sent once and confirmed; the grid stays."""
    pecker = start({"sweep": every(60.0, delivery=delivery)}, history=60)
    [last] = pecker.pass_time(70)
    slot = ask(pecker)
    [sent] = pecker.pass_time(1.01)
    assert int(str(sent.header["epoch"])) > int(str(last.header["epoch"]))
    assert sent.header["due_at"] == slot
    assert sent.header["asked"] is True
    due_us = to_us(datetime.fromisoformat(slot))
    assert sent.task_id == task_id("public", "sweep", due_us, 0)
    [usual] = pecker.pass_time(60)
    assert (usual.header["due_at"], "asked" in usual.header) == (after(120), False)
    assert int(str(usual.header["epoch"])) > int(str(sent.header["epoch"]))
    assert (missed(dsn), pending(dsn)) == (0, 0)
    assert told(dsn) == [Report.PUBLISHED] * 3


def test_one_of_many_replicas_sends_it(start: Starter) -> None:
    """And only one that declares the entry."""
    clock = ManualClock()
    stranger = start({"other": 60.0}, clock)
    ours = [start({"sweep": 60.0}, clock) for _ in range(3)]
    clock.advance_us(10_000_000)
    ask(ours[0])
    for _ in range(4):
        clock.advance_us(500_000)
        for pecker in [stranger, *ours]:
            pecker.service.step()
    assert sum(len(pecker.publisher.sent) for pecker in ours) == 1
    assert stranger.publisher.sent == []


def test_a_run_waits_until_the_last_slot_s_deadline(start: Starter, dsn: str) -> None:
    """And ends before the next slot: two runs are never inside their deadlines."""
    pecker = start({"sweep": every(60.0, timeout=40)})
    pecker.pass_time(70)
    ask(pecker)
    assert pecker.pass_time(29.9) == []
    [sent] = pecker.pass_time(0.2)
    assert sent.header["deadline"] == after(120)
    ask(pecker)
    assert [one.header["due_at"] for one in pecker.pass_time(39.9)] == [after(120)]
    [another] = pecker.pass_time(20.2)
    assert another.header["deadline"] == after(180)
    pecker.pass_time(70)
    assert (missed(dsn), pending(dsn)) == (0, 0)


def test_a_second_run_waits_for_the_first(start: Starter, dsn: str) -> None:
    """Sent is not ended: its row stays until its deadline."""
    pecker = start({"sweep": every(3600.0, timeout=20)})
    pecker.pass_time(10)
    ask(pecker)
    [first] = pecker.pass_time(2)
    another(dsn, pecker)
    assert pecker.pass_time(15) == []
    [second] = pecker.pass_time(6)
    assert str(second.header["deadline"]) > str(first.header["deadline"])
    pecker.pass_time(22)
    assert pending(dsn) == 0


def another(dsn: str, pecker: ManualPecker, *, ago: float = 0.0) -> None:
    """Ask by hand, past the command that answers with a question that waits."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "insert into pecker_pending"
            " (name, due_at, era, epoch, holder, claimed_at, asked)"
            " values ('sweep', %s, 0, 0, %s, 'infinity', true)",
            [pecker.clock.now() - timedelta(seconds=ago), NOBODY],
        )


def test_what_cannot_be_sent_in_five_minutes_is_given_up_and_counted(
    start: Starter, dsn: str
) -> None:
    """Nobody waits for ever, and the next question is a new one."""
    pecker = start({"sweep": every(3600.0, timeout=3599)}, history=60)
    pecker.pass_time(3601)
    ask(pecker)
    assert pecker.pass_time(299) == []
    assert missed(dsn) == 0
    pecker.pass_time(3)
    assert (missed(dsn), pending(dsn)) == (1, 0)
    assert told(dsn) == [Report.PUBLISHED, Report.MISSED]


def test_a_crontab_entry_with_a_timeout_ends_before_its_next_slot(
    start: Starter,
) -> None:
    """Its next slot is worked out here, from the row that the take checks."""
    pecker = start({"sweep": every(crontab(minute="*/2"), timeout=100)})
    pecker.pass_time(121)
    ask(pecker)
    assert pecker.pass_time(98) == []
    [sent] = pecker.pass_time(2)
    assert sent.header["deadline"] == after(240)


def test_a_paused_entry_runs_when_asked(start: Starter, dsn: str) -> None:
    """Somebody wants just this run."""
    pecker = start({"sweep": 60.0})
    pause(dsn)
    slot = ask(pecker)
    sent = pecker.pass_time(130)
    assert [one.header["due_at"] for one in sent] == [slot]


def test_a_run_whose_taker_dies_is_sent_by_another(start: Starter, dsn: str) -> None:
    """The same task id and the same deadline, under a higher epoch."""
    clock = ManualClock()
    schedule = {"sweep": every(3600.0, timeout=100)}
    dies, lives = start(dict(schedule), clock), start(dict(schedule), clock)
    dies.publisher.failing = PublishUncertain(retry_safe=False)
    slot = ask(dies)
    clock.advance_us(1_500_000)
    dies.service.step()
    with psycopg.connect(dsn) as connection:
        [(epoch, deadline)] = connection.execute(
            "select epoch, deadline from pecker_pending"
        )
    [sent] = lives.pass_time(30)
    assert sent.header["due_at"] == slot
    assert int(str(sent.header["epoch"])) > epoch > 0
    assert datetime.fromisoformat(str(sent.header["deadline"])) == deadline
    assert lives.pass_time(120) == []
    assert pending(dsn) == 0


def test_a_run_that_nobody_could_send_by_its_deadline_is_counted(
    start: Starter, dsn: str
) -> None:
    """Taken, not delivered, over: given up like any slot."""
    pecker = start({"sweep": every(3600.0, timeout=10)})
    pecker.publisher.failing = PublishUncertain(retry_safe=False)
    ask(pecker)
    pecker.pass_time(30)
    assert (missed(dsn), pending(dsn), pecker.publisher.sent) == (1, 0, [])


def test_another_run_taken_between_look_and_take_comes_first(
    start: Starter, dsn: str
) -> None:
    """A question that was committed late is older; both at once would overlap."""
    clock = ManualClock()
    schedule = {"sweep": every(600.0, timeout=20)}
    one, other = start(dict(schedule), clock), start(dict(schedule), clock)
    repository = one.repository
    take = repository.take_requested

    def late(*args: object, **kwargs: object) -> object:
        repository.take_requested = take  # type: ignore[method-assign]
        another(dsn, other, ago=0.5)
        other.service.step()
        return take(*args, **kwargs)  # type: ignore[arg-type]

    clock.advance_us(1_500_000)
    another(dsn, one)
    repository.take_requested = late  # type: ignore[method-assign,assignment]
    one.service.step()
    assert [sent.header["due_at"] for sent in other.publisher.sent] == [after(1)]
    assert one.publisher.sent == []
    [sent] = one.pass_time(22)
    assert sent.header["due_at"] == after(1.5)


def test_a_take_is_no_win_to_whoever_looks_for_a_lost_answer(start: Starter) -> None:
    """It raises the epoch of a row whose last slot was won here, and sent."""
    clock = ManualClock()
    one, other = start({"sweep": 10.0}, clock), start({"sweep": 10.0}, clock)
    clock.advance_us(10_000_000)
    one.service.step()
    assert len(one.publisher.sent) == 1
    ask(one)
    clock.advance_us(1_500_000)
    other.service.step()
    assert len(other.publisher.sent) == 1
    repository = one.repository
    claim = repository.claim

    def never_arrive(*_args: object, **_kwargs: object) -> object:
        raise DatabaseUnavailable

    repository.claim = never_arrive  # type: ignore[method-assign,assignment]
    clock.advance_us(8_600_000)
    with pytest.raises(DatabaseUnavailable):
        one.service.step()
    repository.claim = claim  # type: ignore[method-assign]
    one.turn()
    ids = [sent.task_id for sent in one.publisher.sent]
    assert len(ids) == len(set(ids)) == 2


def test_a_look_that_finds_nothing_writes_nothing(start: Starter) -> None:
    """Every replica looks every second."""
    pecker = start({"sweep": 3600.0})
    pecker.clock.advance_us(1_500_000)
    changed: list[str] = []
    execute = pecker._database._execute

    def watch(label: str, params: dict[str, object]) -> object:
        changed.append(label)
        return execute(label, params)

    pecker._database._execute = watch  # type: ignore[method-assign,assignment]
    pecker.service.step()
    assert changed == ["read_requested_runs"]


def test_what_is_asked_for_while_the_broker_is_away_waits(start: Starter) -> None:
    """A replica that cannot reach the broker takes nothing."""
    clock = ManualClock()
    cut, whole = start({"sweep": 60.0}, clock), start({"sweep": 60.0}, clock)
    cut.publisher.unreachable = True
    ask(cut)
    cut.pass_time(3)
    assert cut.publisher.sent == []
    assert len(whole.pass_time(1)) == 1


def test_no_two_runs_are_ever_inside_their_deadlines(start: Starter) -> None:
    """Asked for at odd moments, of two replicas, in whatever order they come."""
    clock = ManualClock()
    schedule = {"sweep": every(7.0, timeout=3.0)}
    peckers = [start(dict(schedule), clock) for _ in range(2)]
    spans: list[tuple[int, int]] = []

    def watch(pecker: ManualPecker) -> None:
        publish = pecker.publisher.publish

        def timed(batch: Sequence[Dispatch], token: str, *, within: float) -> None:
            for one in batch:
                ends = datetime.fromisoformat(str(one.header["deadline"]))
                spans.append((to_us(clock.now()), to_us(ends)))
            publish(batch, token, within=within)

        pecker.publisher.publish = timed  # type: ignore[method-assign,assignment]

    for pecker in peckers:
        watch(pecker)
    asked = 0
    for turn in range(600):
        clock.advance_us(97_003 + 1_009 * (turn % 13))
        if turn % 11 == 0:
            ask(peckers[0])
            asked += 1
        for pecker in peckers:
            pecker.service.step()
    spans.sort()
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    assert len(spans) > 15


def test_code_of_step_1_sends_nothing_that_was_asked_for(
    start: Starter, dsn: str
) -> None:
    """It sends what was claimed long ago, and confirms only what its policy says.

    Seen: a run of an at-most-once entry whose taker had died came again every 20 s.
    """
    pecker = start({"sweep": 3600.0})
    pecker.publisher.failing = PublishUncertain(retry_safe=False)
    ask(pecker)
    pecker.pass_time(8)
    with psycopg.connect(dsn) as connection:
        [taken] = connection.execute(
            "select epoch > 0, taken_at is not null, claimed_at < 'infinity'"
            " from pecker_pending"
        )
    assert taken == (True, True, False)

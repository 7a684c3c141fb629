"""Each alarm rings once per cluster, its end is noticed, and it does not chatter."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from celery_pecker.alarms.model import DueRule, Notice
from celery_pecker.alarms.overview import AlarmsOverview
from celery_pecker.alarms.step import Evaluator, judged
from celery_pecker.alarms.tables import LEASE
from celery_pecker.schedules.engine.upkeep import TERM
from celery_pecker.testing.manual import ManualClock
from tests.integration.alarms.conftest import INTERVAL, Rows, Starter

Passing = Callable[[float], None]
SILENT = {"silent": {"after": 60.0, "cooldown": 300.0}}


def test_two_replicas_that_see_the_same_ring_once(
    watch: Starter, rows: Rows, pass_time: Passing, caplog: pytest.LogCaptureFixture
) -> None:
    """One of them wins the round; the other has nothing to add, then or later."""
    caplog.set_level(logging.INFO, logger="celery_pecker.alarms")
    rules = {"silent": {"cooldown": 0}}  # it is not the cool-down that holds the next
    one, other = watch(rules), watch(rules)
    rows.entry("sweep", last=200.0)
    got = [*one.turn(), *other.turn()]
    for _ in range(3):
        pass_time(INTERVAL)
        got += [*other.turn(), *one.turn()]
    assert [(notice.subject, notice.event) for notice in got] == [("sweep", "ringing")]
    lines = [line for line in caplog.messages if "alarm ringing" in line]
    assert len(lines) == 1
    assert "silent: sweep: no slot of it was won for" in lines[0]
    assert rows.states() == {"sweep": "ringing"}


def test_its_end_is_noticed_once(
    watch: Starter, rows: Rows, pass_time: Passing, caplog: pytest.LogCaptureFixture
) -> None:
    """A win is the end of silence."""
    caplog.set_level(logging.INFO, logger="celery_pecker.alarms")
    one, other = watch(SILENT), watch(SILENT)
    rows.entry("sweep", last=200.0)
    one.turn()
    pass_time(INTERVAL)
    rows.entry("sweep", last=1.0)
    got = [*other.turn(), *one.turn()]
    pass_time(INTERVAL)
    got += [*one.turn(), *other.turn()]
    assert [(notice.subject, notice.event) for notice in got] == [
        ("sweep", "recovered")
    ]
    assert "alarm recovered: silent: sweep" in caplog.text
    assert rows.states() == {"sweep": "recovered"}
    assert rows.waiting() == []


def test_what_comes_back_within_the_cool_down_rings_after_it(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """An entry that comes and goes sends one notice in each cool-down, and its end."""
    one = watch(SILENT)
    rows.entry("sweep", last=200.0)
    events = [notice.event for notice in one.turn()]
    for _ in range(4):  # 20 s each
        pass_time(INTERVAL)
        rows.entry("sweep", last=1.0)
        events += [notice.event for notice in one.turn()]
        pass_time(INTERVAL)
        rows.entry("sweep", last=200.0)
        events += [notice.event for notice in one.turn()]
    assert events == ["ringing", "recovered"]
    assert rows.states() == {"sweep": "ringing"}  # and it is shown as such
    pass_time(300.0)
    assert [notice.event for notice in one.turn()] == ["ringing"]


def test_a_cool_down_ends_with_the_future_that_it_counts_from(
    watch: Starter, rows: Rows, pass_time: Passing, clock: ManualClock
) -> None:
    """The clock steps back by a day: what comes back then is not silent for a day."""
    one = watch(SILENT)
    rows.entry("sweep", last=200.0)
    assert [notice.event for notice in one.turn()] == ["ringing"]
    pass_time(INTERVAL)
    rows.entry("sweep", last=1.0)
    one.turn()
    clock.step(-86_400.0)
    rows.entry("sweep", last=200.0)
    assert [notice.event for notice in one.turn()] == ["ringing"]


def test_a_look_that_fails_keeps_no_other_and_nothing_recovers(
    watch: Starter,
    rows: Rows,
    pass_time: Passing,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A gate whose Redis is away says nothing of what it holds back."""
    away = [False]

    def shut() -> list[str]:
        if away[0]:
            message = "Redis is away"
            raise ConnectionError(message)
        return ["main"]

    one = watch({"shut": {"after": 0.0}, "silent": {}}, shut=shut)
    assert [notice.subject for notice in one.turn()] == ["main"]
    away[0] = True
    for name in "ab":
        pass_time(INTERVAL)
        rows.entry(name, last=200.0)
        assert [notice.subject for notice in one.turn()] == [name]
    assert rows.states()["main"] == "ringing"
    assert "a look failed: shut: ConnectionError('Redis is away')" in caplog.text


def test_a_look_that_was_cut_lets_nothing_recover(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """A thousand others are silent, too: what they push out of a look still is."""
    one = watch(SILENT)
    rows.entry("z", last=200.0)
    assert [notice.subject for notice in one.turn()] == ["z"]
    rows.run(
        "insert into pecker_tasks (name, executed_at, epoch)"
        " select 'a' || n, %s, 1 from generate_series(1, 1000) as n",
        rows.ago(500.0),
    )
    rows.run(
        "insert into pecker_declarations"
        " (name, task, schedule, delivery, period_us, run, declared_until)"
        " select 'a' || n, 't', 's', 'at_most_once', 60000000, 'dispatch', %s"
        " from generate_series(1, 1000) as n",
        rows.ago(-3_600.0),
    )
    pass_time(INTERVAL)
    one.rounds.step()
    assert rows.states()["z"] == "ringing"
    assert len(rows.states()) == 1_001


def test_what_no_code_has_any_more_is_forgotten(
    watch: Starter, rows: Rows, pass_time: Passing, clock: ManualClock
) -> None:
    """Within a day it is another version's; then a rule rings no more, nor a target."""
    old = watch({"renamed": {"when": "silent", "to": ["duty"]}}, duty=refuse)
    new = watch({"silent": {"to": []}})
    overview = AlarmsOverview(old.database)
    rows.entry("sweep", last=200.0)
    old.turn()
    pass_time(3_600.0)
    new.rounds.step()
    assert {one.rule for one in overview.alarms()} == {"renamed", "silent"}
    assert [one.target for one in overview.targets() if one.failures] == ["duty"]
    assert ("duty", "ringing") in rows.waiting()
    pass_time(86_400.0)
    assert overview.alarms() == []
    assert overview.rules() == []
    assert [one.target for one in overview.targets()] == ["log"]
    new.rounds.step()
    assert {one.rule for one in overview.alarms()} == {"silent"}
    assert rows.run("select rule from pecker_alarms") == [("silent",)]
    assert rows.run("select target from pecker_alarm_targets") == [("log",)]
    assert ("duty", "ringing") not in rows.waiting()


def refuse(_: Notice) -> None:
    """Take nothing."""
    raise ConnectionError


def test_a_rule_may_ask_for_no_notice_of_the_end(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """It has recovered all the same."""
    one = watch({"silent": {"recovery": False}})
    rows.entry("sweep", last=200.0)
    assert [notice.event for notice in one.turn()] == ["ringing"]
    pass_time(INTERVAL)
    rows.entry("sweep", last=1.0)
    assert one.turn() == []
    assert rows.states() == {"sweep": "recovered"}


def test_terms_of_an_entry_go_before_those_of_its_rule(
    watch: Starter, rows: Rows
) -> None:
    """By the first pattern that matches; what is muted never rings."""
    one = watch(
        {
            "silent": {
                "only": ["s*"],
                "each": {"slow-*": {"after": 3_600.0}, "sick": {"mute": True}},
            }
        }
    )
    for name in ("sweep", "slow-report", "sick", "other"):
        rows.entry(name, last=200.0)
    rows.entry("slow-sums", last=4_000.0)
    assert {notice.subject for notice in one.turn()} == {"sweep", "slow-sums"}


def test_a_look_that_was_overtaken_writes_nothing(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """A replica that was frozen between its look and its writing has an old epoch."""
    frozen, other = watch(SILENT), watch(SILENT)
    rows.entry("sweep", last=200.0)
    frozen.tables.add(["silent"])
    now, [due], _ = frozen.tables.due_rules(["silent"], INTERVAL)
    assert isinstance(due, DueRule)
    [rule] = frozen.rules
    found = frozen.tables.find(
        "find_silent",
        now=now,
        after=60.0,
        names=[],
        instants=[],
        term=180.0,
        rule="silent",
        low="",
        high="z",
        held=[],
        wanted=False,
    )
    assert [one.subject for one in found] == ["sweep"]
    pass_time(LEASE)
    rows.entry("sweep", last=1.0)
    other.turn()
    assert frozen.tables.record(rule, due, judged(rule, found, now), ["log"]) is None
    assert rows.states() == {}
    assert rows.waiting() == []


def test_a_look_that_outlasts_an_interval_is_overtaken_by_nobody(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """Else two busy replicas take turns for ever, and nothing rings."""
    slow, other = watch(SILENT), watch(SILENT)
    rows.entry("sweep", last=200.0)
    slow.tables.add(["silent"])
    now, [due], _ = slow.tables.due_rules(["silent"], INTERVAL)
    pass_time(INTERVAL)
    assert other.turn() == []
    [rule] = slow.rules
    evaluator = Evaluator(tables=slow.tables, slack=5.0, term=TERM)
    assert evaluator.evaluate(rule, due, now) == len({"log", "duty"})
    assert [notice.subject for notice in other.turn()] == ["sweep"]


def test_a_replica_that_dies_in_a_round_costs_its_lease(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """Then the next look is another's."""
    dead, other = watch(SILENT), watch(SILENT)
    rows.entry("sweep", last=200.0)
    dead.tables.add(["silent"])
    assert len(dead.tables.due_rules(["silent"], INTERVAL)[1]) == 1
    assert other.turn() == []
    pass_time(LEASE)
    assert [notice.subject for notice in other.turn()] == ["sweep"]


def test_a_replica_whose_looks_fail_keeps_no_rule(
    watch: Starter, pass_time: Passing
) -> None:
    """It looks first at each turn, and its lease counts from the first one."""

    def fail() -> list[str]:
        message = "Redis is away"
        raise ConnectionError(message)

    rules = {"shut": {"after": 0.0}}
    sick, well = watch(rules, shut=fail), watch(rules, shut=lambda: ["main"])
    got: list[Notice] = []
    for _ in range(int(LEASE / INTERVAL) + 2):
        assert sick.turn() == []
        got += well.turn()
        pass_time(INTERVAL + 0.01)
    assert [notice.subject for notice in got] == ["main"]


def test_entries_are_read_a_part_at_a_time_and_what_rings_each_time(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """Whoever looks goes on where the last one ended, and begins anew at the end."""
    one, other = (watch(SILENT, part=2) for _ in "ab")
    for name in ("a", "b", "c", "d", "e"):
        rows.entry(name, last=1.0)
    rows.entry("a", last=200.0)
    rows.entry("e", last=200.0)
    parts = []
    for nth in range(4):
        got = (one, other)[nth % 2].turn()
        parts.append([(notice.subject, notice.event) for notice in got])
        pass_time(INTERVAL)
        for name in ("b", "c", "d"):
            rows.entry(name, last=1.0)
        if nth == 2:
            rows.entry("a", last=1.0)
    # "a" has not recovered while others were read; it has in a look of others.
    assert parts == [[("a", "ringing")], [], [("e", "ringing")], [("a", "recovered")]]
    rows.entry("d", last=200.0)
    assert one.turn() != []

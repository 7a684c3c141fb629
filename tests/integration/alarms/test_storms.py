"""Many at once are one notice, which says how many and names the first of them."""

from __future__ import annotations

from collections.abc import Callable

from celery_pecker.alarms.model import Notice
from celery_pecker.alarms.overview import AlarmsOverview
from celery_pecker.alarms.tables import LONGEST_REST
from tests.integration.alarms.conftest import INTERVAL, Rows, Starter

Passing = Callable[[float], None]
STORM = {"silent": {"after": 60.0, "cooldown": 0, "storm": 3}}


def many(rows: Rows, names: str, *, last: float) -> None:
    """Store entries of one letter each."""
    for name in names:
        rows.entry(name, last=last)


def about(notices: list[Notice]) -> list[tuple[str, str]]:
    """Return event and subjects of each."""
    return [(one.event, "".join(one.subjects)) for one in notices]


def test_few_have_a_notice_each(watch: Starter, rows: Rows) -> None:
    """As many as the rule says."""
    many(rows, "abc", last=200.0)
    one = watch(STORM)
    assert about(one.turn()) == [("ringing", "a"), ("ringing", "b"), ("ringing", "c")]


def test_a_thousand_are_one_notice_and_so_is_their_end(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """It says how many, names the first, and has all of them for a program."""
    one = watch({"silent": {}})
    rows.entry("name 000", last=200.0)
    one.turn()
    for n in range(1, 400):
        rows.entry(f"name {n:03}", last=200.0)
    pass_time(INTERVAL)
    [notice] = one.turn()
    assert (notice.event, len(notice.subjects)) == ("ringing", 399)
    assert notice.title == "celery-pecker: ringing: silent: 399 at once"
    assert notice.detail.startswith(
        "399 at once: name 001, name 002, name 003, name 004, name 005 and 394 more"
    )
    assert "of the first: no slot of it was won for" in notice.detail
    assert len(rows.states()) == 400
    pass_time(INTERVAL)
    rows.run("update pecker_tasks set executed_at = %s", rows.ago(1.0))
    [end] = one.turn()
    assert (end.event, len(end.subjects)) == ("recovered", 400)


def test_those_that_follow_within_a_minute_are_one_notice_a_look(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """A storm that comes in drops counts as one; after a minute they are few."""
    one = watch(STORM)
    got = []
    for names in ("ab", "cd", "ef"):
        many(rows, names, last=200.0)
        got += about(one.turn())
        pass_time(INTERVAL)
    assert got == [
        *[("ringing", n) for n in "ab"],
        ("ringing", "cd"),
        ("ringing", "ef"),
    ]
    pass_time(120.0)
    many(rows, "gh", last=200.0)
    assert about(one.turn()) == [("ringing", "g"), ("ringing", "h")]


def test_a_storm_whose_target_is_away_loses_none_and_says_nothing_that_is_over(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """What waits is widened by what is new, and loses what has recovered meanwhile."""
    away, got = [True], list[Notice]()

    def page(notice: Notice) -> None:
        if away[0]:
            raise ConnectionError
        got.append(notice)

    one = watch(STORM, duty=page)
    many(rows, "abcde", last=200.0)
    one.turn()
    pass_time(INTERVAL)
    many(rows, "a", last=1.0)
    many(rows, "fghi", last=200.0)
    one.turn()
    alarms = AlarmsOverview(one.database).alarms()
    waiting = {row.subject: row.waiting for row in alarms}
    assert waiting == {name: ["duty"] for name in "bcdefghi"}
    away[0] = False
    one.rounds.step()
    pass_time(LONGEST_REST)
    one.sending.step()
    # The end of a is told, although its beginning never was.
    assert sorted(about(got)) == [("recovered", "a"), ("ringing", "bcdefghi")]


def test_an_end_that_waits_leaves_out_what_rings_anew(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """The later notice would else end what it has just been told."""
    away, got = [False], list[Notice]()

    def page(notice: Notice) -> None:
        if away[0]:
            raise ConnectionError
        got.append(notice)

    one = watch(STORM, duty=page)
    many(rows, "abcdefgh", last=200.0)
    one.turn()
    away[0] = True
    pass_time(INTERVAL)
    many(rows, "abcd", last=1.0)
    one.turn()
    pass_time(INTERVAL)
    many(rows, "a", last=200.0)
    one.turn()
    pass_time(INTERVAL)
    many(rows, "efgh", last=1.0)
    one.turn()
    away[0] = False
    pass_time(600.0)
    many(rows, "a", last=700.0)
    many(rows, "bcdefgh", last=1.0)
    one.turn()
    assert about(got[1:]) == [("ringing", "a"), ("recovered", "bcdefgh")]


def test_misfires_of_all_entries_are_bounded_work_and_none_is_lost(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """An outage moves all counters at once: marks take turns, the first 1,000 ring."""
    rows.run(
        "insert into pecker_tasks (name, executed_at)"
        " select to_char(n, 'fm00000'), %s from generate_series(1, 20500) as n",
        rows.ago(1.0),
    )
    one = watch({"misfire": {"within": 25.0}})
    marked = "select count(*) from pecker_alarm_marks where subject <> 'database'"
    for marks in (20_000, 20_500):
        one.turn()
        assert rows.run(marked) == [(marks,)]
        pass_time(INTERVAL)
    rows.run("update pecker_tasks set missed = 5")
    [notice] = one.turn()
    assert len(notice.subjects) == 1_000
    assert rows.run("select max(subject) from pecker_alarms") == [("01000",)]
    pass_time(INTERVAL)
    one.turn()
    seen = "select count(*) from pecker_alarm_marks where rose = 5"
    assert rows.run(seen) == [(20_500,)]
    pass_time(20.0)
    one.turn()  # the window of the first ones is over, not that of the last
    ringing = "select min(subject) from pecker_alarms where state = 'ringing'"
    assert rows.run(ringing) == [("20001",)]

"""What people do to alarms: one has it, and what is quiet sends nothing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from celery_pecker.alarms import operations
from celery_pecker.alarms.model import Notice
from celery_pecker.alarms.operations import NoSuchAlarm, NotDone
from celery_pecker.alarms.overview import AlarmRow, AlarmsOverview
from celery_pecker.alarms.rules import read_rules
from celery_pecker.alarms.step import link_of
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import InvalidField, Misconfigured
from celery_pecker.testing.manual import ManualClock
from tests.integration.alarms.conftest import INTERVAL, Rows, Starter

Passing = Callable[[float], None]
RULES = {"silent": {"cooldown": 0.0}}
KEY = "silent\0sweep"


@pytest.fixture
def rows(rows: Rows) -> Rows:
    """Give tables with an entry that is silent."""
    rows.entry("sweep", last=200.0)
    return rows


def alarm(database: Database, clock: ManualClock) -> AlarmRow:
    """Return the alarm as people see it."""
    [row] = AlarmsOverview(database).alarms(every=True)
    return row


@pytest.mark.usefixtures("rows")
def test_of_two_who_take_it_at_once_one_has_it(
    watch: Starter, dsn: str, clock: ManualClock
) -> None:
    """The other hears who; whoever has it may say more, and anybody give it back."""
    one = watch(RULES)
    one.turn()
    names = [f"user {nth}" for nth in range(8)]
    databases = [
        Database(dsn, schema="public", timeout=10.0, role="test") for _ in names
    ]

    def take(database: Database, by: str) -> str:
        try:
            operations.change(database, "take", KEY, by, note=f"of {by}")
        except NotDone as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(len(names)) as threads:
        answers = dict(zip(names, threads.map(take, databases, names), strict=True))
    winners = [name for name, answer in answers.items() if not answer]
    assert len(winners) == 1
    [winner] = winners
    for name in {*names} - {winner}:
        assert answers[name].startswith(f"{winner} has it since ")
    assert alarm(one.database, clock).note == f"of {winner}"
    operations.change(one.database, "take", KEY, winner, note="more")
    assert alarm(one.database, clock).note == "more"
    operations.change(one.database, "give-back", KEY, "the night shift")
    operations.change(one.database, "take", KEY, "another")
    assert alarm(one.database, clock).taken_by == "another"
    for database in databases:
        database.close()


def test_its_end_gives_it_back(
    watch: Starter, rows: Rows, pass_time: Passing, clock: ManualClock
) -> None:
    """Until it rings anew it is shown who had it."""
    one = watch(RULES)
    one.turn()
    operations.change(one.database, "take", KEY, "ann")
    for last, state, by in ((1.0, "recovered", "ann"), (200.0, "ringing", None)):
        pass_time(INTERVAL)
        rows.entry("sweep", last=last)
        one.turn()
        row = alarm(one.database, clock)
        assert (row.state, row.taken_by) == (state, by)


@pytest.mark.parametrize("act", ["snooze", "mute"])
def test_what_is_quiet_sends_nothing_and_stays_visible(
    act: str, watch: Starter, rows: Rows, pass_time: Passing, clock: ManualClock
) -> None:
    """Neither that it rings, nor that it has recovered; nor what waits by then."""
    one = watch(RULES)
    one.rounds.step()
    assert len(rows.waiting()) == len({"log", "duty"})
    until = clock.now() + timedelta(hours=1)
    operations.change(one.database, act, KEY, "ann", until=until)
    assert rows.waiting() == []
    got: list[Notice] = []
    for last in (200.0, 1.0, 200.0, 1.0, 200.0):
        pass_time(INTERVAL)
        rows.entry("sweep", last=last)
        got += one.turn()
    assert got == []
    row = alarm(one.database, clock)
    assert row.state == "ringing"
    assert row.quiet == ("muted by ann" if act == "mute" else "snoozed for 59 min")
    overview = AlarmsOverview(one.database)
    assert [rule.ringing for rule in overview.rules()] == [0]
    operations.change(one.database, "unmute", KEY, "ann")
    pass_time(INTERVAL)
    assert [notice.event for notice in one.turn()] == ["ringing"]


def test_the_end_of_what_was_noticed_and_is_quiet_is_not_sent(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """Although its beginning was."""
    one = watch(RULES)
    assert len(one.turn()) == 1
    operations.change(one.database, "mute", KEY, "ann")
    pass_time(INTERVAL)
    rows.entry("sweep", last=1.0)
    assert one.turn() == []
    assert rows.states() == {"sweep": "recovered"}


@pytest.mark.usefixtures("rows")
def test_what_still_rings_after_a_snooze_rings_anew_once(
    watch: Starter, pass_time: Passing, clock: ManualClock
) -> None:
    """It was known before, and somebody has said when to come again."""
    one = watch({"silent": {"cooldown": 86_400.0}})
    assert len(one.turn()) == 1
    until = clock.now() + timedelta(minutes=30)
    operations.change(one.database, "snooze", KEY, "ann", until=until)
    pass_time(1_700.0)
    assert one.turn() == []
    pass_time(200.0)
    assert [notice.event for notice in one.turn()] == ["ringing"]
    pass_time(INTERVAL)
    assert one.turn() == []


def test_what_is_muted_is_not_forgotten(
    watch: Starter, rows: Rows, pass_time: Passing, clock: ManualClock
) -> None:
    """Else it would ring anew a day after its end."""
    one = watch(RULES)
    one.turn()
    operations.change(one.database, "mute", KEY, "ann")
    pass_time(INTERVAL)
    rows.entry("sweep", last=1.0)
    one.turn()
    pass_time(90_000.0)
    rows.entry("sweep", last=1.0)
    one.turn()
    assert alarm(one.database, clock).quiet == "muted by ann"
    with pytest.raises(NotDone, match="recovered"):
        operations.change(one.database, "take", KEY, "ann")


@pytest.mark.usefixtures("rows")
def test_a_trial_goes_the_way_of_notices(watch: Starter, rows: Rows) -> None:
    """Of a target that was sent nothing so far, too."""
    one = watch({"failing": {}})
    one.rounds.step()
    operations.test(one.database, "duty", "ann")
    operations.test(one.database, "duty", "ann")  # the first one waits: it is one
    [notice] = one.turn()
    assert (notice.event, notice.subject, notice.link) == ("trial", "ann", "")
    assert rows.waiting() == []
    with pytest.raises(NoSuchAlarm, match="no scheduler sends to 'nobody'"):
        operations.test(one.database, "nobody", "ann")
    with pytest.raises(NoSuchAlarm, match="no alarm of 'sweep'"):
        operations.change(one.database, "mute", "failing\0sweep", "ann")


@pytest.mark.usefixtures("rows")
def test_a_notice_has_severity_and_link(watch: Starter) -> None:
    """The link is to the page of its subject; of a storm to that of alarms."""
    one = watch({"silent": {"severity": "warning"}})
    [notice] = one.turn()
    assert notice.severity == "warning"
    at = "https://flower.example.com/"
    assert link_of(notice, at) == f"{at}schedules/entry?name=sweep"
    assert link_of(notice, None) == ""
    with pytest.raises(Misconfigured, match="'severity'] is 'bad'; allowed: critical"):
        read_rules({"silent": {"severity": "bad"}}, {})


@pytest.mark.parametrize("text", ["", "1", "-1h", "2001-01-01T00:00Z", "2100-01-01"])
def test_a_snooze_ends_in_the_time_to_come(
    text: str, watch: Starter, clock: ManualClock
) -> None:
    """What is no length and no such instant is refused, with what is allowed."""
    database = watch(RULES).database
    with pytest.raises(InvalidField, match="30m, 8h, 2d, or an instant"):
        operations.until(database, text)
    assert operations.until(database, "2 d") > clock.now() - timedelta(days=2)
    assert operations.until(database, "2100-01-01T00:00Z").year == 2100

"""Probes: the exit code is the answer."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

import pytest
from celery.schedules import crontab

from celery_pecker.heartbeat import EVERY, FORM, Heartbeat, folder
from celery_pecker.kernel.clock import SYSTEM, to_us
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.engine.model import Delivery, Entry, Policy, Row
from celery_pecker.surfaces.findings.pace import overdue
from celery_pecker.testing.manual import ManualClock
from tests.command_line import Line
from tests.integration.test_migrations import run

SECOND = 1_000_000


def test_live_is_true_while_every_scheduler_of_the_host_turns(line: Line) -> None:
    """None: no. One that beats: yes. One that hangs beside it: no. A dead one: yes."""
    assert line.json("health", "--live", code=1) == {"healthy": False, "live": []}
    settings = Settings.read(line.app.conf, main="proj")
    heart = Heartbeat(settings, kind="beat", clock=SYSTEM)
    heart.beat()
    [life] = line.json("health", "--live")["live"]
    assert (life["pid"], life["kind"], life["stale"]) == (os.getpid(), "beat", False)
    assert life["age"] < 10 * EVERY
    [mine] = folder(settings).iterdir()
    hanging = mine.with_name(mine.name.replace("-beat", "-local"))
    hanging.write_text(FORM.format(SYSTEM.monotonic() - 1_000))
    shown = line("health", "--live")
    assert shown.exit_code == 1
    assert f"local {os.getpid()} hangs" in shown.stdout
    hanging.unlink()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{ended.pid}-"))
    dead.write_text(FORM.format(0.0))
    assert line("health", "--live").exit_code == 0
    heart.stop()
    assert line("health", "--live").exit_code == 1


def test_live_needs_no_database(make_line: Callable[..., Line]) -> None:
    """A restart would heal nothing while PostgreSQL is away."""
    line = make_line("postgresql://nobody@127.0.0.1:1/nowhere")
    settings = Settings.read(line.app.conf, main="proj")
    Heartbeat(settings, kind="beat", clock=SYSTEM).beat()
    assert line("health", "--live").exit_code == 0
    away = line("health", "--live", "--pace")
    assert away.exit_code == 3
    assert "Error: celery_pecker:read_tasks got no answer" in away.stderr


def test_pace_is_true_while_every_due_entry_is_won(line: Line, dsn: str) -> None:
    """Kept; not kept once nobody wins; and not when nobody ever came."""
    never = line.json("health", "--pace", code=1)["pace"]
    assert never["worst"][0]["overdue_us"] is None
    assert never["schedulers"] == 0
    with line.replica():
        kept = line("health", "--pace")
        assert kept.stdout == "5 entries, every due one was won\n"
        moved = "update pecker_tasks set executed_at = executed_at - interval '20 s'"
        run(dsn, f"{moved} where name in ('tick', 'hourly')")
        late = line.json("health", "--pace", code=1)["pace"]
        assert late["overdue"] == 1
        [worst] = late["worst"]
        assert worst["name"] == "tick"
        assert 18 * SECOND < worst["overdue_us"] < 60 * SECOND
        assert line("health", "--pace", "--within", "3600").exit_code == 0
        run(dsn, "update pecker_declarations set declared_until = '-infinity'")
        gone = line("health", "--pace")
        assert gone.exit_code == 1, "nobody declares anything when all are gone"
        assert "1 of 5 entries are overdue; 'tick' for" in gone.stdout


def test_a_crontab_that_nobody_wins_is_overdue(
    dsn: str, make_line: Callable[..., Line]
) -> None:
    """Its instants are known to code only."""
    line = make_line(dsn, beat_schedule={"c": {"task": "t", "schedule": crontab()}})
    past = SYSTEM.now() - timedelta(minutes=3)
    with line.replica(ManualClock(past)):
        found = line.json("health", "--pace", "--within", "30", code=1)["pace"]
    assert found["worst"][0]["name"] == "c"
    assert 60 * SECOND < found["worst"][0]["overdue_us"] <= 185 * SECOND


@pytest.mark.parametrize("stored", [True, False])
def test_what_no_scheduler_claims_keeps_no_pace(
    dsn: str, make_line: Callable[..., Line], *, stored: bool
) -> None:
    """Stored schedules and code's alike, also before the first slot is late.

    Of a crontab at night no slot is late for a day after the last scheduler died.
    """
    code = {} if stored else {"night": {"task": "t", "schedule": crontab(hour=3)}}
    line = make_line(dsn, beat_schedule=code, result_expires=None)
    with line.replica():
        if stored:
            line("set", "night", "--task", "t", "--crontab", "0 3 * * *")
        kept = line("health", "--pace", "--runs")
        assert (kept.exit_code, kept.stdout.splitlines()[0]) == (
            0,
            "1 entries, every due one was won",
        )
        assert line.json("tasks")["entries"][0]["state"] == "new"
        assert "none is alive" not in line("doctor").stdout
    run(dsn, "update pecker_replicas set seen_at = seen_at - interval '21 s'")
    if not stored:
        run(dsn, "update pecker_declarations set declared_until = '-infinity'")
    dead = line("health", "--pace", "--runs")
    assert dead.exit_code == 1
    assert dead.stdout.splitlines()[0] == (
        "1 of 1 entries: no live scheduler claims them; 0 schedulers are alive"
    )
    assert line.json("health", "--pace", code=1)["pace"]["unclaimed"] == 1
    shown = line.json("tasks", "--order", "state")["entries"][0]["state"]
    assert shown == ("unclaimed" if stored else "undeclared")
    found = line.json("doctor", code=1)["findings"]
    [none] = [one for one in found if one["check"] == "schedulers"]
    assert none["grade"] == "fail"


def test_what_schedulers_declare_differently_keeps_no_pace(
    line: Line, dsn: str
) -> None:
    """Each of its schedules is sent; doctor says what makes such schedules."""
    with line.replica():
        run(dsn, "update pecker_replicas set differing = '{tick}'")
        shown = line("health", "--pace")
        assert shown.exit_code == 1
        assert "declare 1 entries differently" in shown.stdout
        assert line.json("health", "--pace", code=1)["pace"]["differing"] == ["tick"]
        found = line.json("doctor", code=1)["findings"]
        [one] = [one for one in found if one["check"] == "declarations"]
        assert (one["grade"], "'tick'" in one["text"]) == ("fail", True)
        run(dsn, "update pecker_replicas set seen_at = seen_at - interval '21 s'")
        gone = line.json("health", "--pace", code=1)["pace"]
        assert gone["differing"] == []


def test_nothing_scheduled_needs_no_scheduler(
    dsn: str, make_line: Callable[..., Line]
) -> None:
    """Nor does what is paused."""
    line = make_line(dsn, beat_schedule={}, result_expires=None)
    assert line("health", "--pace").exit_code == 0
    line("set", "night", "--task", "t", "--crontab", "0 3 * * *", "--paused")
    assert line("health", "--pace").exit_code == 0


class Asked:
    """A schedule that can only be asked whether it is due now."""

    is_polled = True

    def next(self, last_us: int, now_us: int) -> int:
        """Return now."""
        del last_us
        return now_us


def test_overdue_is_judged_by_this_code() -> None:
    """The unseen first, then the worst; what can only be asked is left out."""
    policy = Policy(delivery=Delivery.AT_MOST_ONCE)
    now_us = to_us(SYSTEM.now())

    def entry(name: str, period_us: int | None) -> Entry:
        return Entry(
            name=name,
            task="t",
            described="",
            policy=policy,
            period_us=period_us,
            recurrence=None if period_us else Asked(),
        )

    def row(age: float) -> Row:
        return Row(
            executed_us=now_us - round(age * SECOND), epoch=1, era=0, holder=None
        )

    entries = {
        "asked": entry("asked", None),
        "fine": entry("fine", SECOND),
        "late": entry("late", SECOND),
        "later": entry("later", SECOND),
        "unseen": entry("unseen", SECOND),
    }
    rows = {"asked": row(99), "fine": row(2), "late": row(12), "later": row(13)}
    found = overdue(entries, rows, now_us, 5 * SECOND)
    assert [one.name for one in found] == ["unseen", "later", "late"]


def test_pace_is_not_kept_while_slots_are_not_confirmed(line: Line, dsn: str) -> None:
    """Claimed, sent once more after the lease, and the broker has not said a word."""
    with line.replica():
        assert line("health", "--pace").exit_code == 0
        run(
            dsn,
            "insert into pecker_pending (name, due_at, era, epoch, holder, claimed_at,"
            " attempt) values ('tick', now() - interval '1 minute', 0, 1,"
            " gen_random_uuid(), now(), 1)",
        )
        told = line.json("health", "--pace", code=1)["pace"]
        assert (told["overdue"], told["stuck"]) == (0, 1)
        assert "has not confirmed" in line("health", "--pace").stdout


def test_runs_that_end_badly_are_seen(line: Line, dsn: str) -> None:
    """A task that always raises is failing, with what it raised, wherever one looks."""
    with line.replica():
        assert line.json("health", "--runs")["runs"]["failing"] == 0
        run(
            dsn,
            "insert into pecker_outcomes (name, published, failed, bad_era, bad_due,"
            " bad_at, bad_report, bad_host, bad_error) values ('tick', 3, 3, 0, now(),"
            " now(), 12, 'celery@one', 'RuntimeError(''no such table'')')",
        )
        runs = line.json("health", "--runs", code=1)["runs"]
        assert (runs["failing"], runs["counts"]["failed"]) == (1, 3)
        assert runs["worst"][0]["bad"]["error"] == "RuntimeError('no such table')"
        shown = line("health", "--runs")
        assert shown.stdout.startswith("'tick' failed at ")
        # A scheduler can do nothing about it: a probe by the pace restarts none.
        assert "1 of them fail: ask --runs" in line("health", "--pace").stdout
        rows = {row["name"]: row for row in line.json("tasks")["entries"]}
        assert rows["tick"]["state"] == "failing"
        assert rows["tick"]["outcomes"]["counts"]["failed"] == 3
        assert line.json("tasks", "--order", "state")["entries"][0]["name"] == "tick"
        why = line.json("explain", "tick", code=1)
        assert why["verdict"] == "failing"
        assert "RuntimeError('no such table'), reported by celery@one" in why["why"]
        # The next good run is later than the bad one; for a minute it still shows.
        run(
            dsn,
            "update pecker_outcomes set good_era = 0, good_due = now(),"
            " bad_at = now() - interval '61 seconds'",
        )
        assert line.json("health", "--runs")["runs"]["failing"] == 0


def test_what_no_worker_reports_of_is_seen(line: Line, dsn: str) -> None:
    """It was `ok` in the list for as long as its queue had no worker."""
    with line.replica():
        run(
            dsn,
            "insert into pecker_outcomes (name, published, sent_era, sent_due,"
            " report_by) values ('tick', 3, 0, now(), now() - interval '1 second')",
        )
        runs = line.json("health", "--runs", code=1)["runs"]
        assert (runs["failing"], runs["unreported"]) == (0, 1)
        assert runs["worst"][0]["name"] == "tick"
        shown = line("health", "--runs").stdout
        assert shown.startswith("'tick': no worker reports of what should begin by ")
        # A scheduler can do nothing about it: a probe by the pace restarts none.
        pace = line("health", "--pace")
        assert (pace.exit_code, "of 1 no worker reports" in pace.stdout) == (0, True)
        rows = {row["name"]: row for row in line.json("tasks")["entries"]}
        assert rows["tick"]["state"] == "unreported"
        assert line.json("tasks", "--order", "state")["entries"][0]["name"] == "tick"
        why = line.json("explain", "tick", code=1)
        assert why["verdict"] == "unreported"
        assert "active_queues" in why["advice"]

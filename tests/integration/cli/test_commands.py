"""What people type, and what they get, on real tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker.calendars import cron
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.surfaces.cli import COMMANDS
from celery_pecker.surfaces.cli.tasks import bars
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualClock
from tests.command_line import Line
from tests.integration.cli.conftest import SCHEDULE
from tests.proxy import Proxy

NAMES = {*SCHEDULE}


def started_before(seconds: float) -> ManualClock:
    """Return a clock that stands so many seconds before now."""
    return ManualClock(SYSTEM.now() - timedelta(seconds=seconds))


def test_tasks_shows_each_entry_with_its_next_slot(line: Line) -> None:
    """Grids from the tables, a crontab's from the code; names as they are written."""
    with line.replica(started_before(3)) as replica:
        replica.pass_time(3)
        found = line.json("tasks")
    rows = {row["name"]: row for row in found["entries"]}
    assert {*rows} >= NAMES
    assert found["total"] == len(rows)
    tick = rows["tick"]
    assert tick["next_us"] - tick["last_us"] == 1_000_000
    assert (tick["state"], rows["hourly"]["state"]) == ("ok", "new")
    next_ = datetime.fromisoformat(rows["daily [bold]"]["next"])
    local = next_.astimezone(line.app.timezone)
    assert (local.hour, local.minute) == (5, 30)
    shown = line("tasks", "--order", "state", "--search", "DAILY")
    assert shown.exit_code == 0
    assert "daily [bold]" in shown.stdout
    assert "1 of 1 entries" in shown.stdout
    assert "tick" not in shown.stdout
    watched = line("tasks", "--watch", "--times", "2", "--every", "0.1")
    assert watched.exit_code == 0
    assert "hourly" in watched.stdout
    lines = line("tasks", "--watch", "--times", "2", "--every", "0.1", "--json")
    assert [json.loads(one)["total"] for one in lines.stdout.splitlines()] == [
        found["total"]
    ] * 2


def test_a_sparkline_is_as_high_as_its_largest_value() -> None:
    """Nothing below 100 ms looks tall."""
    assert bars([0, 10_000, 99_999]) == "▁▁█"
    assert bars([-5, 1_000_000]) == "▁█"
    assert bars([]) == ""


def test_next_lists_slots_by_the_databases_clock(line: Line) -> None:
    """A grid, a crontab over days, and the one that is overdue."""
    with line.replica(started_before(5)):
        found = line.json("next", "tick", "-n", "3")
    slots = [datetime.fromisoformat(one) for one in found["slots"]]
    assert len(slots) == 3
    now = datetime.fromisoformat(found["now"])
    assert slots[0] <= now < slots[1], "the last that passed, then those to come"
    assert slots[2] - slots[1] == timedelta(seconds=1)
    daily = [
        datetime.fromisoformat(one).astimezone(line.app.timezone)
        for one in line.json("next", "daily [bold]", "-n", "400")["slots"]
    ]
    assert {(one.hour, one.minute) for one in daily} == {(5, 30)}
    assert len({one.date() for one in daily}) == 400
    text = line("next", "tick", "-n", "1")
    assert text.stdout.startswith("every second\n")
    assert found["words"] == "every second"
    assert text.stdout.endswith("overdue\n")
    nobody = line("next", "nobody")
    assert nobody.exit_code == 1
    assert nobody.stderr == "Error: no entry is named 'nobody' in the tables\n"


def test_next_of_a_schedule_that_has_ended(
    dsn: str, make_line: Callable[..., Line]
) -> None:
    """No instant of the year 9000 is shown: it says that none is left."""
    ended = {"task": "proj.tick", "schedule": cron("@hourly", end="2026-01-01")}
    line = make_line(dsn, beat_schedule={"ended": ended})
    with line.replica():
        found = line("next", "ended")
    assert found.exit_code == 1
    assert found.stdout == "at minute 0, every hour, until 2026-01-01 00:00:00\n"
    assert "has come to its end" in found.stderr
    rows = {row["name"]: row for row in line.json("tasks")["entries"]}
    assert rows["ended"]["next"] is None


def test_explain_names_what_holds_rows_of_entries(line: Line, dsn: str) -> None:
    """A claim passes over a row that a transaction has locked, and says nothing."""
    with (
        line.replica(),
        psycopg.connect(dsn, application_name="monthly report") as connection,
    ):
        connection.execute(
            "update pecker_tasks set executed_at = executed_at - interval '1 minute'"
        )
        connection.commit()
        assert line.json("explain", "tick", code=1)["verdict"] == "overdue"
        connection.execute("select from pecker_tasks for update")
        pid = connection.info.backend_pid

        def named() -> bool:
            verdict: str = line.json("explain", "tick", code=1)["verdict"]
            return verdict == "locked"

        eventually(named, 60.0, "it is named once it is no moment any more")
        reply = line.json("explain", "tick", code=1)
        assert f"held by process {pid} of PostgreSQL" in reply["why"]
        assert "user postgres, application monthly report, idle in" in reply["why"]
        assert reply["why"].endswith("select from pecker_tasks for update")
        assert f"select pg_terminate_backend({pid})" in reply["advice"]


def test_tasks_shows_trouble_first(line: Line) -> None:
    """Unless another order is asked for."""
    with line.replica(started_before(60)) as replica:
        replica.pass_time(0)
    entries = line.json("tasks")["entries"]
    assert entries[0]["name"] == "tick"
    assert entries[0]["state"] == "overdue"
    names = [one["name"] for one in line.json("tasks", "--order", "name")["entries"]]
    assert names == sorted(names) != [one["name"] for one in entries]


def test_explain_says_one_verdict(line: Line) -> None:
    """Of an entry that nobody has seen, one that nobody wins, and a wrong name."""
    assert line.json("explain", "tick", code=1)["verdict"] == "never_seen"
    unknown = line("explain", "hurly")
    assert unknown.exit_code == 1
    assert "did you mean 'hourly'?" in unknown.stdout
    paused = line("pause", "hurly")
    assert (paused.exit_code, "did you mean 'hourly'?" in paused.output) == (1, True)
    assert "    pause" in line("pausse").output
    with line.replica(started_before(60)):
        found = line.json("explain", "tick", code=1)
    assert found["verdict"] == "no_live_scheduler"
    assert "no scheduler is alive; the last was seen at" in found["why"]
    # It had no slot yet, and will have none.
    shown = line("explain", "daily [bold]")
    assert shown.stdout.startswith("no_live_scheduler: no scheduler is alive; ")
    assert shown.exit_code == 1
    wrong = line("explain", "tick", "--at", "yesterday")
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (1, 1)
    assert "--at is 'yesterday'; allowed is an instant in ISO 8601" in wrong.stderr
    told = line.json("explain", "tick", "--at", "2026-01-01T12:00")
    assert told["verdict"] in {"no_slot", "passed"}


def test_a_pause_lets_slots_pass_and_a_run_can_be_asked_for(line: Line) -> None:
    """By the same tables that a scheduler claims from."""
    with line.replica() as replica:
        assert line.json("pause", "tick") == {"name": "tick", "paused": True}
        assert {run.name for run in replica.pass_time(3)} <= {"timed"}
        assert line.json("explain", "tick")["verdict"] == "paused"
        assert line.json("resume", "tick") == {"name": "tick", "paused": False}
        assert [run.name for run in replica.pass_time(1)] == ["tick"]
        asked = line.json("run", "hourly")
        again = line.json("run", "hourly")
        assert asked == again, "the one that waits"
        sent = [run for run in replica.pass_time(10) if run.name == "hourly"]
    assert [run.task_id for run in sent] == [asked["task_id"]]
    waited = line.json("run", "hourly", "--wait", "--timeout", "0.3", code=3)
    assert waited["state"] == "waiting"
    for command in ("run", "pause", "resume"):
        refused = line(command, "nobody")
        assert refused.exit_code == 1
        assert refused.stderr == "Error: no entry is named 'nobody' in the tables\n"


@pytest.mark.parametrize(
    "words", [["tasks"], ["run", "tick"], ["doctor"]], ids=lambda words: words[0]
)
def test_a_database_that_never_answers_ends_a_command_in_time(
    words: list[str], dsn: str, make_line: Callable[..., Line]
) -> None:
    """It accepts and says nothing: exit code 3 (doctor: 1), one line, in seconds."""
    given = conninfo_to_dict(dsn)
    with Proxy(str(given["host"]), int(given["port"] or 5432)) as proxy:
        proxy.mute()
        line = make_line(make_conninfo(dsn, port=str(proxy.port), connect_timeout="2"))
        before = SYSTEM.monotonic()
        result = line(*words)
        taken = SYSTEM.monotonic() - before
    assert result.exit_code == (1 if words == ["doctor"] else 3), result.output
    assert taken < 12
    if words != ["doctor"]:
        assert result.stderr.count("\n") == 1
        assert "got no answer" in result.stderr


def test_help_names_every_command(line: Line) -> None:
    """Each is imported for its line of help; none fails at that."""
    shown = line("--help")
    assert shown.exit_code == 0
    # One hands its options on to Flower, the others serve until they are ended.
    for name in COMMANDS.keys() - {"flower", "intake", "job", "observe"}:
        assert re.search(rf"\n  {name} ", shown.stdout)
        told = line(name, "--help")
        assert told.exit_code == 0
        assert "--json" in told.stdout
    assert line("health").exit_code == 2


def test_a_pipe_gets_one_readable_line_for_each_entry(
    make_line: Callable[..., Line], dsn: str
) -> None:
    """Whatever the names: one of 1,000 letters, one that colours a terminal."""
    odd, long = "a\nb \x1b[31m", "n" * 1_000
    schedule = {name: {"task": "t", "schedule": 60.0} for name in (odd, long)}
    line = make_line(dsn, beat_schedule=schedule)
    with line.replica():
        pass
    told = line("tasks").stdout
    assert "\x1b" not in told
    assert r"a\nb \x1b[31m" in told
    rows = told.splitlines()[2:]  # ours, and Celery's own entry for results
    assert all(" new " in one for one in rows)
    assert any(one.startswith(long) for one in rows)

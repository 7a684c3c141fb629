"""``pecker outbox``: what waits, and what people do to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from celery_pecker.kernel.database import Database
from celery_pecker.outbox import Outbox, overview
from celery_pecker.outbox.runs.holds import Holds
from celery_pecker.outbox.runs.options import Options
from celery_pecker.outbox.runs.rows import Rows
from celery_pecker.testing import eventually
from tests.command_line import Line
from tests.integration.outbox.stored import Table
from tests.integration.outbox_relay.rows import column, record

MakeLine = Callable[..., Line]
COMMANDS = ("retry", "park", "drop", "reschedule")


@pytest.fixture
def table(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Give an outbox with rows in each state."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        record(connection, 3)
        record(connection, 2, delay=3_600.0)
        [parked] = record(connection, 1)
        [held] = record(connection, 1)
        connection.execute(
            "update pecker_outbox set task = 'app.bad', attempt = 7, parked_at = now(),"
            " last_error = 'no such queue' where id = %s",
            [parked],
        )
        connection.execute(
            "insert into pecker_outbox_batches (token, ids, holder, epoch, hold,"
            " held_until, created_at) values (gen_random_uuid(), %s,"
            " gen_random_uuid(), 1, '30 s', now() + interval '30 s', now())",
            [[held]],
        )
        connection.execute(
            "insert into pecker_outbox_relays (holder, host, pid, started_at, seen_at,"
            " sent, broker, rates) values (gen_random_uuid(), 'here', 7, now(), now(),"
            """ 9, 'redis://here refused', '{"app.work": 2.0}')"""
        )
        yield connection


def test_depth_and_time_to_drain_stand_first(
    dsn: str, table: psycopg.Connection[Any], make_line: MakeLine
) -> None:
    """Then each task, with the most that wait first."""
    line = make_line(dsn)
    found = line.json("outbox")
    assert (found["depth"], found["later"], found["parked"]) == (4, 2, 1)
    assert (found["rate"], found["drained_in"], found["more"]) == (2.0, 2.0, False)
    assert found["oldest"] >= 0
    work, bad = found["tasks"]
    assert (work["task"], work["waiting"], work["held"], work["later"]) == (
        *("app.work", 3, 1, 2),
    )
    assert (bad["task"], bad["parked"], bad["attempt"]) == ("app.bad", 1, 7)
    assert found["relays"][0]["broker"] == "redis://here refused"

    shown = line("outbox")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("Due messages  4, the oldest for ")
    assert "Empty in      2.0 s, 2 a second, 2 messages later" in shown.stdout
    assert "the broker is away for here 7: redis://here refused" in shown.stdout


def test_rows_are_shown_by_attempts_most_first(
    dsn: str, table: psycopg.Connection[Any], make_line: MakeLine
) -> None:
    """Those of a task, those that are parked, or one."""
    line = make_line(dsn)
    rows = line.json("outbox", "show")["rows"]
    assert len(rows) == 7
    assert (rows[0]["task"], rows[0]["attempt"], rows[0]["state"]) == (
        *("app.bad", 7, "parked"),
    )
    assert rows[0]["last_error"] == "no such queue"
    assert rows[0]["mode"] == "relay"
    assert line.json("outbox", "show", "--parked")["rows"] == rows[:1]
    assert len(line.json("outbox", "show", "--task", "app.work")["rows"]) == 6
    table.execute(
        "update pecker_outbox set mode = 1, attempt = id % 5 where task = 'app.work'"
    )
    for which in ((), ("--task", "app.work")):
        attempts = [
            row["attempt"] for row in line.json("outbox", "show", *which)["rows"]
        ]
        assert attempts == sorted(attempts, reverse=True)
        assert len({*attempts}) >= 4
    one = line("outbox", "show", str(rows[0]["id"]))
    assert "no such queue" in one.stdout
    assert line("outbox", "show", "--task", "nobody's").exit_code == 1


def test_what_people_do_to_rows(
    dsn: str, table: psycopg.Connection[Any], make_line: MakeLine
) -> None:
    """What is in a relay's hands is passed over."""
    line = make_line(dsn)
    assert line.json("outbox", "retry", "--parked") == {"rows": 1}
    assert column(table, "select parked_at from pecker_outbox") == [None] * 7
    assert line.json("outbox", "park", "--task", "app.work", "--reason", "why") == {
        "rows": 5
    }
    assert column(
        table,
        "select distinct last_error from pecker_outbox where parked_at > '-infinity'",
    ) == ["why"]
    assert line.json("outbox", "retry", "--all") == {"rows": 5}
    at = "2099-01-01T00:00:00+01:00"
    assert line.json("outbox", "reschedule", "--task", "app.bad", "--at", at) == {
        "rows": 1
    }
    [row] = line.json("outbox", "show", "--task", "app.bad")["rows"]
    assert row["due_at"] == "2098-12-31T23:00:00.000000Z"
    assert line.json("outbox", "drop", "--all") == {"rows": 6}
    left = column(table, "select id from pecker_outbox")
    assert left == column(table, "select unnest(ids) from pecker_outbox_batches")
    assert line.json("outbox", "drop", "--all", code=1) == {"rows": 0}


def test_parked_rows_are_shown_and_retried_by_their_errors(
    dsn: str, make_line: MakeLine, table: psycopg.Connection[Any]
) -> None:
    """Those that differ in numbers alone are one."""
    line = make_line(dsn)
    line.json("outbox", "park", "--task", "app.work", "--reason", "bank 17 is away")
    groups = line.json("outbox", "errors")["groups"]
    found = {one["message"]: one for one in groups}
    many = found["bank 17 is away"]
    assert many["of"] == {"app.work": many["count"]}
    assert many["key"] in line("outbox", "errors").stdout
    both = line("outbox", "retry", "--parked", "--error", many["key"])
    assert both.exit_code == 2
    retried = line.json("outbox", "retry", "--error", many["key"])
    assert retried == {"rows": many["count"]}
    left = column(table, "select task from pecker_outbox where parked_at is not null")
    assert left == ["app.bad"]
    gone = line("outbox", "retry", "--error", many["key"])
    assert gone.exit_code == 1
    assert "no parked message has the error" in gone.stderr


def test_all_rows_of_an_error_are_retried_however_many(
    dsn: str, make_line: MakeLine, table: psycopg.Connection[Any]
) -> None:
    """Its list groups the first thousand; what fails otherwise stays."""
    line = make_line(dsn)
    record(table, 2_500)
    table.execute(
        "update pecker_outbox set parked_at = now(), attempt = id % 3, last_error ="
        " case when id % 100 = 0 then 'refused' else 'bank ' || id || ' is away' end"
        " where id > 10"
    )
    [many] = [
        one
        for one in line.json("outbox", "errors")["groups"]
        if one["message"].startswith("bank")
    ]
    assert many["count"] < 1_000
    retried = line.json("outbox", "retry", "--error", many["key"])["rows"]
    left = "select count(*) from pecker_outbox where last_error = 'refused' and"
    assert column(table, f"{left} parked_at is not null") == [25]
    assert retried == 2_497 - 25


def test_rows_are_chosen_by_what_the_page_has_filters_for(
    dsn: str, make_line: MakeLine, table: psycopg.Connection[Any]
) -> None:
    """State, queue, error and age, together with those of the command alone."""
    line = make_line(dsn)

    def shown(*words: str) -> int:
        found = line("outbox", "show", "--json", *words)
        return len(json.loads(found.stdout)["rows"])

    assert [shown("--state", one) for one in ("waiting", "held", "later")] == [3, 1, 2]
    [queue] = {row["routing_key"] for row in line.json("outbox", "show")["rows"]}
    assert (shown("--queue", queue), shown("--queue", "none")) == (7, 0)
    assert shown("--error", "NO SUCH") == 1
    table.execute("update pecker_outbox set created_at = now() - interval '3 h'")
    record(table, 2)
    assert (shown("--older-than", "2h"), shown("--older-than", "4h")) == (7, 0)
    assert shown("--older-than", "2h", "--state", "later", "--task", "app.work") == 2
    refused = line("outbox", "drop", "--older-than", "soon")
    assert (refused.exit_code, "no length of time" in refused.stderr) == (1, True)
    assert line.json("outbox", "drop", "--older-than", "2h", "--state", "later") == {
        "rows": 2
    }
    assert line.json("audit", "older_than")["acts"][0]["subject"] == (
        "state later, older_than 2h"
    )


def test_parked_rows_are_retried_later(
    dsn: str, table: psycopg.Connection[Any], make_line: MakeLine
) -> None:
    """A batch that failed is put back in bulk, for the night."""
    line = make_line(dsn)
    at = "2099-01-01T00:00:00+01:00"
    assert line.json("outbox", "retry", "--parked", "--at", at) == {"rows": 1}
    [row] = line.json("outbox", "show", "--task", "app.bad")["rows"]
    assert (row["state"], row["attempt"]) == ("later", 0)
    assert row["due_at"] == "2098-12-31T23:00:00.000000Z"
    assert line.json("outbox", "park", "--task", "app.bad") == {"rows": 1}
    assert line.json("outbox", "retry", "--parked", "--delay", "3600") == {"rows": 1}
    [row] = line.json("outbox", "show", "--task", "app.bad")["rows"]
    assert row["state"] == "later"
    both = ("--at", at, "--delay", "1")
    refused = line("outbox", "retry", "--parked", *both)
    assert refused.exit_code == 1
    assert "at and delay exclude each other" in refused.stderr


def test_rows_whose_runs_have_ended_are_run_again(
    dsn: str, table: psycopg.Connection[Any], make_line: MakeLine
) -> None:
    """Their worker is known to be dead: nobody waits for the end of the hold."""
    line = make_line(dsn)
    table.execute(
        "update pecker_outbox set mode = 1, attempt = 1, running = true, epoch = 1,"
        " parked_at = null, due_at = now() + interval '1 hour',"
        " held_until = now() + interval '1 hour' where task = 'app.bad'"
    )
    named = ("--task", "app.bad")
    [row] = line.json("outbox", "show", *named)["rows"]
    assert row["state"] == "held"
    ended = ("reschedule", *named, "--ended", "--delay", "0")
    assert line.json("outbox", *ended) == {"rows": 1}
    [row] = line.json("outbox", "show", *named)["rows"]
    assert (row["state"], row["attempt"]) == ("waiting", 1)


def test_what_was_sent_and_no_worker_has_begun_is_due(
    dsn: str, make_line: MakeLine
) -> None:
    """It waits in the broker; what failed is for later."""
    line, table = make_line(dsn), Table(dsn)
    number = table.add("app.work")
    database = Database(dsn, schema="public", timeout=30.0)
    rows = Rows(database, Holds(60.0, 3_600.0))

    def shown() -> tuple[Any, ...]:
        found = line.json("outbox")
        [row] = line.json("outbox", "show")["rows"]
        [task] = found["tasks"]
        counts = found["depth"], task["waiting"], task["held"], found["later"]
        return (*counts, row["state"])

    rows.claim_pushes()
    assert shown() == (1, 1, 0, 0, "waiting")
    # The third time it was sent three minutes ago, after holds of one and two minutes.
    table.execute(
        "update pecker_outbox set pushes = 3, held_at = now() - interval '180 s',"
        " held_until = now() + interval '60 s'"
    )
    assert 360.0 <= line.json("outbox")["oldest"] < 420.0
    [row] = line.json("outbox", "show")["rows"]
    assert row["due_at"] < row["created_at"], "six minutes ago"
    assert not line.json("health", "--outbox", "--within", "300", code=1)["healthy"]
    begun, _ = rows.start(table.ref(number), Options(timeout=None, attempts=3))
    assert begun is not None
    assert shown() == (1, 0, 1, 0, "held")
    rows.fail(number, begun.epoch, "broken", park=False)
    assert shown() == (0, 0, 0, 1, "later")
    database.close()


def test_what_is_not_understood_changes_nothing(
    dsn: str, table: psycopg.Connection[Any], make_line: MakeLine
) -> None:
    """No rows named, no instant, no such outbox."""
    line = make_line(dsn)
    for name in COMMANDS:
        more = ("--delay", "0") if name == "reschedule" else ()
        refused = line("outbox", name, *more)
        assert refused.exit_code == 2, name
        assert "--all" in refused.stderr
    assert line("outbox", "reschedule", "--all", "--at", "soon").exit_code == 2
    assert line("outbox", "reschedule", "--all").exit_code == 2
    unknown = line("outbox", "--outbox", "eu")
    assert unknown.exit_code == 1
    assert "the app has default" in unknown.stderr
    assert column(table, "select count(*) from pecker_outbox") == [7]


def test_another_outbox_is_another_table(
    dsn: str, table: psycopg.Connection[Any], postgres_server: Any, make_line: MakeLine
) -> None:
    """By its name."""
    line = make_line(dsn)
    Outbox(line.app)
    with postgres_server.fresh(migrated=True) as other:
        Outbox(line.app, dsn=other, name="eu")
        assert line.json("outbox", "--outbox", "eu")["depth"] == 0
        assert line.json("outbox")["depth"] == 4
        refused = line("outbox", "--outbox", "eu", "drop", "--all")
        assert refused.exit_code == 2, "it would have dropped those of the first one"
        assert "--outbox stands before 'drop'" in refused.stderr
        assert line("outbox", "drop", "--all", "--outbox", "eu").exit_code == 1
    assert column(table, "select count(*) from pecker_outbox") == [7]


def test_an_instant_without_an_offset_is_one_of_the_apps_zone(
    dsn: str, table: psycopg.Connection[Any], make_line: MakeLine
) -> None:
    """As everywhere on the command line."""
    line = make_line(dsn, timezone="Europe/Berlin")
    line.json("outbox", "reschedule", "--all", "--at", "2031-07-01 12:00")
    due = "select count(*) from pecker_outbox where due_at = '2031-07-01 10:00Z'"
    assert column(table, due) == [6]  # but for the one that a relay has in hand


def test_a_deep_table_is_reckoned(
    dsn: str,
    table: psycopg.Connection[Any],
    make_line: MakeLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond what is counted PostgreSQL's statistics say about how many there are."""
    monkeypatch.setattr(overview, "MOST_COUNTED", 2)
    table.execute("vacuum analyze pecker_outbox")
    line = make_line(dsn)
    found = line.json("outbox")
    assert (found["depth"], found["later"], found["parked"]) == (4, 2, 1)
    assert (found["counted"], found["more"]) == (5, True)
    shown = line("outbox").stdout
    assert shown.startswith("Due messages  about 4, ")
    assert "over 5 messages" in shown


def test_an_outbox_that_does_not_answer_holds_up_no_other(
    dsn: str, table: psycopg.Connection[Any], make_line: MakeLine
) -> None:
    """Health says what it knows of the others; the state of the whole is unknown."""
    line = make_line(dsn)
    Outbox(line.app)
    Outbox(line.app, dsn="postgresql://127.0.0.1:1/nowhere", name="eu")
    within = ("--outbox", "--within", "3600")
    found = line.json("health", *within, code=3)
    assert found["healthy"] is None
    assert found["outbox"]["default"]["depth"] == 4
    assert "no answer" in found["outbox"]["eu"]["error"]
    shown = line("health", *within)
    assert "outbox default: 4 due" in shown.stdout
    assert "outbox eu: unknown: " in shown.stdout
    table.execute("update pecker_outbox set created_at = now() - interval '2 hours'")
    assert not line.json("health", *within, code=1)["healthy"]


def test_health_says_how_deep_it_is_and_that_the_broker_is_away(
    dsn: str, table: psycopg.Connection[Any], make_line: MakeLine
) -> None:
    """By the exit code; an outbox that is delivered in time is healthy."""
    line = make_line(dsn)
    within = ("--outbox", "--within", "3600")
    found = line.json("health", *within)
    assert found["healthy"]
    assert found["outbox"]["default"]["depth"] == 4
    table.execute("update pecker_outbox set created_at = now() - interval '2 hours'")
    assert not line.json("health", *within, code=1)["healthy"]
    shown = line("health", *within)
    assert shown.exit_code == 1
    assert "outbox default: 4 due, the oldest for 2 h" in shown.stdout
    assert "the broker is away: redis://here refused" in shown.stdout
    table.execute("update pecker_outbox_relays set broker = null")
    assert "broker" not in line("health", *within).stdout
    table.execute("delete from pecker_outbox_relays")
    assert "no relay runs" in line("health", *within).stdout


def test_the_load_is_shown_and_changed(dsn: str, make_line: MakeLine) -> None:
    """What is not named stays; what cannot be changes nothing."""
    line = make_line(dsn)
    published = line.json("outbox", "load")
    assert (published["threads"], published["pause_empty"]) == (10, 10.0)
    changed = line.json("outbox", "load", "--threads", "3", "--only", "app.urgent")
    assert changed == {**published, "threads": 3, "only": ["app.urgent"]}
    changed = line.json("outbox", "load", "--pause-done", "0")
    assert (changed["threads"], changed["pause_done"]) == (3, 0.0)
    assert changed["only"] == ["app.urgent"]
    assert line.json("outbox", "load", "--everything")["only"] is None
    assert line("outbox", "load", "--threads", "9999").exit_code == 2
    shown = line("outbox", "load")
    assert "threads: 3" in shown.stdout
    assert "only: all" in shown.stdout
    assert line.json("outbox", "load", "--default") == published


def test_explain_names_the_session_that_holds_a_message(
    dsn: str, table: psycopg.Connection[Any], make_line: MakeLine
) -> None:
    """Of this row only: a long transaction that records messages holds up nobody."""
    line = make_line(dsn)
    held, free = table.execute(
        "select id::text from pecker_outbox where due_at is null"
        " and parked_at is null order by id limit 2"
    ).fetchall()
    with psycopg.connect(dsn, application_name="monthly report") as report:
        record(report, 1)
        report.execute("select from pecker_outbox where id = %s for update", held)
        pid = report.info.backend_pid

        def named() -> bool:
            verdict: str = line.json("outbox", "explain", held[0], code=1)["verdict"]
            return verdict == "locked"

        eventually(named, 60.0, "it is named once it is no moment any more")
        reply = line.json("outbox", "explain", held[0], code=1)
        assert f"held by process {pid} of PostgreSQL" in reply["why"]
        assert "application monthly report" in reply["why"]
        assert f"select pg_terminate_backend({pid})" in reply["advice"]
        other = line.json("outbox", "explain", free[0], code=1)
        assert other["verdict"] == "broker_away"
        assert "redis://here refused" in other["why"]
    gone = line("outbox", "explain", "999999")
    assert gone.exit_code == 1
    assert "not in the outbox any more" in gone.stderr

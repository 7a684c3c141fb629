"""``pecker audit``: who did what; and no act in the schema of another app."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, LiteralString

import psycopg
import pytest

from celery_pecker.kernel.audit import current_user, recorded
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.kernel.settings import Settings
from celery_sharding.cli import sharding
from tests.command_line import Line, lines
from tests.integration.outbox_relay.rows import record

MakeLine = Callable[..., Line]
ACTING = (
    ("pause", "tick"),
    ("resume", "tick"),
    ("run", "tick"),
    ("set", "report", "--task", "proj.report", "--every", "90"),
    ("once", "proj.report", "--at", "2030-01-01"),
    ("rename", "report", "monthly"),
    ("remove", "report"),
    ("outbox", "retry", "--all"),
    ("outbox", "park", "--all"),
    ("outbox", "drop", "--all"),
    ("outbox", "reschedule", "--all", "--delay", "5"),
    ("outbox", "load", "--threads", "3"),
    ("observers", "start", "book", "btc"),
    ("observers", "stop", "btc"),
    ("observers", "restart", "btc"),
    ("observers", "drain", "here"),
    ("observers", "undrain", "here"),
)
JOBS = (
    ("pause", "job"),
    ("resume", "job"),
    ("cancel", "job"),
    ("retry", "job"),
    ("rerun", "job", "1"),
    ("concurrency", "job", "2"),
)


def acts(line: Line, *words: str) -> list[dict[str, Any]]:
    """Return what the command shows, the oldest first."""
    found: list[dict[str, Any]] = line.json("audit", *words)["acts"]
    return found[::-1]


def column(dsn: str, query: LiteralString) -> list[Any]:
    """Return the first column of a query."""
    with psycopg.connect(dsn) as connection:
        return [row[0] for row in connection.execute(query)]


def own(dsn: str, app: str) -> None:
    """Make the schema an app's."""
    with psycopg.connect(dsn) as connection:
        connection.execute("insert into pecker_owner (app) values (%s)", [app])


def test_each_act_is_recorded_with_what_came_of_it(
    dsn: str, make_line: MakeLine
) -> None:
    """One that was refused, too; arguments, which may be secret, are not kept."""
    line = make_line(dsn)
    with psycopg.connect(dsn) as connection:
        record(connection, 3)
    line("set", "report", "--task", "proj.report", "--every", "90", "--args", '["x"]')
    line("set", "report", "--every", "60", "--dry-run")
    line("pause", "report")
    line("pause", "raport")
    line("outbox", "drop", "--task", "app.work", "--task", "app.bad")
    line("outbox", "drop", "7")
    done = [
        (one["act"], one["subject"], one["state"], one["error"]) for one in acts(line)
    ]
    assert done[:2] == [
        ("schedules set", "report", "done", ""),
        ("schedules pause", "report", "done", ""),
    ]
    assert done[2][:3] == ("schedules pause", "raport", "failed")
    assert done[2][3].startswith("UnknownSchedule: no entry is named 'raport'")
    assert done[3:] == [
        ("outbox drop", "tasks app.work app.bad", "done", ""),
        ("outbox drop", "7", "failed", "Exit: 1"),
    ]
    assert {one["done_by"] for one in acts(line)} == {current_user()}
    assert {one["surface"] for one in acts(line)} == {"command"}
    assert len(acts(line, "report")) == 2
    assert len(acts(line, "--act", "outbox drop")) == 2
    assert acts(line, "--by", "nobody") == []
    assert "outbox drop" in line("audit").stdout


def test_no_act_is_done_in_the_schema_of_another_app(
    dsn: str, make_line: MakeLine
) -> None:
    """Whatever it is: it is refused before anything is written."""
    own(dsn, "theirs")
    with psycopg.connect(dsn) as connection:
        record(connection, 3)
    refuse_each(make_line(dsn), ACTING)
    with lines(sharding) as make:
        refuse_each(make(dsn), JOBS)
    assert len(column(dsn, "select id from pecker_outbox")) == 3
    assert column(dsn, "select act from pecker_acts") == []


def refuse_each(line: Line, commands: Sequence[tuple[str, ...]]) -> None:
    """See that each command is refused as another app's."""
    for words in commands:
        done = line(*words)
        assert done.exit_code == 1, words
        assert "belongs to the app 'theirs', and this is 'proj'" in done.stderr, words


def test_the_owner_acts_and_what_is_old_goes(dsn: str, make_line: MakeLine) -> None:
    """With the next act, some rows at a time."""
    own(dsn, "proj")
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "insert into pecker_acts (begun_at, act, subject, done_by, surface)"
            " select now() - interval '181 days', 'old', 'x', 'x', 'command'"
            " from generate_series(1, 150)"
        )
    line = make_line(dsn)
    line("observers", "stop", "btc")
    assert len(acts(line, "--act", "old")) == 50
    line("observers", "stop", "btc")
    assert [one["act"] for one in acts(line)] == ["observers stop"] * 2


def test_an_act_without_an_answer_is_unknown(dsn: str, make_line: MakeLine) -> None:
    """As one whose process died: nobody says that it was done, or was not."""
    settings = Settings.read({"pecker_dsn": dsn}, main="proj")
    with (
        pytest.raises(DatabaseUnavailable),
        recorded(settings, "outbox drop", "7", by="ada", surface="Flower"),
    ):
        raise DatabaseUnavailable
    [row] = acts(make_line(dsn))
    assert (row["state"], row["error"]) == ("unknown", "")


def test_what_cannot_be_recorded_is_not_done(dsn: str, make_line: MakeLine) -> None:
    """There is no act without a row."""
    with psycopg.connect(dsn) as connection:
        record(connection, 3)
        connection.execute("alter table pecker_acts rename to away")
    done = make_line(dsn)("outbox", "drop", "--all")
    assert done.exit_code == 1
    assert "pecker migrate" in done.stderr
    assert len(column(dsn, "select id from pecker_outbox")) == 3

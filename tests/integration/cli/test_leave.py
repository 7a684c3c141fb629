"""``pecker leave``: the way back."""

from __future__ import annotations

import shelve
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from celery.beat import PersistentScheduler

from celery_pecker.outbox import Outbox
from celery_pecker.schedules import Schedules
from tests.command_line import Line


@pytest.fixture
def ran(line: Line) -> Line:
    """Give an app whose entry `tick` ran here, by a scheduler that is gone."""
    with line.replica() as replica:
        replica.pass_time(3)
    with psycopg.connect(line.app.conf.pecker_dsn) as connection:
        connection.execute("delete from pecker_replicas")
    return line


def test_what_is_left_to_do_is_said_and_nothing_is_dropped(line: Line) -> None:
    """A scheduler that lives, a message that no relay has sent."""
    with line.replica() as replica:
        replica.pass_time(1)

    @line.app.task(name="proj.mail", outbox=True, shared=False)
    def mail() -> None: ...

    outbox = Outbox(line.app)
    with psycopg.connect(line.app.conf.pecker_dsn) as connection:
        outbox.send(mail.s(), connection=connection)
    said = line("leave", "--drop", "--yes")
    assert said.exit_code == 1
    assert "1 scheduler is alive: stop them" in said.stdout
    assert "outbox default: 1 messages are not delivered" in said.stdout
    assert line("tasks").exit_code == 0


def test_beat_goes_on_where_it_was_left(ran: Line, tmp_path: Path) -> None:
    """Its own code reads the file; code and packages to take out are named."""
    Schedules(ran.app).set("report", task="proj.tick", schedule=60)
    file = str(tmp_path / "celerybeat-schedule")
    said = ran("leave", "--beat", file)
    assert said.exit_code == 0, said.output
    for word in ("the key 'pecker' of timed", "pecker_dsn", "psycopg2", ": report"):
        assert word in said.stdout
    last = {
        name: datetime.fromisoformat(told) for name, told in ran.json("export").items()
    }
    ran.app.conf.beat_schedule = {"tick": {"task": "proj.tick", "schedule": 1.0}}
    beat = PersistentScheduler(ran.app, schedule_filename=file)
    found = beat.schedule["tick"].last_run_at
    beat.close()
    assert found is not None
    assert abs(found.astimezone(UTC) - last["tick"]) < timedelta(milliseconds=1)
    with shelve.open(file) as shelf:  # noqa: S301 — beat's own, made above
        assert shelf["tz"] == "Europe/Berlin"


def test_our_tables_are_dropped_and_no_others(ran: Line) -> None:
    """Only after a yes."""
    dsn = ran.app.conf.pecker_dsn
    with psycopg.connect(dsn) as connection:
        connection.execute("create table pecker_mine ()")
    kept = ran("leave", "--drop")  # nothing is typed
    assert kept.exit_code == 1
    assert "Drop " in kept.output
    assert ran("tasks").exit_code == 0
    assert ran("leave", "--drop", "--yes").exit_code == 0
    with psycopg.connect(dsn) as connection:
        left = connection.execute(
            "select relname from pg_class where relkind = 'r'"
            " and relnamespace = 'public'::regnamespace"
        ).fetchall()
    assert left == [("pecker_mine",)]


def test_an_export_is_no_part_of_what_the_app_prints(ran: Line, tmp_path: Path) -> None:
    """A file has the document alone; an imported run is shown with its instant."""
    file = tmp_path / "last.json"
    said = ran("export", "--output", str(file))
    assert (said.exit_code, said.stdout) == (0, "")
    with psycopg.connect(ran.app.conf.pecker_dsn) as connection:
        connection.execute("delete from pecker_tasks")
    assert ran("import", str(file)).exit_code == 0
    assert "never" not in ran("tasks").stdout

"""What is wrong, in one look of the command and on its live screen."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from celery_pecker.kernel.clock import SYSTEM, new_id, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.figure_tables import FiguresWriter
from celery_pecker.kernel.figures import Figures
from celery_pecker.kernel.settings import Settings
from celery_pecker.surfaces.findings.broker import unknown, untaken
from celery_pecker.surfaces.findings.project import Project, Scheduled
from celery_pecker.surfaces.findings.view import CAUSES, NOW
from celery_pecker.testing import eventually, free_port
from tests.command_line import Line
from tests.integration.cli.conftest import SCHEDULE

APP = """
from celery import Celery

app = Celery("proj", broker="memory://")
app.conf.pecker_dsn = {dsn!r}
app.conf.beat_schedule = {{"tick": {{"task": "proj.tick", "schedule": 1.0}}}}
"""


def causes(line: Line, code: int = 1) -> dict[str, list[str]]:
    """Return what is wrong, each with what follows from it."""
    found = line.json("now", code=code)["causes"]
    return {
        one["check"]: [after["check"] for after in one["consequences"]]
        for one in found
        if one["grade"] == "fail"
    }


def project(line: Line) -> Project:
    """Return what acts are done to."""
    settings = Settings.read(line.app.conf, main=line.app.main)
    return Project(line.app, settings, Database.of(settings))


def test_an_outage_is_one_cause_with_what_follows_from_it(
    dsn: str, redis_url: str, make_line: Callable[..., Line]
) -> None:
    """A broker that is away makes entries late; nobody looks for 4 reasons."""
    line = make_line(dsn, broker_url=redis_url)
    with line.replica():
        assert causes(line, code=0) == {}
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "update pecker_tasks set executed_at = executed_at - interval '1 min'"
            )
        assert causes(line) == {"overdue": []}
        line.app.conf["broker_url"] = f"redis://127.0.0.1:{free_port()}/0"
        assert causes(line) == {"broker": ["overdue"]}
        shown = line().stdout
    assert shown.startswith("1 cause to mend")
    assert "✗ The broker is away" in shown
    assert "  ↳ " in shown
    assert "entries are overdue, the longest" in shown


def test_without_a_database_it_says_so(make_line: Callable[..., Line]) -> None:
    """A look is not refused because of what it is to find."""
    line = make_line(f"postgresql://nobody@127.0.0.1:{free_port()}/nowhere")
    assert "database" in causes(line)


def test_well_is_one_green_line(
    dsn: str, redis_url: str, make_line: Callable[..., Line]
) -> None:
    """With what there is, and how the runs of the last day ended."""
    line = make_line(dsn, broker_url=redis_url)
    figures, now_us = Figures(), to_us(SYSTEM.now())
    for key in ("o1", "l8", "o11", "o12", "o12"):
        figures.add("entry tick", now_us, key)
    mine = project(line)
    writer = FiguresWriter(figures, mine.database, new_id(), clock=SYSTEM)
    with line.replica():
        before = line.json("now")["sentence"]
        writer.leave()
        sentence = line.json("now")["sentence"]
    mine.close()
    what = f"All is well: {len(SCHEDULE) + 1} entries on 1 scheduler"
    assert before.startswith(f"{what}; so far 0 runs")
    day = "; within a day 1 runs ended well, 2 badly, 95 % at most 16 ms late"
    assert sentence.startswith(what + day)


def test_the_session_that_holds_rows_is_ended_and_no_other(
    line: Line, dsn: str
) -> None:
    """By its number and its start: the number may be another's by then."""
    mine = project(line)
    end, _ = NOW.acts["end"]
    with line.replica(), psycopg.connect(dsn) as connection:
        connection.execute("select from pecker_tasks for update")
        [lock] = eventually(mine.overview.locks, 30.0, "it is seen")
        with pytest.raises(PeckerError, match="ended by itself"):
            end.do(mine, [f"{lock.pid}.1"], "me", CAUSES)
        assert connection.execute("select 1").fetchone() == (1,)
        end.do(mine, [lock.key], "me", CAUSES)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
        eventually(lambda: not mine.overview.locks(), 30.0, "nothing is held")
    mine.close()


def test_what_waits_for_a_table_is_told_by_whom_it_is_held(
    line: Line, dsn: str
) -> None:
    """A migration that was forgotten: claims hang, and the tables cannot be read."""
    with (
        line.replica(),
        psycopg.connect(dsn, application_name="alter by hand") as connection,
    ):
        connection.execute("lock table pecker_tasks in access exclusive mode")
        pid = connection.info.backend_pid

        def named() -> bool:
            return causes(line).get(f"locks of {pid}") == ["database"]

        eventually(named, 60.0, "the lock is the cause")


def test_a_queue_without_a_worker_and_a_task_that_none_knows_are_named() -> None:
    """Only where a worker answered: else nothing is known of either."""
    entries = [
        Scheduled("a", "proj.mail", "mail"),
        Scheduled("b", "proj.tick", "celery"),
    ]
    queues = {"w@one": [{"name": "celery"}]}
    [finding] = untaken(queues, entries)
    assert finding.text == "no worker takes the queue 'mail': a waits in it"
    assert (finding.act, finding.about) == ("take", "mail")
    assert not [*untaken({}, entries)]
    tasks = {"w@one": ["proj.tick [rate_limit=1/s]", "proj.mails"]}
    [finding] = unknown(tasks, entries)
    assert "'proj.mail' of a; did you mean 'proj.mails'" in finding.text
    assert (finding.act, finding.about) == ("pause", "a")
    cleanup = Scheduled("c", "celery.backend_cleanup", "celery")
    assert not [*unknown(tasks, [cleanup])]


def test_a_terminal_gets_a_live_screen_whose_keys_act(dsn: str, tmp_path: Path) -> None:
    """The number of a cause asks, y does it, and q leaves the terminal as it was."""
    (tmp_path / "proj.py").write_text(APP.format(dsn=dsn))
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    command = [sys.executable, "-m", "celery", "-A", "proj", "pecker"]

    def read_until(words: bytes) -> None:
        shown = b""
        while words not in shown:
            shown += os.read(ours, 4096)

    with (
        psycopg.connect(dsn) as connection,
        subprocess.Popen(
            command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, env=env
        ) as process,
    ):
        os.close(theirs)
        connection.execute("lock table pecker_tasks in exclusive mode")
        read_until(b"[1] End the session")
        os.write(ours, b"1")
        read_until(b"y or n")
        os.write(ours, b"y")
        read_until(b"Ended: ")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
        os.write(ours, b"q")
        with suppress(OSError):  # it has ended
            while os.read(ours, 4096):
                pass
        assert process.wait(30) == 0
    os.close(ours)
    with psycopg.connect(dsn) as connection:
        acts = connection.execute(
            "select act from pecker_acts where ended_at is not null and error is null"
        ).fetchall()
    assert acts == [("now end",)]


def test_a_paused_schedule_that_was_removed_is_not_named(
    line: Line, redis_url: str
) -> None:
    """Its row of slots stays paused for a while, and is nobody's to resume."""
    line.app.conf["broker_url"] = redis_url

    def checks() -> list[str]:
        found = line.json("now", code=0)["causes"]
        return [one["check"] for one in found]

    with line.replica():
        line("set", "weekly", "--task", "proj.tick", "--every", "60")
        line("pause", "weekly")
        assert "paused" in checks()
        line("remove", "weekly")
        assert "paused" not in checks()

"""``celery -A proj pecker …`` as it is typed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.migrations import LATEST, script
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.testing import free_port
from tests.integration.test_migrations import run

Celery = Callable[..., subprocess.CompletedProcess[str]]

NONE_THERE = "postgresql://pecker:s3cret@127.0.0.1:1/nowhere"
OTHER_DRIVER = "postgresql+psycopg://u:s3cret@localhost/d"


@pytest.fixture
def celery(tmp_path: Path) -> Celery:
    """Give a way to run ``celery -A proj …`` on an app with that text."""

    def invoke(
        *words: str, body: str = "", **conf: Any
    ) -> subprocess.CompletedProcess[str]:
        (tmp_path / "proj.py").write_text(
            "from celery import Celery\n"
            "from celery.schedules import crontab, schedule\n"
            f"app = Celery('proj')\napp.conf.update({conf!r})\n"
            "@app.task(name='add')\ndef add(*args, **kwargs): pass\n"
            + textwrap.dedent(body)
        )
        return subprocess.run(
            [sys.executable, "-m", "tests.lean", "-A", "proj", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONWARNINGS": "default"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return invoke


def test_migrate_makes_the_tables_and_says_so_again(
    celery: Celery, empty_dsn: str
) -> None:
    """The first time each step is told, the second time that nothing is to do."""
    first = celery("pecker", "migrate", pecker_dsn=empty_dsn, pecker_schema="jobs")
    assert first.returncode == 0, first.stderr
    assert "✓ 0016 first_version" in first.stdout
    again = celery("pecker", "migrate", pecker_dsn=empty_dsn, pecker_schema="jobs")
    assert again.returncode == 0
    assert again.stdout == f"schema 'jobs' is at step {LATEST}\n"
    database = Database(empty_dsn, schema="jobs", timeout=5.0)
    check_schema(database, app="proj")
    database.close()


def test_sql_prints_what_a_dba_runs_and_touches_nothing(celery: Celery) -> None:
    """The server need not be there; nothing but SQL is printed."""
    done = celery("pecker", "migrate", "--sql", "--after=0", pecker_dsn=NONE_THERE)
    assert (done.returncode, done.stdout) == (0, script("public"))


@pytest.mark.parametrize("command", ["migrate", "tasks"])
@pytest.mark.parametrize(
    ("conf", "words", "code"),
    [
        ({}, ["pecker_dsn is not set", "postgresql://"], 1),
        ({"pecker_dsn": NONE_THERE}, ["127.0.0.1", "refused"], 3),
        ({"pecker_dsn": OTHER_DRIVER}, ["'+driver' is to be left out"], 1),
    ],
)
def test_what_is_wrong_is_one_line(
    celery: Celery, command: str, conf: dict[str, Any], words: list[str], code: int
) -> None:
    """An exit code for scripts and a sentence for people; no traceback, no password."""
    done = celery("pecker", command, **conf)
    assert done.returncode == code
    [line] = done.stderr.splitlines()
    assert not [word for word in ["Error: ", *words] if word not in line], line
    assert "s3cret" not in done.stdout + done.stderr


def test_two_different_entries_of_one_name_are_refused(celery: Celery) -> None:
    """Celery lets the second silently replace the first."""
    body = """
    @app.on_after_finalize.connect
    def declare(sender, **_):
        sender.add_periodic_task(30.0, add.s(1), name='sweep')
        sender.add_periodic_task(30.0, add.s(2), name='sweep')
    """
    done = celery(*BEAT, body=body, **beat_conf())
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "Error: beat_schedule has two different entries named 'sweep'" in last


BEAT = ("beat", "-S", "pecker", "--pidfile=", "-l", "INFO")


def beat_conf(**conf: Any) -> dict[str, Any]:
    """Return what beat needs to get as far as its schedule, and no further."""
    return {
        "broker_url": f"redis://127.0.0.1:{free_port()}",
        "pecker_dsn": NONE_THERE.replace("nowhere", "nowhere?connect_timeout=2"),
        **conf,
    }


def test_the_same_entry_declared_again_is_no_second_one(
    celery: Celery, dsn: str
) -> None:
    """A module that is imported twice; a list for a tuple; a new equal schedule.

    It gets as far as the schema, which is another app's: that it is told.
    """
    run(dsn, "insert into pecker_owner (app) values ('other')")
    body = """
    class Own(schedule):
        def is_due(self, last): return False, 60

    app.conf.beat_schedule = {
        'sweep': {'task': 'add', 'schedule': crontab(minute=5), 'args': [1, 2]},
    }
    @app.on_after_finalize.connect
    def declare(sender, **_):
        sender.add_periodic_task(crontab(minute=5), add.s(1, 2), name='sweep')
        for _ in range(2):
            sender.add_periodic_task(30, add.s(x=1), name='other', queue='a')
            sender.add_periodic_task(Own(5), add.s(), name='own')
    """
    done = celery(*BEAT, body=body, **beat_conf(pecker_dsn=dsn))
    assert "belongs to app 'other'" in done.stderr.splitlines()[-1]


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a gate that is nowhere": (
        {"pecker_gate": "proj.gates:none"},
        ["pecker_gate", "'proj.gates:none'", "dotted path"],
    ),
    "another isolation": (
        {"options": "-c default_transaction_isolation=serializable"},
        ["pecker_dsn", "'serializable'", "'read committed'"],
    ),
    "another app's schema": (
        {"pecker_app": "billing"},
        ["'public'", "'shop'", "'billing'", "pecker_schema"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_ends_beat_and_the_last_line_says_why(
    celery: Celery, dsn: str, case: str
) -> None:
    """Setting, value, what is allowed; more of them in tests/chaos/test_refusals.py."""
    conf, words = REFUSED[case]
    run(dsn, "insert into pecker_owner (app) values ('shop')")
    given = {"pecker_app": "shop", "result_expires": None, **conf}
    address = make_conninfo(dsn, options=given.pop("options", None))
    done = celery(*BEAT, **beat_conf(pecker_dsn=address, **given))
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert not [word for word in ["Error: ", *words] if word not in last], last

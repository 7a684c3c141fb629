"""A database scheduler of the app's own, twice: each slot is sent once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg.conninfo import conninfo_to_dict

from celery_pecker.testing import eventually
from tests.integration.cli.test_other_schedulers_read import need

pytestmark = pytest.mark.cluster

SETTINGS = """
import django
from django.conf import settings
if not settings.configured:
    settings.configure(
        INSTALLED_APPS=["django_celery_beat"], SECRET_KEY="x", USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        DATABASES={{"default": {database!r}}},
    )
    django.setup()
from celery import Celery
app = Celery("proj", broker={url!r})
app.conf.pecker_dsn = {dsn!r}
app.conf.result_expires = None
app.conf.beat_scheduler = {scheduler!r}
"""
ROWS = """
import proj
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django_celery_beat.models import IntervalSchedule, PeriodicTask
second = IntervalSchedule.objects.create(every=1, period="seconds")
for name, options in {"each": {}, "once": {"one_off": True}}.items():
    PeriodicTask.objects.create(name=name, task="work", interval=second, **options)
"""
CLAIMS = """
create table claims (name text, slot timestamptz, unique (name, slot));
create function note_claim() returns trigger language plpgsql as
    'begin insert into claims values (new.name, new.executed_at); return null; end';
create trigger note_claim after update on pecker_tasks for each row
    when (new.epoch > old.epoch) execute function note_claim()
"""
"""Notes each slot that is taken; one that is taken twice fails."""
WITHIN = 150.0
"""Seconds of each wait: a start of Django and Celery takes five on a quiet machine, and
more than a minute where others have the cores."""
DATABASE = "django_celery_beat.schedulers:DatabaseScheduler"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a beat; ask again, as Python drops what a handler raises in a finalizer."""
    for _ in range(12):
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5.0)
            return
    process.kill()
    process.wait(5.0)


class Bridges:
    """Processes of one project."""

    def __init__(self, folder: Path, client: redis.Redis) -> None:
        self._folder = folder
        self._redis = client

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the project's folder, to its end."""
        return subprocess.run(
            [sys.executable, "-W", "ignore", *words],
            cwd=self._folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )

    @contextmanager
    def beat(self, which: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a beat for as long as the block; its log is a file of that name."""
        words = ("-A", "proj", "beat", "-S", which, "--pidfile=", "-l", "INFO")
        with (self._folder / "beat.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "celery", *words],
                cwd=self._folder,
                env=self._env,
                stderr=log,
                stdout=log,
            )
        try:
            yield process
        finally:
            _end(process)

    @property
    def _env(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self._folder)}

    @property
    def log(self) -> str:
        """What the beats wrote."""
        return (self._folder / "beat.log").read_text()

    @property
    def sent(self) -> Counter[str]:
        """How many messages of each row there are."""
        messages = self._redis.lrange("celery", 0, -1)
        assert isinstance(messages, list)
        headers = [json.loads(one)["headers"] for one in messages]
        return Counter(one["periodic_task_name"] for one in headers)


@pytest.fixture
def bridges(tmp_path: Path, dsn: str, redis_url: str) -> Iterator[Bridges]:
    """Give a project with django-celery-beat, a row of each second and one of one."""
    need("django_celery_beat")
    address = conninfo_to_dict(dsn)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password"}
    names |= {"HOST": "host", "PORT": "port"}
    database = {key: str(address.get(name) or "") for key, name in names.items()}
    database["ENGINE"] = "django.db.backends.postgresql"
    text = SETTINGS.format(
        database=database, url=redis_url, dsn=dsn, scheduler=DATABASE
    )
    (tmp_path / "proj.py").write_text(text)
    with redis.Redis.from_url(redis_url) as client:
        made = Bridges(tmp_path, client)
        done = made.run("-c", ROWS)
        assert not done.returncode, done.stderr
        yield made


def test_each_slot_of_a_row_is_sent_by_one_process(bridges: Bridges, dsn: str) -> None:
    """Two, of which one is killed; a row of one run has one.

    Both ends of processes may fall between taking and sending, or between sending and
    what the row says of it: each process goes on from the row's count of runs.
    """
    with psycopg.connect(dsn) as connection:
        connection.execute(CLAIMS)
    with bridges.beat("pecker_bridge") as first, bridges.beat("pecker_bridge"):
        eventually(lambda: bridges.log.count("pecker: bridge to") == 2, WITHIN)
        eventually(lambda: bridges.sent["each"] >= 4, WITHIN, "slots of two")
        first.send_signal(signal.SIGKILL)
        first.wait()
        before = bridges.sent["each"]
        eventually(lambda: bridges.sent["each"] >= before + 4, WITHIN, "slots of one")
    with psycopg.connect(dsn) as connection:
        [(holders, slots)] = connection.execute(
            "select (select count(*) from pecker_replicas),"
            " (select count(*) from claims where name = 'each')"
        ).fetchall()
    sent = bridges.sent
    assert (holders, sent["once"]) == (2, 1)
    assert slots - 2 <= sent["each"] <= slots
    counted = int(bridges.run("-c", COUNT).stdout)
    assert sent["each"] - 2 <= counted <= slots


def test_a_scheduler_that_is_not_ours_is_named(bridges: Bridges) -> None:
    """All of its jobs would stop without a word: the log and doctor say so."""
    assert not bridges.run("-m", "celery", "-A", "proj", "pecker", "migrate").returncode
    with bridges.beat("pecker"):
        eventually(lambda: "pecker: ready" in bridges.log, WITHIN)
    line = f"pecker: beat_scheduler is {DATABASE}: what that stores is not run here"
    assert bridges.log.count(line) == 1
    found = bridges.run("-m", "celery", "-A", "proj", "pecker", "doctor").stdout
    assert f"beat_scheduler: {DATABASE}" in found


def test_a_bridge_needs_a_scheduler_that_stores(bridges: Bridges) -> None:
    """With Celery's own the start is refused, in one line."""
    script = (
        "import proj; proj.app.conf.beat_scheduler = 'pecker';"
        " proj.app.start(['beat', '-S', 'pecker_bridge', '--pidfile='])"
    )
    done = bridges.run("-c", script)
    assert done.returncode == 1
    assert "beat_scheduler is 'pecker'; allowed with -S pecker_bridge" in done.stderr


COUNT = """
import proj
from django_celery_beat.models import PeriodicTask
print(PeriodicTask.objects.get(name="each").total_run_count)
"""

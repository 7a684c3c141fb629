"""A ledger belongs to one thread and one process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import psycopg
from celery import Celery

from celery_pecker.kernel.settings import Settings
from celery_pecker.testing import eventually
from celery_sharding.ledger import Ledger, at, ledger_of_thread
from tests.told import telling

FORKED = """
import os, sys, threading, warnings
from tests.told import told
from celery_pecker.kernel.settings import Settings
from celery_sharding.ledger import ledger_of_thread

warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside a thread
settings = Settings(dsn=told()[0], app="test")

def backend(ledger):
    with ledger.database._connected().cursor() as cursor:
        return cursor.execute("select pg_backend_pid()").fetchone()[0]

mine = ledger_of_thread(settings)
parents = backend(mine)
threads = []
held, over = threading.Event(), threading.Event()

def another():
    threads.append(backend(ledger_of_thread(settings)))
    held.set()
    over.wait()
    mine = backend(ledger_of_thread(settings))
    assert mine == threads[0], "the fork ended a connection"

thread = threading.Thread(target=another)
thread.start()
held.wait()
pid = os.fork()
if not pid:
    own = ledger_of_thread(settings)
    assert own is not mine
    assert not mine.database.connected, "the parent's is let go"
    assert backend(own) not in (parents, *threads)
    del own
    sys.exit(0)  # as a process ends that runs what is to run at exit
assert os.waitpid(pid, 0)[1] == 0
assert ledger_of_thread(settings) is mine
assert backend(mine) == parents, "the fork ended its parent's connection"
over.set()
thread.join()
mine.close()
"""


def test_a_fork_has_a_connection_of_its_own(dsn: str) -> None:
    """And neither its life nor its end touches those of its parent's threads."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        env=telling(dsn),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=os.getcwd(),  # noqa: PTH109  # where the packages lie
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_thread_has_one_for_each_role_and_place(settings: Settings) -> None:
    """It is the same each time it is asked for, and nobody else's."""
    other = Settings(dsn=settings.dsn, app="test", schema="other")
    mine = [
        ledger_of_thread(settings),
        ledger_of_thread(settings, role="caller"),
        ledger_of_thread(other),
    ]
    assert len({id(one) for one in mine}) == 3
    assert ledger_of_thread(settings) is mine[0]
    theirs: list[Ledger] = []
    thread = threading.Thread(target=lambda: theirs.append(ledger_of_thread(settings)))
    thread.start()
    thread.join()
    assert theirs[0] not in mine


def test_the_end_of_a_thread_is_that_of_its_connection(
    dsn: str, settings: Settings
) -> None:
    """Nobody has to close it; a pool of threads comes and goes."""
    seen: list[bool] = []

    def use() -> None:
        ledger_of_thread(settings, role="passing").submissions.reached("nobody", {})
        seen.append(connections(dsn, "celery_sharding:passing") == 1)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert seen == [True]
    eventually(lambda: connections(dsn, "celery_sharding:passing") == 0)


def test_an_app_says_where_its_ledger_is(settings: Settings) -> None:
    """Its settings are read once."""
    with Celery("test", set_as_current=False) as app:
        app.conf.pecker_dsn = settings.dsn
        ledger = at(app)
        assert at(app) is ledger
        assert ledger.plans.begin("nobody", "host:1:a", 1.0) is None
        ledger.close()


def connections(dsn: str, name: str) -> int:
    """Return how many connections of that name there are."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        ((count,),) = connection.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and application_name = %s",
            (name,),
        ).fetchall()
    return int(count)

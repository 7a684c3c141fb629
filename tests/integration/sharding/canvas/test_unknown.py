"""A call whose answer is lost: one job, or an error that says that it may run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.testing import eventually
from celery_sharding import ShardedTask, SubmissionUnknown

Messages = Callable[[], list[dict[str, Any]]]
Rows = Callable[[str], list[tuple[Any, ...]]]

JOBS = "select task_id from pecker_jobs"
WAITING = """
    select count(*) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
        and query like '%%submit_job%%'
"""
END = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
        and query like '%%submit_job%%'
    order by query_start limit 1
"""


@pytest.fixture(autouse=True)
def _short(app: Celery) -> None:
    """Statements are given up after a moment."""
    app.conf.pecker_database_timeout = 0.5


@contextmanager
def locked(dsn: str, *, until_waiting: int = 0, ended: bool = False) -> Iterator[None]:
    """No job can be written inside, or until so many statements wait to do it.

    ``ended``: the one that waited longest is ended before.
    """
    with (
        psycopg.connect(dsn) as lock,
        psycopg.connect(dsn, autocommit=True) as look,
    ):
        lock.execute("lock table pecker_jobs in exclusive mode")

        def waiting() -> bool:
            ((count,),) = look.execute(WAITING).fetchall()
            return int(count) >= until_waiting

        def release() -> None:
            eventually(waiting, 30.0, "statements wait")
            if ended:
                look.execute(END)
            lock.rollback()

        thread = threading.Thread(target=release)
        if until_waiting:
            thread.start()
        try:
            yield
        finally:
            lock.rollback() if not until_waiting else thread.join()


def test_an_answer_that_is_lost_once_is_asked_for_again(
    app: Celery, dsn: str, task: ShardedTask, rows: Rows, messages: Messages
) -> None:
    """The statement that was given up is done, too: there is one job."""
    app.conf.pecker_database_timeout = 2.0
    with locked(dsn, until_waiting=2):
        result = task.delay([1, 2])
    assert rows(JOBS) == [(result.id,)]
    assert [one["headers"]["id"] for one in messages()] == [result.id]


def test_a_job_that_may_stand_is_called_unknown_and_can_be_called_again(
    dsn: str, task: ShardedTask, rows: Rows, messages: Messages
) -> None:
    """It stands when the server goes on; with its id a second call is the same job."""
    with locked(dsn), pytest.raises(SubmissionUnknown, match="it may run") as caught:
        task.delay([1, 2])
    own = caught.value.task_id
    assert own
    assert own in str(caught.value)
    assert messages() == []
    eventually(lambda: rows(JOBS) == [(own,)], 30.0, "it stands")
    assert task.apply_async(([1, 2],), task_id=own).id == own
    assert rows(JOBS) == [(own,)]
    assert [one["headers"]["id"] for one in messages()] == [own]


def test_a_job_that_stood_before_its_call_is_sent_by_the_sweeper(
    app: Celery, dsn: str, task: ShardedTask, rows: Rows
) -> None:
    """Nothing withdraws it: the statement that was given up may be done yet."""
    app.conf.update(broker_url="redis://127.0.0.1:1/0", pecker_database_timeout=2.0)
    with locked(dsn, until_waiting=2, ended=True):
        result = task.delay([1, 2])
    assert rows(JOBS) == [(result.id,)]


def test_a_job_that_cannot_be_withdrawn_is_unknown(
    app: Celery, dsn: str, task: ShardedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker did not take it, and the database does not say whether it is gone."""

    def lost(*_: Any, **__: Any) -> None:
        lock.execute("lock table pecker_jobs in exclusive mode")
        message = "nobody is there"
        raise OperationalError(message)

    monkeypatch.setattr(app, "send_task", lost)
    with (
        psycopg.connect(dsn) as lock,
        pytest.raises(SubmissionUnknown, match="it may run"),
    ):
        task.delay([1, 2])


def test_a_database_that_is_not_there_has_no_job(app: Celery, planned: Any) -> None:
    """Nothing was asked, so nothing is unknown."""
    app.conf.pecker_dsn = "postgresql://root@127.0.0.1:1/none"
    with pytest.raises(DatabaseUnavailable) as caught:
        planned.delay(1)
    assert not isinstance(caught.value, SubmissionUnknown)

"""Rows of mode local, run on a worker's own threads: in this process, no broker."""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from celery_pecker.kernel.clock import pause
from celery_pecker.kernel.connections import MAX_CONNECTIONS
from celery_pecker.schedules.local import outbox_runner
from celery_pecker.testing import eventually
from tests.integration.outbox.runners import Hall
from tests.integration.outbox.test_until_done import broken, way_to


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runners see a changed load soon."""
    monkeypatch.setattr(outbox_runner, "LOOK_INTERVAL", 0.05)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Give what hung tasks wait for; open at the end."""
    made = threading.Event()
    yield made
    made.set()


def gone(hall: Hall) -> Callable[[], bool]:
    """Whether no row is left."""
    return lambda: hall.table.rows == 0


def test_what_is_sent_is_run_without_a_broker(hall: Hall) -> None:
    """From `delay()` to the log: Celery's own message, its options and arguments."""

    def mail(self: Any, to: str, *, copies: int) -> None:
        request = self.request
        hall.called.append((to, copies, request.id, request.retries))

    task = hall.task(mail, bind=True, outbox="local", compression="zlib")
    hall.app.conf.update(broker_url="redis://127.0.0.1:1/0")
    result = task.delay("a@example", copies=2)
    assert hall.table.execute("select mode, task_id from pecker_outbox") == [
        (2, result.id)
    ]
    hall.runner(threads=2)
    eventually(gone(hall), 30.0, "it was run")
    assert hall.called == [("a@example", 2, result.id, 0)]
    assert [one[1:] for one in hall.table.done] == [(1, False)]


def test_a_hundred_threads_run_each_row_once(hall: Hall) -> None:
    """Of two workers on one table; each id stands once in the log."""

    def count(number: int) -> None:
        hall.called.append(number)

    task = hall.task(count)
    hall.outbox.settings  # noqa: B018  # as an app has it
    hall.table.execute(
        "insert into pecker_outbox (due_at, mode, task, task_id, exchange, routing_key,"
        " content_type, content_encoding, headers, properties, body, created_at)"
        " select now(), 2, 'count', 'id' || n, '', 'q', 'application/json', 'utf-8',"
        """ format('{"id": "id%%s", "task": "count"}', n), '{}',"""
        " convert_to(format('[[%%s], {}, {}]', n), 'UTF8'), now()"
        " from generate_series(1, %s) as n",
        600,
    )
    assert task.name == "count"
    hall.load(threads=50)
    for _ in range(2):
        hall.runner(threads=50, pause_done=0.0, pause_empty=0.01)
    eventually(gone(hall), 60.0, "all were run")
    assert Counter(hall.called) == Counter(range(1, 601))
    ids = [one[0] for one in hall.table.done]
    assert len(ids) == len(set(ids)) == 600


def test_a_run_waits_for_a_connection_of_its_worker(
    halls: Callable[..., Hall], dsn: str
) -> None:
    """Longer than the database may take: others of this worker have them all."""
    hall = halls(dsn, pecker_database_timeout=1.0)
    connections: Any = hall.service._connections

    def count() -> None:
        hall.called.append(1)

    hall.task(count)
    row = hall.table.add("count", mode=2)
    with ExitStack() as lent:
        for _ in range(MAX_CONNECTIONS):
            lent.enter_context(connections.connection(30.0))
        hall.runner(threads=1)
        eventually(lambda: connections._places._queue, 30.0, "the run waits")
        pause(1.5)
    eventually(gone(hall), 30.0, "it was run")
    assert [one[:2] for one in hall.table.done] == [(row, 1)]


def test_a_handler_that_raises_at_random_holds_no_other_up(hall: Hall) -> None:
    """What fails waits for its hold; in the end each is done once."""
    chance = random.Random(8)
    lock = threading.Lock()

    def flaky() -> None:
        with lock:
            fails = chance.random() < 0.4
        if fails:
            broken()

    hall.task(flaky)
    numbers = [hall.table.add("flaky", mode=2) for _ in range(30)]
    hall.runner(threads=4)

    def all_done() -> bool:
        hall.table.execute(
            "update pecker_outbox set due_at = now(), held_until = now()"
            " where running is null"
        )
        return hall.table.rows == 0

    eventually(all_done, 60.0, "all are done")
    assert sorted(one[0] for one in hall.table.done) == numbers


def test_a_hung_task_keeps_one_thread_and_no_other_task(
    hall: Hall, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    """Another worker runs its row after the hold; its late end changes nothing."""
    hung: list[int] = []

    def hangs() -> None:
        hung.append(1)
        if len(hung) == 1:
            gate.wait(60.0)

    def quick() -> None:
        """It ends at once."""

    hall.task(hangs)
    hall.task(quick)
    number = hall.table.add("hangs", mode=2)
    runner = hall.runner(threads=2)
    eventually(lambda: hung, 30.0, "it hangs")
    for _ in range(5):
        hall.table.add("quick", mode=2)
    eventually(lambda: hall.table.rows == 1, 30.0, "the others are done")
    # A row is gone a moment before its thread is free.
    eventually(lambda: runner.stats()["running"] == 1, 30.0, "one thread is kept")
    hall.table.release()
    eventually(gone(hall), 30.0, "it was run by another thread")
    with caplog.at_level(logging.WARNING):
        gate.set()
        eventually(lambda: runner.busy == 0, 30.0, "the hung one ended")
    assert "a later run has the row" in caplog.text
    assert [one[:2] for one in hall.table.done if one[0] == number] == [(number, 2)]


def test_only_urgent_tasks_run_while_they_are_named(hall: Hall) -> None:
    """Changed while it runs; what waited goes on when the limit is lifted."""

    def urgent() -> None:
        """It is urgent."""

    def slow() -> None:
        """It is not."""

    hall.task(urgent)
    hall.task(slow)
    hall.load(threads=2, only=["urgent"])
    hall.table.add("slow", mode=2)
    hall.table.add("urgent", mode=2)
    hall.runner(threads=2, only=["urgent"])
    eventually(lambda: hall.table.rows == 1, 30.0, "what is urgent is done")
    assert hall.table.execute("select task, attempt from pecker_outbox") == [
        ("slow", None)
    ]
    hall.load(threads=2)
    eventually(gone(hall), 30.0, "the other too")


def test_threads_are_changed_while_it_runs(hall: Hall, gate: threading.Event) -> None:
    """None: nothing is taken; three: three at once."""

    def waits() -> None:
        gate.wait(60.0)

    hall.task(waits)
    for _ in range(5):
        hall.table.add("waits", mode=2)
    runner = hall.runner(threads=0)
    eventually(lambda: runner.stats()["threads"] == 0, 30.0, "the load is known")
    assert runner.busy == 0
    hall.load(threads=3)
    eventually(lambda: runner.busy == 3, 30.0, "three run")
    gate.set()
    eventually(gone(hall), 30.0, "all are done")


def test_rows_of_tasks_that_a_worker_has_not_wait_for_one_that_has(
    halls: Callable[..., Hall], dsn: str
) -> None:
    """Two versions side by side: the older one leaves what it does not know alone."""
    older, newer = halls(dsn), halls(dsn)

    def known() -> None:
        """Both have it."""

    def added() -> None:
        newer.called.append("added")

    older.task(known)
    newer.task(known)
    newer.task(added)
    number = older.table.add("added", mode=2)
    older.table.add("known", mode=2)
    older.runner(threads=1)
    eventually(lambda: older.table.rows == 1, 30.0, "the older ran what it knows")
    assert older.table.row(number)["attempt"] is None
    newer.runner(threads=1)
    eventually(gone(older), 30.0, "the newer ran the other")
    assert newer.called == ["added"]


def test_what_cannot_be_read_is_parked_with_its_error(hall: Hall) -> None:
    """At once: another attempt would read the same."""

    def mail() -> None:
        """It is never called."""

    hall.task(mail)
    hall.table.add("mail", mode=2, body=b"{")
    hall.runner(threads=1)
    eventually(
        lambda: hall.table.execute(
            "select id from pecker_outbox where parked_at is not null"
            " and last_error like 'cannot be read%'"
        ),
        30.0,
        "it is parked",
    )


def test_the_database_goes_away_under_a_runner_and_comes_back(
    halls: Callable[..., Hall], dsn: str
) -> None:
    """Loops never exit by themselves; what ran meanwhile is closed afterwards."""
    with way_to(dsn) as (proxy, address):
        hall = halls(address, table=dsn)
        began = threading.Event()

        def mail() -> None:
            if not began.is_set():
                proxy.refuse()
                began.set()

        hall.task(mail)
        hall.table.add("mail", mode=2)
        hall.runner(threads=1)
        assert began.wait(30.0)
        hall.table.add("mail", mode=2)
        proxy.open()
        eventually(gone(hall), 60.0, "both are done")
        assert [one[1] for one in hall.table.done] == [1, 1]

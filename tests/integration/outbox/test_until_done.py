"""A row of mode until_done lives until its task has succeeded: in a worker's tracer."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from celery.app.task import Context
from celery.exceptions import Ignore
from psycopg.conninfo import make_conninfo

from celery_pecker import deadline
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.outbox import Outbox
from celery_pecker.outbox.runs import service
from celery_pecker.outbox.runs.header import HEADER, RowRef
from celery_pecker.outbox.runs.messages import REVOKED
from celery_pecker.outbox.runs.service import Services
from celery_pecker.worker.run_guards import messages_of
from tests.integration.outbox.runners import Hall
from tests.proxy import Proxy


@contextmanager
def way_to(dsn: str) -> Iterator[tuple[Proxy, str]]:
    """Give a proxy before the database, and the address through it."""
    with psycopg.connect(dsn) as connection:
        place = connection.info.host, connection.info.port
    with Proxy(*place) as proxy:
        yield proxy, make_conninfo(dsn, host="127.0.0.1", port=proxy.port)


def broken(*_: object) -> None:
    """It always fails."""
    message = "no such host"
    raise OSError(message)


def test_a_map_of_such_a_task_is_a_row_until_all_of_it_is_done(hall: Hall) -> None:
    """It is a run of Celery's own task, which calls the other for each item."""
    fails = [True]

    def mail(number: int) -> None:
        hall.called.append(number)
        if number == 2 and fails and fails.pop():
            broken()

    task = hall.task(mail, outbox="until_done")
    task.map([1, 2]).delay()
    task.chunks([(3,), (4,), (5,)], 2).delay()
    assert sorted(hall.run()) == ["RETRY", "SUCCESS", "SUCCESS"]
    assert sorted(hall.called) == [1, 2, 3, 4, 5]
    assert hall.table.rows == 1
    hall.table.release()
    assert hall.run() == ["SUCCESS"]
    assert hall.table.rows == 0


def test_success_deletes_the_row_and_writes_the_log(hall: Hall) -> None:
    """After the result is stored and what follows is sent."""
    rows_at_callback: list[int] = []

    def mail(number: int) -> int:
        return number + 1

    hall.task(mail)
    sent: list[str] = []
    original = hall.app.send_task

    def send_task(name: str, *args: Any, **options: Any) -> Any:
        sent.append(name)
        rows_at_callback.append(hall.table.rows)
        return original(name, *args, **options)

    hall.app.send_task = send_task  # type: ignore[method-assign]  # a witness
    number = hall.table.add("mail", 1)
    [(headers, body)] = hall.push()
    body = body.replace(
        b"{}]", b'{"callbacks": [{"task": "mail", "args": [], "options": {}}]}]'
    )
    assert hall.deliver((headers, body)) == ("SUCCESS", 2)
    assert (sent, rows_at_callback) == (["mail"], [1])
    assert hall.table.rows == 0
    assert hall.table.done == [(number, 1, False)]


def test_a_failure_waits_for_its_hold_and_is_a_retry_for_celery(hall: Hall) -> None:
    """Nobody's get() fails before the last attempt; that one parks the row."""
    hall.task(broken, outbox_attempts=3)
    number = hall.table.add("broken")
    states = []
    for _ in range(3):
        states += hall.run()
        assert hall.run() == [], "held"
        hall.table.release()
    assert states == ["RETRY", "RETRY", "FAILURE"]
    row = hall.table.row(number)
    assert (row["attempt"], row["last_error"]) == (3, "OSError('no such host')")
    assert row["parked_at"] is not None
    assert hall.run() == []
    assert hall.table.done == []


def test_a_message_that_comes_twice_or_late_starts_nothing(hall: Hall) -> None:
    """While the run goes on, after it failed, and when the row is gone."""
    inside: list[str] = []
    copies: list[Any] = []

    def mail(fails: bool) -> None:
        hall.called.append(fails)
        if len(hall.called) == 1:
            inside.append(hall.deliver(copies[0])[0])
            broken()

    hall.task(mail)
    hall.table.add("mail", True)
    copies += hall.push()
    assert hall.deliver(copies[0])[0] == "RETRY"
    assert hall.deliver(copies[0])[0] == "IGNORED"
    hall.table.release()
    copies += hall.push()
    assert hall.deliver(copies[0])[0] == "IGNORED", "it names an older epoch"
    assert hall.deliver(copies[1])[0] == "SUCCESS"
    assert hall.deliver(copies[1])[0] == "IGNORED"
    assert inside == ["IGNORED"]
    assert hall.called == [True, True]


def test_the_emergency_completes_what_failed_five_times(hall: Hall) -> None:
    """In the run of the fifth failure; then the task is done."""
    marked: list[Any] = []
    mail = hall.task(broken)

    @mail.emergency(after=5)
    def unsendable(*args: Any, **kwargs: Any) -> str:
        marked.append((args, kwargs))
        return "told the sender"

    number = hall.table.add("broken", "to@example")
    for state in ["RETRY"] * 4 + ["SUCCESS"]:
        assert marked == []
        assert hall.run() == [state]
        hall.table.release()
    assert marked == [(("to@example",), {})]
    assert hall.table.done == [(number, 5, True)]
    assert hall.table.rows == 0


def test_an_emergency_that_fails_is_tried_instead_of_the_task(hall: Hall) -> None:
    """So is one for a task whose runs never reported their end."""

    def mail() -> None:
        hall.called.append("task")
        broken()

    task = hall.task(mail, outbox_attempts=4)

    @task.emergency(after=2)
    def unsendable() -> None:
        hall.called.append("emergency")
        if hall.called.count("emergency") < 2:
            broken()

    number = hall.table.add("mail")
    hall.run()  # the first failure
    hall.table.release()
    hall.run()  # the second, and the emergency fails too
    hall.table.release()
    assert hall.run() == ["SUCCESS"]
    assert hall.called == ["task", "task", "emergency", "emergency"]
    assert hall.table.done == [(number, 3, True)]


def test_a_run_ends_at_its_deadline_inside_of_its_hold(hall: Hall) -> None:
    """With a timeout of its own, or with what the hold has room for."""

    def hangs() -> None:
        left = deadline.remaining()
        assert left is not None
        hall.called.append(left)

    hall.task(hangs)
    hall.table.add("hangs")
    hall.run()
    assert 0 < hall.called[0] <= 20.0 * 0.9


def test_what_outlives_its_deadline_has_failed(hall: Hall) -> None:
    """Its emergency is left to the next attempt, which has time."""

    def hangs() -> None:
        while True:
            deadline.check()

    task = hall.task(hangs, timeout=0.05)
    task.emergency(1)(lambda: hall.called.append("emergency"))
    number = hall.table.add("hangs")
    assert hall.run() == ["RETRY"]
    assert "DeadlineExceeded" in hall.table.row(number)["last_error"]
    hall.table.release()
    assert hall.run() == ["SUCCESS"]
    assert hall.called == ["emergency"]


def test_retry_of_the_task_is_left_to_the_row(hall: Hall) -> None:
    """No message is sent; autoretry neither. What failed is what is told."""

    def again(self: Any) -> None:
        hall.called.append(self.request.retries)
        try:
            broken()
        except OSError as error:
            raise self.retry(exc=error, countdown=1) from error

    hall.task(again, bind=True)
    hall.task(broken, autoretry_for=(OSError,))
    numbers = [hall.table.add("again"), hall.table.add("broken")]
    for _ in range(2):
        assert hall.run() == ["RETRY", "RETRY"]
        hall.table.release()
    assert hall.called == [0, 1], "request.retries counts the attempts"
    for number in numbers:
        assert hall.table.row(number)["last_error"] == "OSError('no such host')"


def test_a_task_that_ignores_itself_is_done(hall: Hall) -> None:
    """As everywhere in Celery."""

    def ignores() -> None:
        raise Ignore

    hall.task(ignores)
    hall.table.add("ignores")
    assert hall.run() == ["IGNORED"]
    assert hall.table.rows == 0


def test_headers_that_are_handed_on_make_no_new_run(hall: Hall) -> None:
    """A subtask with the headers of its sender is a task like others."""

    def sub() -> str:
        return "ran"

    hall.task(sub)
    hall.table.add("sub")
    [(headers, body)] = hall.push()
    assert hall.deliver(({**headers, "id": "another"}, body)) == ("SUCCESS", "ran")
    assert hall.table.rows == 1


def test_no_run_starts_without_an_answer_and_none_is_lost(
    halls: Callable[..., Hall], dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The message is dropped; the row is pushed again, with its attempt unburnt."""
    with way_to(dsn) as (proxy, address):
        hall = halls(address, table=dsn)

        def mail() -> None:
            """It would be sent."""

        hall.task(mail)
        number = hall.table.add("mail")
        [message] = hall.push()
        proxy.refuse()
        with caplog.at_level(logging.INFO):
            assert hall.deliver(message)[0] == "IGNORED"
        assert "is not started: unknown" in caplog.text
        assert hall.table.row(number)["attempt"] is None
        proxy.open()
        hall.table.release()
        assert hall.run() == ["SUCCESS"]
        assert hall.table.rows == 0


def test_the_database_goes_away_in_a_run_and_comes_back(
    halls: Callable[..., Hall], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is written when it is back: the task is not run again for that."""
    with way_to(dsn) as (proxy, address):
        hall = halls(address, table=dsn)

        def mail() -> None:
            hall.called.append(1)
            proxy.refuse()

        hall.task(mail)
        number = hall.table.add("mail")
        monkeypatch.setattr(service, "pause", lambda _seconds: proxy.open())
        assert hall.run() == ["SUCCESS"]
        assert hall.table.done == [(number, 1, False)]
        assert hall.called == [1]


def test_an_end_whose_reply_is_lost_is_written_once(
    halls: Callable[..., Hall], dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second try finds no row: the first one arrived."""
    with way_to(dsn) as (proxy, address):
        hall = halls(address, table=dsn, pecker_database_timeout=0.5)

        def mail() -> None:
            proxy.mute()

        hall.task(mail)
        number = hall.table.add("mail")
        monkeypatch.setattr(service, "pause", lambda _seconds: proxy.open())
        assert hall.run() == ["SUCCESS"]
        assert hall.table.done == [(number, 1, False)]


def test_a_handler_that_raises_at_random_is_done_in_the_end(hall: Hall) -> None:
    """Each row once, whatever failed on the way."""
    chance = random.Random(4)

    def flaky() -> None:
        if chance.random() < 0.5:
            broken()

    hall.task(flaky)
    numbers = {hall.table.add("flaky") for _ in range(12)}
    for _ in range(20):
        hall.run()
        hall.table.release()
    done = [one[0] for one in hall.table.done]
    assert sorted(done) == sorted(numbers)


def test_what_a_task_cannot_say_is_refused_at_the_run(
    halls: Callable[..., Hall], dsn: str
) -> None:
    """The field and the value; each run counts an attempt, and the last one parks."""
    hall = halls(dsn, pecker_outbox_attempts=2)
    hall.task(broken, outbox_attempts=0)
    number = hall.table.add("broken")
    for attempt in (1, 2):
        [message] = hall.push()
        state, error = hall.deliver(message)
        assert state == "FAILURE"
        assert "outbox_attempts is 0" in str(error)
        row = hall.table.row(number)
        assert (row["attempt"], row["running"]) == (attempt, None)
        assert "outbox_attempts is 0" in row["last_error"]
        hall.table.release()
    assert hall.table.row(number)["parked_at"] is not None
    assert hall.push() == []


def test_a_message_of_an_outbox_that_nobody_knows_here_starts_nothing(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    """Its row is in a table that this worker cannot reach; another one may have it.

    A row of the same number in a table that is known is another task's.
    """
    hall.task(broken)
    number = hall.table.add("broken")
    [(headers, body)] = hall.push()
    for headers_of in (
        {HEADER: {**headers[HEADER], "outbox": "eu", "id": number + 1}},
        {"id": "x", HEADER: {**headers[HEADER], "outbox": "eu", "task_id": "x"}},
    ):
        assert hall.deliver(({**headers, **headers_of}, body))[0] == "IGNORED"
        [said] = [one for one in caplog.records if "'eu'" in one.getMessage()]
        assert "is not known to this worker" in said.getMessage()
        assert said.levelno == logging.WARNING
        caplog.clear()
    assert hall.table.row(number)["attempt"] is None


def test_a_row_is_found_where_its_outbox_has_another_name_here(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    """It is run there; its message would be sent, and started nothing, for ever."""

    def mail() -> str:
        return "sent"

    hall.task(mail)
    number = hall.table.add("mail")
    [(headers, body)] = hall.push()
    other = {**headers, HEADER: {**headers[HEADER], "outbox": "eu"}}
    assert hall.deliver((other, body)) == ("SUCCESS", "sent")
    assert "'eu', which has the name 'default' here" in caplog.text
    assert hall.table.done == [(number, 1, False)]
    assert hall.table.rows == 0


def test_a_table_that_does_not_answer_holds_up_no_row_of_another(hall: Hall) -> None:
    """Who looks for a row asks each table; no answer is not that it is not there."""

    def mail() -> str:
        return "sent"

    hall.task(mail)
    away = Outbox(hall.app, dsn="postgresql://127.0.0.1:1/nowhere", name="away")
    settings = {"away": away.settings, "default": hall.settings}
    services = Services(settings.get, lambda: settings)
    hall.table.add("mail")
    [(headers, _)] = hall.push()
    told = headers[HEADER]
    ref = RowRef(told["id"], told["epoch"], "eu", headers["id"])
    found = next(services.of(ref, "mail"))
    assert found is services.named("default")
    with pytest.raises(DatabaseUnavailable):
        next(services.of(replace(ref, task_id="another"), "mail"))
    services.close()


def test_what_is_not_run_is_parked_where_its_outbox_has_another_name_here(
    hall: Hall, caplog: pytest.LogCaptureFixture
) -> None:
    """Revoked: its row is found all the same; one that nobody has is named."""
    hall.task(broken)
    number = hall.table.add("broken")
    [(headers, _)] = hall.push()
    for outbox, task_id in (("eu", "another"), ("eu", headers["id"])):
        told = {**headers[HEADER], "outbox": outbox, "task_id": task_id}
        request = Context({"id": task_id, HEADER: told})
        hall.messages._on_revoked(hall.app.tasks["broken"], request)
    hall.messages._parking.shutdown()
    row = hall.table.row(number)
    assert (row["parked_at"] is not None, row["last_error"]) == (True, REVOKED)
    assert "broken[another] is not started (it was revoked" in caplog.text


def test_a_worker_knows_the_outboxes_of_its_app_by_their_names(hall: Hall) -> None:
    """Each has runs of its own; the one of `pecker_dsn` needs no line of code."""
    Outbox(hall.app, dsn="postgresql://app@eu.example/app", name="eu")
    known = messages_of(hall.app)
    services = [known.service(name) for name in ("default", "eu", "us")]
    assert [one is not None for one in services] == [True, True, False]
    assert services[0] is not services[1]
    assert [*known._services.names()] == ["default", "eu"]

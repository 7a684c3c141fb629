"""A notice is a row until its target has it: none is lost, one may come twice."""

from __future__ import annotations

import json
import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from celery import Celery

from celery_pecker.alarms import Notice
from celery_pecker.alarms.step import HOLD, Sending
from celery_pecker.alarms.tables import LONGEST_REST
from celery_pecker.alarms.targets import read_targets
from celery_pecker.kernel.errors import DatabaseUnavailable, Misconfigured
from celery_pecker.kernel.hidden_settings import hide
from celery_pecker.testing import eventually
from tests.integration.alarms.conftest import INTERVAL, Rows, Starter

Passing = Callable[[float], None]
SILENT = {"silent": {"after": 60.0, "cooldown": 0.0}}
TARGETS = ["log", "duty"]

pytestmark = pytest.mark.filterwarnings(
    "ignore:'imghdr' is deprecated:DeprecationWarning"  # a module that Apprise loads
)


def test_a_survivor_sends_what_a_dead_sender_held(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """After its hold, and not before: the one that holds it may be slow."""
    dead, other = watch(SILENT), watch(SILENT)
    rows.entry("sweep", last=200.0)
    dead.rounds.step()
    assert len(dead.tables.take(TARGETS, hold=HOLD, most=10)) == 2
    assert other.turn() == []
    pass_time(HOLD - 1.0)
    assert other.turn() == []
    pass_time(2.0)
    assert [(one.subject, one.event) for one in other.turn()] == [("sweep", "ringing")]
    assert rows.waiting() == []


def test_one_that_was_taken_over_is_not_closed_by_who_had_it(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """Its epoch has risen: the new sender's row stays until that one has sent it."""
    slow, other = watch(SILENT), watch(SILENT)
    rows.entry("sweep", last=200.0)
    slow.rounds.step()
    old = slow.tables.take(["duty"], hold=HOLD, most=10)
    pass_time(HOLD + 1.0)
    new = other.tables.take(["duty"], hold=HOLD, most=10)
    assert [one.id for one in new] == [one.id for one in old]
    assert not slow.tables.sent(old[0])
    assert ("duty", "ringing") in rows.waiting()
    assert other.tables.sent(new[0])
    assert ("duty", "ringing") not in rows.waiting()


def test_a_recovery_while_the_ringing_is_being_sent_is_sent_after_it(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """It takes the row's place; who sends the old one cannot close the new one."""
    one, other = watch(SILENT), watch(SILENT)
    rows.entry("sweep", last=200.0)
    one.rounds.step()
    [ringing] = one.tables.take(["duty"], hold=HOLD, most=10)
    pass_time(INTERVAL)
    rows.entry("sweep", last=1.0)
    other.rounds.step()
    assert other.tables.take(["duty"], hold=HOLD, most=10) == []  # it is still held
    assert not one.tables.sent(ringing)
    [recovered] = other.tables.take(["duty"], hold=HOLD, most=10)
    assert (ringing.event, recovered.event) == ("ringing", "recovered")


def test_a_newer_notice_has_an_id_of_its_own(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """A target that drops ids it knows must not drop the end of what it has."""
    one = watch(SILENT)
    rows.entry("sweep", last=200.0)
    one.rounds.step()
    [ringing] = one.tables.take(["duty"], hold=HOLD, most=10)
    pass_time(INTERVAL)
    rows.entry("sweep", last=1.0)
    one.rounds.step()
    one.tables.sent(ringing)
    [recovered] = one.tables.take(["duty"], hold=HOLD, most=10)
    assert recovered.event == "recovered"
    assert recovered.id != ringing.id


def test_a_slow_target_gets_nothing_twice(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """Who sends leaves what others may have taken by the time it is sent."""
    got: list[str] = []

    def slow(notice: Notice) -> None:
        got.append(notice.subject)
        pass_time(25.0)
        other.sending.step()

    one, other = watch(SILENT, duty=slow), watch(SILENT)
    for name in "abcd":
        rows.entry(name, last=200.0)
    one.rounds.step()
    one.sending.step()
    pass_time(HOLD)
    other.sending.step()
    assert len(got) >= 2
    assert sorted([*got, *(notice.subject for notice in other.got)]) == [*"abcd"]


def test_a_target_that_hangs_holds_up_no_other(
    watch: Starter, rows: Rows, pass_time: Passing, caplog: pytest.LogCaptureFixture
) -> None:
    """It is given up, and called no more until it has returned; that closes it."""
    hangs, got = threading.Event(), list[Notice]()

    def duty(notice: Notice) -> None:
        assert hangs.wait(60.0)
        got.append(notice)

    one = watch(SILENT, duty=duty, timeout=0.1)
    rows.entry("a", last=200.0)
    rows.entry("b", last=200.0)
    one.turn()
    assert "alarm ringing: silent: a" in caplog.text
    assert "alarm ringing: silent: b" in caplog.text
    assert "did not take a notice, tried again: NotSent: it did not" in caplog.text
    assert rows.waiting() == [("duty", "ringing"), ("duty", "ringing")]
    pass_time(LONGEST_REST)
    one.turn()
    assert [*rows.run("select failures from pecker_alarm_targets where failures > 0")]
    assert rows.run("select max(tries) from pecker_alarm_notices") == [(1,)]
    hangs.set()
    eventually(lambda: len(got) == 1)

    def all_sent() -> bool:
        one.sending.step()
        return rows.waiting() == []

    eventually(all_sent)
    assert sorted(notice.subject for notice in got) == ["a", "b"]


@pytest.mark.parametrize("error", [CancelledError, SystemExit, KeyboardInterrupt])
def test_what_is_no_exception_is_a_failure_of_the_target(
    watch: Starter, rows: Rows, error: type[BaseException]
) -> None:
    """Such as asyncio's CancelledError and gevent's Timeout: they end threads."""

    def duty(_: Notice) -> None:
        raise error

    one = watch(SILENT, duty=duty)
    rows.entry("sweep", last=200.0)
    one.turn()
    [(text,)] = rows.run(
        "select last_error from pecker_alarm_targets where target = 'duty'"
    )
    assert error.__name__ in text
    assert rows.waiting() == [("duty", "ringing")]


def test_what_was_sent_is_closed_when_the_database_is_back(
    watch: Starter, rows: Rows
) -> None:
    """Not sent a second time after its hold."""
    got: list[Notice] = []

    def duty(notice: Notice) -> None:
        got.append(notice)
        rows.run(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )

    one = watch({"silent": {"to": ["duty"]}}, duty=duty)
    rows.entry("sweep", last=200.0)
    one.rounds.step()
    with pytest.raises(DatabaseUnavailable):
        one.sending.step()
    assert ("duty", "ringing") in rows.waiting()
    one.sending.step()
    assert ("duty", "ringing") not in rows.waiting()
    assert len(got) == 1


def test_a_target_that_is_away_rests_and_holds_up_no_other(
    watch: Starter, rows: Rows, pass_time: Passing, caplog: pytest.LogCaptureFixture
) -> None:
    """For longer each time; when it is back it gets the newest of each alarm, once."""
    away, got = [True], list[Notice]()

    def duty(notice: Notice) -> None:
        if away[0]:
            message = "the chat is away"
            raise ConnectionError(message)
        got.append(notice)

    one = watch(SILENT, duty=duty)
    rows.entry("sweep", last=200.0)
    one.turn()
    assert "alarm ringing: silent: sweep" in caplog.text  # the log has it
    failures = [1]
    for _ in range(12):
        pass_time(LONGEST_REST / 4)
        rows.entry("sweep", last=1.0)
        one.turn()
        pass_time(LONGEST_REST / 4)
        rows.entry("sweep", last=200.0)
        one.turn()
        [(count,)] = rows.run(
            "select failures from pecker_alarm_targets where target = 'duty'"
        )
        failures.append(count)
    assert rows.waiting() == [("duty", "ringing")]  # one row, however long it is away
    # 5, 10, 20, … 300 s: 24 looks of 75 s met it a few times, not each time.
    assert failures == sorted(failures)
    assert 5 <= failures[-1] <= 15
    [(error, waits)] = rows.run(
        "select last_error, extract(epoch from next_at - %s)::float8"
        " from pecker_alarm_targets where target = 'duty'",
        rows.ago(0.0),
    )
    assert error == "ConnectionError: the chat is away"
    assert waits <= LONGEST_REST
    away[0] = False
    pass_time(LONGEST_REST)
    one.turn()
    assert [(one.subject, one.event) for one in got] == [("sweep", "ringing")]
    assert rows.waiting() == []
    [(failures_now, next_at)] = rows.run(
        "select failures, next_at from pecker_alarm_targets where target = 'duty'"
    )
    assert (failures_now, next_at) == (0, None)


def test_a_target_that_only_newer_code_knows_waits_for_it(
    watch: Starter, rows: Rows
) -> None:
    """In a rolling deploy old replicas leave its notices to those that have it."""
    old, new = watch(SILENT), watch(SILENT)
    rows.entry("sweep", last=200.0)
    new.rounds.step()
    sent: list[Notice] = []
    Sending(old.tables, {"log": sent.append}).step()
    assert rows.waiting() == [("duty", "ringing")]
    assert [one.event for one in new.turn()] == ["ringing"]


def test_a_clock_that_stepped_back_keeps_no_notice_waiting(
    watch: Starter, rows: Rows, clock: Any
) -> None:
    """What was held until a future that is gone is due."""
    dead, other = watch(SILENT), watch(SILENT)
    rows.entry("sweep", last=200.0)
    dead.rounds.step()
    dead.tables.take(TARGETS, hold=HOLD, most=10)
    clock.step(-86_400.0)
    other.sending.step()
    assert [one.event for one in other.got] == ["ringing"]


@contextmanager
def webhook(status: list[int]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Give the URL of a server that keeps what it is sent, and answers so."""
    got: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        """One request."""

        def do_POST(self) -> None:
            """Keep it."""
            length = int(self.headers["Content-Length"])
            got.append(json.loads(self.rfile.read(length)))
            self.send_response(status[0])
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"json://127.0.0.1:{server.server_address[1]}/hook", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_apprise_sends_over_http_and_what_is_refused_is_sent_again(
    watch: Starter, rows: Rows, pass_time: Passing
) -> None:
    """A real server answers 503, then 200."""
    status = [503]
    with webhook(status) as (url, got):
        target = read_targets({"duty": url})["duty"]
        one = watch(SILENT, duty=target)
        rows.entry("sweep", last=200.0)
        one.turn()
        assert rows.waiting() == [("duty", "ringing")]
        [(error,)] = rows.run(
            "select last_error from pecker_alarm_targets where target = 'duty'"
        )
        assert "127.0.0.1" not in error  # no address in the tables
        status[0] = 200
        pass_time(LONGEST_REST)
        one.turn()
        pass_time(INTERVAL)
        rows.entry("sweep", last=1.0)
        one.turn()
    assert rows.waiting() == []
    assert [one["type"] for one in got] == ["failure", "failure", "success"]
    assert got[-1]["title"] == "celery-pecker: recovered: silent: sweep"
    assert "no slot of it was won for" in got[0]["message"]


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("nothing", "neither; allowed: an Apprise URL"),
        ("nosuch://secret-token/x", "(nosuch://…) is no address of Apprise"),
        ("slack://too-short", "(slack://…) is no address of Apprise"),
        ("tests.nowhere:page", "'tests.nowhere:page', which cannot be imported"),
        ("os.nowhere", "'os.nowhere', which cannot be imported"),
        ("os.sep", "'os.sep', which is '/'; allowed"),
    ],
)
def test_an_address_that_is_none_is_refused(address: str, says: str) -> None:
    """By the name of the target; what may be a secret is not shown."""
    with pytest.raises(Misconfigured) as caught:
        read_targets({"chat": address})
    assert "pecker_alarms_to['chat']" in str(caught.value)
    assert says in str(caught.value)
    assert "secret-token" not in str(caught.value)


def test_celery_masks_addresses_of_targets() -> None:
    """What the page says of `celery report` and `inspect conf`."""
    app = Celery("proj", set_as_current=False)
    app.conf.pecker_alarms_to = {"chat": "slack://abc/def"}
    hide()
    report = app.bugreport()
    assert "pecker_alarms_to: '********'" in report
    assert "abc" not in report

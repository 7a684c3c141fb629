"""What the statements of modes 1 and 2 promise, with the database's clock in hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.runs.header import RowRef
from celery_pecker.outbox.runs.holds import Holds
from celery_pecker.outbox.runs.options import Options
from celery_pecker.outbox.runs.rows import Rows, StartedRun
from celery_pecker.outbox.runs.service import RunService
from tests.integration.outbox.runners import Hall
from tests.integration.outbox.stored import Table

OPTIONS = Options(timeout=None, attempts=3)
MINUTE = timedelta(minutes=1)


class Bench:
    """One table, its clock, and who works on it."""

    def __init__(self, dsn: str, now: datetime) -> None:
        self.now = now
        self.table = Table(dsn)
        self.database = Database(dsn, schema="public", timeout=30.0)
        self.database.now = lambda: self.now
        self.rows = Rows(self.database, Holds(60.0, 240.0))

    def begun(self, number: int, epoch: int = 0) -> StartedRun:
        """Return the run that was started."""
        begun, verdict = self.rows.start(self.table.ref(number, epoch), OPTIONS)
        assert verdict == "started"
        assert begun is not None
        return begun

    def refused(self, number: int, epoch: int = 0) -> str:
        """Return why no run was started."""
        begun, verdict = self.rows.start(self.table.ref(number, epoch), OPTIONS)
        assert begun is None
        return verdict


@pytest.fixture
def bench(dsn: str) -> Iterator[Bench]:
    """Give the table at an instant that is not today's."""
    made = Bench(dsn, datetime(2031, 5, 1, tzinfo=UTC))
    yield made
    made.database.close()


def test_a_push_is_claimed_once_and_burns_no_attempt(bench: Bench) -> None:
    """The row is held for a minute, then two, then four; and that is the cap."""
    number = bench.table.add("a")
    for minutes in (1, 2, 4, 4):
        assert [one.id for one in bench.rows.claim_pushes()] == [number]
        bench.now += MINUTE * minutes - timedelta(seconds=1)
        assert bench.rows.claim_pushes() == []
        bench.now += timedelta(seconds=1)
    row = bench.table.row(number)
    assert (row["attempt"], row["epoch"], row["pushes"]) == (None, None, 4)


def test_what_is_deferred_is_not_pushed_before_its_time(bench: Bench) -> None:
    """At the instant itself it is."""
    bench.table.add("a", due_at=bench.now + MINUTE)
    assert bench.rows.claim_pushes() == []
    bench.now += MINUTE
    assert len(bench.rows.claim_pushes()) == 1


def test_only_urgent_tasks_are_pushed_where_they_are_named(bench: Bench) -> None:
    """And each task has its share of a claim, whatever backlog another has."""
    for number in range(20):
        bench.table.add("backlog", number)
    urgent = bench.table.add("urgent")
    assert [one.id for one in bench.rows.claim_pushes(only=["urgent"])] == [urgent]
    other = bench.table.add("zero")
    claimed = {one.id for one in bench.rows.claim_pushes(most=4)}
    assert other in claimed
    assert 1 < len(claimed) <= 4


def test_the_start_counts_the_attempt_and_holds_the_row(bench: Bench) -> None:
    """2^attempt minutes from the start on, whenever the run fails."""
    number = bench.table.add("a", key="once")
    epoch = 0
    for minutes in (1, 2, 4):
        begun = bench.begun(number, epoch)
        assert begun.hold == minutes * 60
        bench.now += timedelta(seconds=10)
        assert bench.rows.fail(begun.id, begun.epoch, "broken", park=False)
        bench.now += MINUTE * minutes - timedelta(seconds=11)
        assert bench.rows.claim_pushes() == []
        bench.now += timedelta(seconds=1)
        [pushed] = bench.rows.claim_pushes()
        assert pushed.epoch == begun.epoch > epoch
        epoch = pushed.epoch
    row = bench.table.row(number)
    assert (row["attempt"], row["last_error"], row["dedupe_key"]) == (3, "broken", None)


def test_a_message_starts_one_run_however_often_it_comes(bench: Bench) -> None:
    """Nor does one of before the last run."""
    number = bench.table.add("a")
    bench.rows.claim_pushes()
    first = bench.begun(number)
    assert bench.refused(number) == "repeated"
    bench.now += MINUTE
    assert bench.refused(number) == "repeated", "an old message, after the hold"
    second = bench.begun(number, first.epoch)
    assert not bench.rows.end(first, emergency=False), "a newer run has the row"
    assert not bench.rows.fail(first.id, first.epoch, "late", park=True)
    assert bench.rows.end(second, emergency=False)
    assert bench.refused(number, second.epoch) == "gone"
    assert bench.table.done == [(number, 2, False)]


def test_a_run_that_goes_on_is_not_pushed_even_when_moved_by_hand(bench: Bench) -> None:
    """Its hold is its own."""
    number = bench.table.add("a")
    bench.begun(number)
    bench.table.execute("update pecker_outbox set due_at = '2030-01-01'")
    assert bench.rows.claim_pushes() == []
    bench.now += MINUTE
    assert [one.id for one in bench.rows.claim_pushes()] == [number]


def test_the_last_attempt_that_ends_without_a_word_is_parked(bench: Bench) -> None:
    """By the next message: the row is not lost, and nothing runs it."""
    number = bench.table.add("a")
    epoch = 0
    for _ in range(OPTIONS.attempts):
        epoch = bench.begun(number, epoch).epoch
        bench.now += MINUTE * 10
    [pushed] = bench.rows.claim_pushes()
    assert bench.refused(number, pushed.epoch) == "parked"
    row = bench.table.row(number)
    assert row["parked_at"] == bench.now
    assert row["last_error"] == "attempt 3 has not reported its end"
    bench.now += MINUTE * 10
    assert bench.rows.claim_pushes() == []


def test_a_failure_of_the_last_attempt_parks_the_row_with_its_error(
    bench: Bench,
) -> None:
    """Fenced, as all ends."""
    number = bench.table.add("a")
    begun = bench.begun(number)
    assert bench.rows.fail(
        begun.id, begun.epoch, "bad\0 number" + "x" * 9_999, park=True
    )
    row = bench.table.row(number)
    assert row["last_error"].startswith("bad numberxxx")
    assert len(row["last_error"]) <= 2_000
    bench.now += MINUTE * 10
    assert bench.refused(number, begun.epoch) == "repeated"
    assert bench.rows.claim_pushes() == []


def test_a_worker_takes_rows_of_mode_2_under_the_same_rules(bench: Bench) -> None:
    """Of its tasks only; those without an end are parked after the last attempt."""
    bench.table.add("other", mode=2)
    number = bench.table.add("a", mode=2)
    tasks = [("a", OPTIONS), ("b", OPTIONS)]
    for attempt in (1, 2, 3):
        [begun] = bench.rows.take(tasks, 10).begun
        assert (begun.id, begun.task, begun.attempt) == (number, "a", attempt)
        assert bench.rows.take(tasks, 10).begun == []
        bench.now += timedelta(seconds=begun.hold)
    assert bench.rows.take(tasks, 10) == ([], [(number, "a")])
    assert bench.table.row(number)["parked_at"] == bench.now
    assert bench.rows.claim_pushes() == [], "mode 2 needs no message"


def test_a_long_run_is_held_for_longer(bench: Bench) -> None:
    """The hold has room for the task's own timeout."""
    bench.table.add("a", mode=2)
    [begun] = bench.rows.take([("a", Options(timeout=600.0, attempts=3))], 1).begun
    assert begun.hold == 605.0


def test_a_clock_that_stepped_back_does_not_hold_rows_for_that_long(
    bench: Bench,
) -> None:
    """A day; what somebody deferred by hand is left alone."""
    pushed = bench.table.add("a")
    started = bench.table.add("a", mode=2)
    deferred = bench.table.add("a", due_at=bench.now + timedelta(days=30))
    bench.rows.claim_pushes()
    [begun] = bench.rows.take([("a", OPTIONS)], 1).begun
    bench.now -= timedelta(days=1)
    assert bench.rows.mend(5.0) == 2
    assert bench.rows.mend(5.0) == 0
    bench.now += MINUTE
    assert [one.id for one in bench.rows.claim_pushes()] == [pushed]
    [again] = bench.rows.take([("a", OPTIONS)], 1).begun
    assert again.id == started
    assert again.epoch > begun.epoch
    due = bench.table.row(deferred)["due_at"]
    assert due == bench.now + timedelta(days=31) - MINUTE


def test_the_log_keeps_the_newest(bench: Bench) -> None:
    """As many as it was told to, and less than another 64."""
    rows = Rows(bench.database, Holds(60.0, 60.0), log=10)
    for number in range(140):
        bench.table.add("a", number, mode=2)
    for begun in rows.take([("a", OPTIONS)], 1_000).begun:
        assert rows.end(begun, emergency=False)
    assert bench.table.rows == 0
    kept = [one[0] for one in bench.table.done]
    assert len(kept) < 10 + 64
    assert kept == [*range(141 - len(kept), 141)]


def test_a_setting_says_how_many_the_log_keeps(
    halls: Callable[..., Hall], dsn: str
) -> None:
    """None of them with ``pecker_outbox_history = 0``."""
    service = halls(dsn, pecker_outbox_history=0).service
    table = Table(dsn)
    for number in range(140):
        table.add("a", number, mode=2)
    with service._connections.connection(30.0) as database:
        rows = service.rows(database)
        for begun in rows.take([("a", OPTIONS)], 1_000).begun:
            assert rows.end(begun, emergency=False)
    assert table.rows == 0
    assert len(table.done) < 64


def test_claims_and_starts_that_race_have_one_winner(bench: Bench, dsn: str) -> None:
    """Ten at once: of pushes, of messages of one row, and of workers."""
    number = bench.table.add("a")
    bench.table.add("b", mode=2)
    told = bench.table.ref(number)
    databases = [Database(dsn, schema="public", timeout=30.0) for _ in range(10)]
    for one in databases:
        one.now = lambda: bench.now
    all_rows = [Rows(one, Holds(60.0, 240.0)) for one in databases]
    with ThreadPoolExecutor(10) as pool:
        pushed = [*pool.map(lambda rows: rows.claim_pushes(), all_rows)]
        starts = [*pool.map(lambda rows: rows.start(told, OPTIONS), all_rows)]
        taken = [*pool.map(lambda rows: rows.take([("b", OPTIONS)], 1), all_rows)]
    for database in databases:
        database.close()
    assert sum(len(one) for one in pushed) == 1
    assert [verdict for _, verdict in starts].count("started") == 1
    assert sum(len(one.begun) for one in taken) == 1


def test_what_is_read_is_what_was_claimed(bench: Bench) -> None:
    """A row that was parked or started since is left out."""
    kept, parked, started = (bench.table.add("a", n) for n in range(3))
    claimed = bench.rows.claim_pushes()
    bench.begun(started)
    bench.table.execute(
        "update pecker_outbox set parked_at = now() where id = %s", parked
    )
    [message] = bench.rows.read([one[:2] for one in claimed])
    assert (message.id, message.task, message.body) == (kept, "a", b"[[0], {}, {}]")


def test_what_was_run_meanwhile_is_not_parked_and_not_said_to_be(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Celery calls a task revoked, too, that ran and was ended by force."""
    service = RunService(Settings(dsn=bench.table.dsn, app="a", database_timeout=30.0))
    told = bench.table.ref(bench.table.add("a"))
    bench.begun(told.id)
    service.park(told, "a", "it was revoked")
    assert "parked" not in caplog.text
    waits = bench.table.ref(bench.table.add("a"))
    service.park(waits, "a", "it was revoked")
    assert f"a (row {waits.id}) is parked: it was revoked" in caplog.text
    service.close()
    parked = "select id from pecker_outbox where parked_at is not null"
    assert bench.table.execute(parked) == [(waits.id,)]


def test_that_nothing_could_be_parked_is_said_whatever_the_reason(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for the thread that does it: its error would be lost."""
    settings = Settings(
        dsn=bench.table.dsn, app="a", database_timeout=30.0, schema="elsewhere"
    )
    service = RunService(settings)
    service.park(RowRef(1, 0, "default", "any"), "a", "it has expired")
    service.close()
    assert "a (row 1) is not parked" in caplog.text

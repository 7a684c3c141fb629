"""Which runs start, what they are told, and how the deadline ends them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from celery import Task
from celery.exceptions import Retry

from celery_pecker import deadline, runs
from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.kernel.clock import SYSTEM, pause
from celery_pecker.kernel.errors import Overtaken
from celery_pecker.kernel.sql import render, statements
from celery_pecker.runs import headers
from celery_pecker.schedules.engine.model import task_id
from celery_pecker.schedules.history.report import Report
from celery_pecker.testing import eventually
from tests.database_clock import DatabaseClock
from tests.proxy import Proxy

if TYPE_CHECKING:
    from tests.integration.runs.conftest import Bench


def done(bench: Bench) -> tuple[Any, list[Any]]:
    """Return a task, and what its runs see."""
    seen: list[Any] = []

    @bench.task(name="look")
    def look() -> str:
        seen.append((runs.current(), deadline.remaining()))
        return "done"

    return look, seen


# Which start


def test_a_run_starts_once_and_is_told_which_it_is(bench: Bench) -> None:
    """Redelivered, it is refused; so is its copy under the epoch of a reclaim."""
    look, seen = done(bench)
    bench.guard()
    header = bench.claim()

    assert bench.deliver(look, header) == ("SUCCESS", "done")
    assert bench.deliver(look, header)[0] == "IGNORED"
    again = {**header, "epoch": header["epoch"] + 1_000_000}
    assert bench.deliver(look, again)[0] == "IGNORED"

    assert bench.refused == ["repeated", "repeated"]
    assert bench.ended == ["succeeded"]
    ((run, left),) = seen
    assert (run.name, run.epoch, run.attempt) == ("sweep", header["epoch"], 0)
    assert 0 < left <= 5.0
    assert runs.current() is None
    assert bench.fence == (0, 0, header["epoch"])


def test_the_copy_of_a_reclaim_starts_if_it_comes_first(bench: Bench) -> None:
    """Then the first message is the one that is refused."""
    look, _ = done(bench)
    bench.guard()
    header = bench.claim()
    again = {**header, "epoch": header["epoch"] + 1_000_000}

    assert bench.deliver(look, again)[0] == "SUCCESS"
    assert bench.deliver(look, header)[0] == "IGNORED"
    assert bench.refused == ["repeated"]


def test_a_late_run_is_refused(bench: Bench) -> None:
    """By the clock of the database, and written down."""
    look, seen = done(bench)
    bench.guard()

    assert bench.deliver(look, bench.claim(ago=6.0))[0] == "IGNORED"
    assert (bench.refused, seen, bench.fence) == (["late"], [], None)
    eventually(lambda: bench.reports == [Report.REFUSED_LATE], 30.0, "it is written")


def test_a_run_is_refused_once_a_newer_slot_was_claimed(bench: Bench) -> None:
    """Also when the newer one has not started, and may never."""
    look, seen = done(bench)
    bench.guard()
    old = bench.claim()
    new = bench.claim()

    assert bench.deliver(look, old)[0] == "IGNORED"
    assert bench.deliver(look, new)[0] == "SUCCESS"
    assert bench.refused == ["overtaken"]
    assert [run.epoch for run, _ in seen] == [new["epoch"]]


def test_a_copy_that_comes_at_the_same_moment_is_a_repetition(bench: Bench) -> None:
    """Not overtaken: the very run that it is a copy of is the one that runs."""
    look, seen = done(bench)
    bench.guard()
    header = bench.claim()
    run = headers.read(header, schema="public")
    assert run is not None
    start = render(statements()["start_run"], "public")
    with psycopg.connect(bench.dsn) as first, ThreadPoolExecutor(1) as other:
        first.execute(
            start.encode(),
            {
                "now": None,
                "name": run.name,
                "era": run.era,
                "due": run.due_at,
                "attempt": 0,
                "epoch": run.epoch,
                "deadline": run.deadline,
                "asked": False,
                "lock_timeout": "1s",
            },
        )
        copy = other.submit(bench.deliver, look, header)
        eventually(lambda: bench.waits, 30.0, "the copy waits for the row")
        first.commit()
        assert copy.result(30.0)[0] == "IGNORED"
    assert (bench.refused, seen) == (["repeated"], [])


def test_a_slot_does_not_start_again_after_a_younger_one(bench: Bench) -> None:
    """Not under the high epoch of a reclaim either; what was asked for may."""
    look, _ = done(bench)
    bench.guard()
    old = bench.claim(ago=1.0)
    assert bench.deliver(look, old)[0] == "SUCCESS"
    new = bench.claim()
    assert bench.deliver(look, new)[0] == "SUCCESS"

    again = {**old, "epoch": new["epoch"] + 1_000_000}
    assert bench.deliver(look, again)[0] == "IGNORED"
    due = datetime.fromisoformat(old["due_at"]) - timedelta(milliseconds=1)
    asked = {**again, "due_at": due.isoformat(), "asked": True}
    assert bench.deliver(look, asked)[0] == "SUCCESS"


FAR = "9999-12-31T23:59:59+00:00"


@pytest.mark.parametrize(
    "forged",
    [
        {"epoch": 2**62},
        {"due_at": FAR, "deadline": FAR},
        {"due_at": FAR, "deadline": FAR, "asked": True},
        {"due_at": FAR, "deadline": FAR, "epoch": 2**62},
        {"era": 7},
        {"name": "other"},
    ],
    ids=str,
)
@pytest.mark.parametrize("writes", [False, True], ids=["starts", "guards"])
def test_a_slot_that_the_row_has_not_reached_silences_nothing(
    bench: Bench, forged: dict[str, Any], writes: bool
) -> None:
    """Whatever writes to the broker cannot overtake the runs that are still to come."""
    look, seen = done(bench)
    bench.guard()
    header = {**bench.claim(), **forged}
    if writes:
        run = headers.read(header, schema="public")
        assert run is not None
        with psycopg.connect(bench.dsn) as user, pytest.raises(Overtaken):
            run.guard(user)
    else:
        assert bench.deliver(look, header)[0] == "IGNORED"
        assert bench.refused == ["unknown"]
    assert bench.deliver(look, bench.claim())[0] == "SUCCESS"
    assert len(seen) == 1


def test_retries_are_attempts_of_the_same_run(bench: Bench) -> None:
    """They pass; the first attempt does not come again after them."""
    look, seen = done(bench)
    bench.guard()
    header = bench.claim()

    for retries, state in ((0, "SUCCESS"), (1, "SUCCESS"), (1, "IGNORED")):
        assert bench.deliver(look, header, retries=retries)[0] == state
    assert bench.deliver(look, header)[0] == "IGNORED"
    assert [run.attempt for run, _ in seen] == [0, 1]
    assert bench.fence == (0, 1, header["epoch"])


def test_without_a_timeout_nothing_is_asked(bench: Bench) -> None:
    """Nothing listens where this worker's database should be."""
    look, seen = done(bench)
    header = bench.header(datetime.fromisoformat("2026-01-01T00:00:00+00:00"), 7, None)
    bench.guard(dsn="postgresql://nobody@127.0.0.1:1/nothing")

    assert bench.deliver(look, header)[0] == "SUCCESS"
    assert bench.deliver(look, None)[0] == "SUCCESS"
    ((run, left), (nothing, _)) = seen
    assert (run.epoch, run.deadline, left, nothing) == (7, None, None, None)


def test_without_an_answer_nothing_starts(bench: Bench) -> None:
    """Within what is left: the server accepts and never answers."""
    look, seen = done(bench)
    header = bench.claim(ago=4.5)
    with Proxy(*bench.place) as way:
        bench.guard(dsn=bench.by_way_of(way.port), database_timeout=60.0)
        assert bench.deliver(look, bench.claim(ago=0.001))[0] == "SUCCESS"
        header = bench.claim(ago=4.5)
        way.hang()
        begun = SYSTEM.monotonic()
        assert bench.deliver(look, header)[0] == "IGNORED"
        assert SYSTEM.monotonic() - begun < 30.0, "half a second was left, not 60"
    assert bench.refused == ["unknown"]
    assert len(seen) == 1


def test_connections_that_broke_meanwhile_cost_no_run(bench: Bench) -> None:
    """A restarted server, a pooler that closes what is idle."""
    look, seen = done(bench)
    bench.guard()
    assert bench.deliver(look, bench.claim())[0] == "SUCCESS"
    with psycopg.connect(bench.dsn, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'celery_pecker:run'"
            " and datname = current_database()"
        )
    assert bench.deliver(look, bench.claim())[0] == "SUCCESS"
    assert len(seen) == 2


def test_a_clock_that_stepped_after_the_claim(bench: Bench) -> None:
    """Forward: late. Back: it starts, with no more time than it was given."""
    look, seen = done(bench)
    header = bench.claim()
    with DatabaseClock(bench.dsn) as clock:
        bench.guard(dsn=clock.dsn)
        clock.step(timedelta(seconds=60))
        assert bench.deliver(look, header)[0] == "IGNORED"
        clock.step(timedelta(seconds=-120))
        assert bench.deliver(look, header)[0] == "SUCCESS"
    assert bench.refused == ["late"]
    assert 0 < seen[0][1] <= 5.0


def test_a_worker_that_stood_still_after_the_answer(bench: Bench) -> None:
    """It looks at its own clock once more before the user's code is called."""
    look, seen = done(bench)
    guard = bench.guard()
    header = bench.claim(ago=4.9)
    asked = guard._starter.start

    def slowly(*args: Any, **kwargs: Any) -> Any:
        start = asked(*args, **kwargs)
        while SYSTEM.monotonic() < start.ends:
            pause(0.01)
        return start

    guard._starter.start = slowly  # type: ignore[method-assign]
    assert bench.deliver(look, header)[0] == "IGNORED"
    assert (bench.refused, seen) == (["late"], [])


def test_somebody_elses_headers_stop_nobody(bench: Bench) -> None:
    """A subtask that was sent with its parent's headers is no run of the slot."""
    look, seen = done(bench)
    bench.guard()
    header = bench.claim()

    assert bench.deliver(look, header, id="a-subtask")[0] == "SUCCESS"
    assert bench.deliver(look, None, pecker={"name": 3}, id="x")[0] == "SUCCESS"
    assert bench.deliver(look, None, pecker="theirs", id="y")[0] == "SUCCESS"
    assert bench.deliver(look, None, pecker_deadline=[1], id="z")[0] == "SUCCESS"
    nan = {"at": header["due_at"], "left": float("nan")}
    assert bench.deliver(look, None, pecker_deadline=nan)[0] == "SUCCESS"
    assert [run for run, _ in seen] == [None] * 5
    assert bench.deliver(look, header)[0] == "SUCCESS"


def test_a_header_named_headers_hides_nothing(bench: Bench) -> None:
    """The sender's own mapping is what Celery shows as `request.headers`."""
    kept: list[Any] = []

    @bench.task(name="hidden", bind=True)
    def hidden(self: Task[..., Any]) -> None:
        kept.append(self.request.headers)

    bench.guard()
    header = bench.claim()
    theirs = {"tenant": 7}

    assert bench.deliver(hidden, header, headers=theirs)[0] == "SUCCESS"
    assert bench.deliver(hidden, header, headers=theirs)[0] == "IGNORED"
    assert bench.refused == ["repeated"]
    # what a retry takes along
    assert kept == [{"tenant": 7, "pecker": header}]
    assert theirs == {"tenant": 7}


def test_a_message_of_protocol_1_is_guarded(bench: Bench) -> None:
    """Its headers are in `request.headers` and nowhere else."""
    look, _ = done(bench)
    bench.guard()
    header = bench.claim(ago=6.0)
    told = headers.read(header, schema="public")
    assert told is not None
    mine = task_id("public", told.name, told.due_us, told.era)
    state, _ = bench.deliver(look, None, headers={"pecker": header}, id=mine)
    assert (state, bench.refused) == ("IGNORED", ["late"])


# Whatever the task is made of


def test_every_kind_of_task_is_guarded_once(bench: Bench) -> None:
    """Bound, retried by itself, of a class, with a call of its own."""
    seen: list[Any] = []

    def note(*_: Any) -> None:
        seen.append(runs.current())

    class Called(Task[..., Any]):
        abstract = True

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            assert runs.current() is not None
            return super().__call__(*args, **kwargs)

    class OfAClass(Task[..., Any]):
        name = "of_a_class"

        def run(self) -> None:
            note()

    tasks = [
        bench.task(name="bound", bind=True)(note),
        bench.task(name="retried", autoretry_for=(OSError,))(note),
        bench.task(name="called", base=Called)(note),
        bench.app.register_task(OfAClass()),
    ]
    bench.guard()
    bench.guard()
    for task in tasks:
        header = bench.claim()
        assert bench.deliver(task, header)[0] == "SUCCESS", task.name
        assert bench.deliver(task, header)[0] == "IGNORED", task.name
    assert len(seen) == len(tasks)
    assert None not in seen


def test_a_task_that_is_called_is_part_of_the_run(bench: Bench) -> None:
    """As a function, by its own `run`, at once by `apply`: nothing is asked again."""
    seen: list[Any] = []

    @bench.task(name="inner")
    def inner() -> None:
        seen.append(runs.current())

    @bench.task(name="outer", bind=True)
    def outer(self: Any, again: bool = True) -> None:
        seen.append(runs.current())
        inner()
        inner.run()
        inner.apply(headers=self.request.headers)
        if again:
            self.run(again=False)

    bench.guard()
    assert bench.deliver(outer, bench.claim())[0] == "SUCCESS"
    assert len(seen) == 8
    assert len({id(run) for run in seen}) == 1
    assert bench.refused == []


# The end


def test_the_deadline_ends_the_run(bench: Bench) -> None:
    """FAILURE with DeadlineExceeded, also for who catches everything; no retry."""
    stubborn: list[str] = []

    @bench.task(name="slow", autoretry_for=(Exception,), max_retries=3)
    def slow() -> None:
        pause(60.0)

    @bench.task(name="stubborn")
    def swallow() -> str:
        try:
            pause(60.0)
        except TimeoutError:
            stubborn.append("caught")
        return "as if nothing had been"

    bench.guard()
    for task in (slow, swallow):
        begun = SYSTEM.monotonic()
        state, error = bench.deliver(task, bench.claim(ago=4.0))
        assert (state, type(error)) == ("FAILURE", DeadlineExceeded)
        assert SYSTEM.monotonic() - begun < 30.0
    assert stubborn == ["caught"]
    assert bench.sent == [], "no retry"
    assert bench.ended == ["overrun", "overrun"]
    eventually(lambda: bench.reports == [Report.OVERRUN] * 2, 30.0, "it is written")


@pytest.mark.parametrize("tried_again", [(), (ConnectionError,)])
def test_a_strike_that_a_library_took_for_its_own_timeout(
    bench: Bench, tried_again: tuple[type[Exception], ...]
) -> None:
    """As redis-py does; what has nothing to do with the deadline stays what it is."""

    @bench.task(name="masked", autoretry_for=tried_again)
    def masked() -> None:
        try:
            pause(30)
        except TimeoutError as error:
            message = "timeout reading from the socket"
            raise ConnectionError(message) from error

    @bench.task(name="unrelated")
    def unrelated() -> None:
        with deadline.shield(1.0), suppress(DeadlineExceeded):
            while SYSTEM.monotonic() < ends:
                pause(0.01)
        message = "of its own"
        raise ConnectionError(message)

    bench.guard()
    state, error = bench.deliver(masked, bench.claim(ago=4.0))
    assert (state, type(error)) == ("FAILURE", DeadlineExceeded)
    assert (bench.ended, bench.sent) == (["overrun"], [])
    ends = SYSTEM.monotonic() + 0.4
    assert type(bench.deliver(unrelated, bench.claim(ago=4.8))[1]) is ConnectionError


def test_a_shorter_deadline_of_ones_own_is_a_failure_like_others(bench: Bench) -> None:
    """It is no overrun of the run, and `autoretry_for` may retry it."""

    @bench.task(name="picky", bind=True, autoretry_for=(DeadlineExceeded,))
    def picky(self: Any) -> None:
        self.retry = lambda **_: Retry("again")
        with deadline.within(0.0):
            deadline.check()

    bench.guard()
    assert bench.deliver(picky, bench.claim())[0] == "RETRY"
    assert bench.ended == []


def test_a_retry_that_comes_too_late_is_the_end(bench: Bench) -> None:
    """Its message would be refused: the task has failed."""

    @bench.task(name="late", bind=True)
    def late(_self: Any) -> None:
        with deadline.shield(1.0):
            while headers.inherited(None, schema="") is None and (
                SYSTEM.monotonic() < ends
            ):
                pause(0.01)
        message = "again"
        raise Retry(message)

    bench.guard("threads")
    ends = SYSTEM.monotonic() + 0.3
    state, error = bench.deliver(late, bench.claim(ago=4.8))
    assert (state, type(error)) == ("FAILURE", DeadlineExceeded)


@pytest.mark.parametrize("left", [3.0, -1.0])
def test_a_subtask_has_what_its_sender_had_left(bench: Bench, left: float) -> None:
    """Less the way; and it may guard its writes for its run."""
    look, seen = done(bench)
    bench.guard()
    header = bench.claim()
    run = headers.read(header, schema="public")
    assert run is not None
    at = run.due_at + timedelta(seconds=left)
    told = headers.deadline_header(60.0, at, run)

    state, _ = bench.deliver(look, None, pecker_deadline=told)
    if left < 0:
        assert (state, bench.refused, seen) == ("IGNORED", ["late"], [])
        return
    assert state == "SUCCESS"
    ((current, remaining),) = seen
    assert current.inherited
    assert (current.name, current.epoch) == ("sweep", header["epoch"])
    assert 2.0 < remaining <= 3.0


def test_a_part_of_a_chord_that_comes_too_late_fails(bench: Bench) -> None:
    """Refused without a word it would be waited for: Celery asks for ever."""
    look, seen = done(bench)
    bench.guard()
    late = headers.deadline_header(
        1.0, datetime.fromisoformat("2026-01-01T00:00:00+00:00"), None
    )

    state, error = bench.deliver(
        look, None, pecker_deadline=late, chord=look.si(), group="g"
    )
    assert (state, type(error), seen) == ("FAILURE", DeadlineExceeded, [])
    assert bench.refused == ["late"]

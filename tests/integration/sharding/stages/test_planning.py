"""PreProcess runs in one process at a time, and its shards stand or it has failed."""

from __future__ import annotations

import sys
import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from celery import Celery
from celery.exceptions import Ignore, WorkerShutdown

from celery_pecker import deadline
from celery_pecker.kernel.clock import new_tag
from celery_pecker.testing import eventually
from celery_sharding.codec import decode, encode
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.submissions import ITEMS
from celery_sharding.model import Cut, Job, Options
from celery_sharding.plan import stored
from celery_sharding.processor import Processor
from celery_sharding.runner.shard_worker import ShardWorker
from celery_sharding.sources import KeyRange
from celery_sharding.stages import planning
from celery_sharding.stages.planning import plan
from tests.integration.sharding.conftest import Time

Submit = Callable[..., str]
NAME = "proj.import_rows"
LEASE = 1.0


@pytest.fixture(autouse=True)
def _real_time(time: Time) -> None:
    """Planning asks ledgers of its own, whose time is the database's."""
    time.at = None


@pytest.fixture
def app(dsn: str, redis_url: str) -> Iterator[Celery]:
    """Give an app with that ledger and a broker."""
    with Celery(NAME, broker=redis_url, set_as_current=False) as app:
        app.conf.pecker_dsn = dsn
        app.conf.sharding_lease = LEASE
        yield app


def processor(pre_process: Callable[..., Any] | None = None) -> Processor:
    """Return a sharded task's code."""
    return Processor(
        name=NAME, process=print, options=Options(), pre_process=pre_process
    )


def asked(ledger: Ledger, question: str) -> list[tuple[Any, ...]]:
    """Return what the database says."""
    with ledger.database._connected().cursor() as cursor:
        return cursor.execute(question.encode()).fetchall()


def items(ledger: Ledger) -> list[list[Any]]:
    """Return the items of each layer, as they are stored."""
    found: dict[int, list[Any]] = {}
    for layer, body in asked(
        ledger,
        "select layer, body from pecker_items join pecker_shards using (job, shard)"
        " order by shard",
    ):
        found.setdefault(layer, []).extend(decode(body))
    return [found[layer] for layer in sorted(found)]


def stage(ledger: Ledger) -> str:
    """Return where the one job is."""
    ((found,),) = asked(ledger, "select stage from pecker_jobs")
    return str(found)


def reason(ledger: Ledger) -> tuple[str, str]:
    """Return why the one job failed: type and message. Nothing of it is left."""
    assert asked(ledger, "select 1 from pecker_shards") == []
    ((outcome, error),) = asked(ledger, "select outcome, error from pecker_jobs")
    assert (stage(ledger), outcome) == ("delivering", "failed")
    return error["type"], error["message"]


# What it works on


def test_pre_process_gives_the_items(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """It is given the job and the call, and tickets go out for its shards."""
    jobs: list[Job] = []

    def pre_process(job: Job, path: str, *, tenant: str) -> list[list[str]]:
        jobs.append(job)
        return [[path, tenant], ["child"]]

    task_id = submitted(args=("a.csv",), kwargs={"tenant": "t"}, concurrency=4)
    assert plan(app, processor(pre_process), task_id)
    assert (jobs[0].id, jobs[0].task, jobs[0].attempt) == (task_id, NAME, 1)
    assert (jobs[0].args, jobs[0].kwargs) == (("a.csv",), {"tenant": "t"})
    assert items(ledger) == [["a.csv", "t"], ["child"]]
    assert stage(ledger) == "sharding"
    assert {
        state for (state,) in asked(ledger, "select state from pecker_tickets")
    } >= {"sent"}


def test_an_iterator_is_read_once(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """It may be a generator with a file behind it."""

    def pre_process(job: Job) -> Iterator[int]:
        yield from range(10)

    assert plan(app, processor(pre_process), submitted(size=(1, 3)))
    assert items(ledger) == [[*range(10)]]


def test_items_that_were_stored_with_the_call_are_found(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """The call names them; rows that were tuples are items, and no layers."""
    body = encode(stored([(1, "a"), (2, "b")]))
    ledger.submissions.store("ref-1", body, 2)
    assert plan(app, processor(), submitted(args=({ITEMS: "ref-1"},)))
    assert items(ledger) == [[[1, "a"], [2, "b"]]]


def test_items_that_were_purged_fail_the_job(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """They do not come back, however often the job is planned."""
    ledger.submissions.store("ref-1", encode(stored([1])), 1)
    task_id = submitted(args=({ITEMS: "ref-1"},))
    asked(ledger, "delete from pecker_inputs returning ref")
    assert plan(app, processor(), task_id)
    kind, message = reason(ledger)
    assert kind == "InstanceNotFound"
    assert "ref-1" in message


def test_a_source_is_cut_where_it_is(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """No item of it is stored; PreProcess is given it as it was made."""
    given = KeyRange(1, 1_000)
    assert plan(app, processor(), submitted(args=(given,), size=(1, 500)))
    assert items(ledger) == []
    assert asked(ledger, "select total from pecker_jobs") == [(1_000,)]
    met: list[object] = []

    def pre_process(job: Job, keys: KeyRange) -> KeyRange:
        met.append(keys)
        return keys

    assert plan(app, processor(pre_process), submitted(args=(given,)))
    assert isinstance(met[0], KeyRange)


def test_no_items_is_no_failure(app: Celery, ledger: Ledger, submitted: Submit) -> None:
    """Post runs with nothing."""
    assert plan(app, processor(lambda _: []), submitted())
    assert stage(ledger) == "posting"


def test_a_chain_step_that_gives_nothing_to_work_on_is_told_so(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """Neither an argument nor PreProcess: the message names both."""
    assert plan(app, processor(), submitted())
    assert reason(ledger)[0] == "Misconfigured"
    assert "pre_process" in reason(ledger)[1]


# Failure


def raises(error: BaseException) -> None:
    """It is raised."""
    raise error


@pytest.mark.parametrize(
    ("made", "kind", "words"),
    [
        (lambda: None, "Misconfigured", "None was passed or returned"),
        (lambda: [1, object()], "ItemNotSerializable", "item 1 of layer 0"),
        (lambda: 1 / 0, "ZeroDivisionError", "division by zero"),
        (lambda: raises(Ignore()), "JobFailed", "raised Ignore"),
        (lambda: sys.exit(3), "JobFailed", "raised SystemExit: 3"),
        (lambda: raises(CancelledError("by us")), "JobFailed", "CancelledError: by us"),
        (lambda: (1 // (2 - at) for at in range(9)), "ZeroDivisionError", "zero"),
    ],
)
def test_what_pre_process_raises_fails_the_job(
    app: Celery,
    ledger: Ledger,
    submitted: Submit,
    made: Callable[[], object],
    kind: str,
    words: str,
) -> None:
    """In the middle of its items too; nothing is left half-created."""
    assert plan(app, processor(lambda _: made()), submitted(size=(1, 1)))
    found = reason(ledger)
    assert found[0] == kind
    assert words in found[1]


def test_a_worker_that_ends_fails_no_job(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """Its own way out passes, and the job is planned elsewhere once that is due."""

    def pre_process(job: Job) -> None:
        raise WorkerShutdown(0)

    with pytest.raises(WorkerShutdown):
        plan(app, processor(pre_process), submitted())
    assert stage(ledger) == "planning"


def test_what_kills_its_process_is_begun_three_times(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """Then the job has failed, and nobody else dies of it."""
    task_id = submitted()
    for _ in range(3):
        assert ledger.plans.begin(task_id, "dead:1:a", 0.0)
    assert plan(app, processor(lambda _: [1]), task_id)
    kind, message = reason(ledger)
    assert kind == "JobFailed"
    assert "3 times" in message


def test_a_job_that_is_not_planned_by_its_deadline_has_failed(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """PreProcess is bound by it, as items are."""

    def pre_process(job: Job) -> Iterator[int]:
        ticks = threading.Event()
        for at in range(500):
            deadline.check()
            ticks.wait(0.01)
            yield at

    assert plan(app, processor(pre_process), submitted(deadline=0.2))
    assert reason(ledger)[0] == "JobDeadlineExceeded"


# Ended from outside


@pytest.mark.parametrize("how", [{}, {"cut": Cut.HASH}], ids=["contiguous", "hash"])
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_pre_process_of_a_job_that_is_cancelled_is_ended(
    app: Celery,
    ledger: Ledger,
    submitted: Submit,
    caplog: pytest.LogCaptureFixture,
    pool: str,
    how: dict[str, Any],
) -> None:
    """A generator without end in any pool; code that waits, where it can be struck."""
    task_id = submitted(**how)
    for_ever = threading.Event()

    def pre_process(job: Job) -> Iterator[int]:
        ledger.control.cancel(task_id)
        if pool == "prefork":
            for_ever.wait(60)
            for_ever.set()
        while not for_ever.wait(0.001):
            yield 1

    assert not plan(app, processor(pre_process), task_id, ShardWorker("here", pool))
    assert not for_ever.is_set()
    assert asked(ledger, "select outcome from pecker_jobs") == [("cancelled",)]
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


def test_an_iterable_without_end_is_looked_at_as_a_generator_is(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """Such as what a library reads a table with: its class has `__iter__` alone."""
    task_id = submitted()

    class Rows:
        given = 0

        def __iter__(self) -> Iterator[int]:
            ledger.control.cancel(task_id)
            for Rows.given in range(10_000):
                threading.Event().wait(0.001)
                yield 1

    assert not plan(
        app, processor(lambda _: Rows()), task_id, ShardWorker("here", "threads")
    )
    assert Rows.given < 9_999


def test_pre_process_of_a_worker_that_stops_is_for_another(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """At once, and not as if the process had died."""
    worker = ShardWorker("here", "prefork")
    for_ever = threading.Event()

    def pre_process(job: Job) -> list[int]:
        worker.stop()
        for_ever.wait(60)
        for_ever.set()
        return [1]

    task_id = submitted()
    assert not plan(app, processor(pre_process), task_id, worker)
    assert not for_ever.is_set()
    assert plan(app, processor(lambda _: [1, 2]), task_id)
    assert items(ledger) == [[1, 2]]


def test_pre_process_that_waits_is_ended_at_its_deadline(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """Though it asks nobody."""
    for_ever = threading.Event()

    def pre_process(job: Job) -> list[int]:
        for_ever.wait(60)
        for_ever.set()
        return [1]

    assert plan(
        app,
        processor(pre_process),
        submitted(deadline=0.2),
        ShardWorker("here", "prefork"),
    )
    assert not for_ever.is_set()
    assert reason(ledger)[0] == "JobDeadlineExceeded"


@pytest.mark.parametrize("how", [{}, {"cut": Cut.HASH}], ids=["contiguous", "hash"])
def test_a_plan_is_no_larger_than_it_may_be(
    app: Celery,
    ledger: Ledger,
    submitted: Submit,
    how: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An endless generator filled the disk; cut by hash, the memory."""
    monkeypatch.setattr(planning, "PLAN_BYTES", 10_000)
    yielded: list[str] = []

    def pre_process(job: Job) -> Iterator[str]:
        for _ in range(20_000):  # endless, but for a test that is to fail
            yielded.append(new_tag())
            yield yielded[-1]

    assert plan(app, processor(pre_process), submitted(size=(1, 10), **how))
    kind, message = reason(ledger)
    assert kind == "PlanLimitExceeded"
    assert "the 10000 bytes that a plan may have" in message
    assert len(yielded) < 20_000


# One at a time


def test_a_second_message_begins_nothing(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """Neither while the first plans nor afterwards."""
    task_id = submitted()
    again: list[bool] = []

    def pre_process(job: Job) -> list[int]:
        again.append(plan(app, processor(lambda _: [9, 9]), task_id))
        return [1]

    assert plan(app, processor(pre_process), task_id)
    assert not plan(app, processor(pre_process), task_id)
    assert again == [False]
    assert items(ledger) == [[1]]


def test_the_lease_is_kept_while_pre_process_runs(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """However long it takes, and though it asks nobody."""
    ends = "select leased_until from pecker_jobs"

    def pre_process(job: Job) -> list[int]:
        first = asked(ledger, ends)
        eventually(lambda: asked(ledger, ends) > first)
        return [1]

    assert plan(app, processor(pre_process), submitted())
    assert stage(ledger) == "sharding"


def test_who_was_followed_meanwhile_changes_nothing(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """It was frozen over its items: the plan of its successor counts."""
    task_id = submitted()

    def pre_process(job: Job) -> list[int]:
        followed(ledger, task_id)
        return [9, 9, 9]

    assert not plan(app, processor(pre_process), task_id)
    assert stage(ledger) == "planning"
    assert items(ledger) == []


def test_who_was_followed_meanwhile_fails_nothing(
    app: Celery, ledger: Ledger, submitted: Submit
) -> None:
    """What it raises when it wakes is not the job's end."""
    task_id = submitted()

    def pre_process(job: Job) -> list[int]:
        followed(ledger, task_id)
        raise KeyError

    assert not plan(app, processor(pre_process), task_id)
    assert stage(ledger) == "planning"


def followed(ledger: Ledger, task_id: str) -> None:
    """Another plans the job: whoever did was silent for too long."""
    asked(ledger, "update pecker_jobs set leased_until = '-infinity' returning job")
    assert ledger.plans.begin(task_id, "other:2:b", 60.0)


def test_a_ledger_that_is_away_for_a_moment_costs_no_plan(
    app: Celery, ledger: Ledger, submitted: Submit, dsn: str
) -> None:
    """PreProcess took an hour: its items are written at the second try."""
    runs: list[int] = []

    def pre_process(job: Job) -> list[int]:
        runs.append(1)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname ="
                " current_database() and application_name like 'celery_sharding:%'"
            )
        return [1, 2]

    task_id = submitted()
    ledger.close()
    assert plan(app, processor(pre_process), task_id)
    assert len(runs) == 1
    assert items(ledger) == [[1, 2]]

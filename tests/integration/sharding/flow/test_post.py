"""Post's value counts once, and Celery is told it, wherever a process dies."""

from __future__ import annotations

import signal
import threading
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from celery import Celery, states
from celery.exceptions import Ignore

from celery_sharding import (
    JobCancelled,
    JobFailed,
    ShardedTask,
    Sharding,
    flow,
    process,
    stages,
    sweeper,
)
from celery_sharding import stages as posting
from celery_sharding.codec import encode
from celery_sharding.errors import DatabaseUnavailable, ItemNotSerializable
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.base import jsonb
from celery_sharding.messages import WORK
from celery_sharding.model import Outcome, Stage
from celery_sharding.stages import leases
from tests.integration.sharding.conftest import Planner
from tests.integration.sharding.flow.conftest import Lying, Message
from tests.integration.sharding.shift import LEASE, run_job

# redis-py says so of what Celery's backend calls.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex")

TASK = "proj.import_rows"
LAPSED = (
    "update pecker_jobs set leased_until = clock_timestamp() - interval '1 s',"
    " sent_at = clock_timestamp() - interval '30 s'"
)
Deliver = Callable[[Message], Any]
Tell = Callable[..., None]


class Refused(Exception):
    """What Post raises in these tests."""

    def __init__(self, message: str = "no disk", code: int = 28) -> None:
        super().__init__(message, code)


class Story:
    """What happened in Post, and what it is to do."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.then: Callable[[], Any] = lambda: "posted"


@pytest.fixture
def story() -> Story:
    """Give what happens in Post."""
    return Story()


@pytest.fixture
def task(sharding: Sharding, story: Story) -> ShardedTask:
    """Give the sharded task, with a Post that tells."""

    @sharding.task(name=TASK)
    def import_rows(shard: Any) -> None:
        del shard

    @import_rows.post_process
    def post(job: Any, results: Any, errors: Any) -> Any:
        told = {
            "attempt": job.attempt,
            "run": job.run,
            "results": sorted(results),
            "errors": [(one.place, one.message) for one in errors],
        }
        story.calls.append(told)
        return story.then()

    return import_rows


@pytest.fixture
def next_step(app: Celery) -> str:
    """Give the name of a task that follows."""

    @app.task(name="proj.next", shared=False)
    def follow(value: Any) -> Any:
        return value

    return str(follow.name)


@pytest.fixture
def job(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, next_step: str
) -> str:
    """Give a job whose items have ended, two well and one badly; its message waits."""
    ready = planned(((2, 1),))
    chain: list[dict[str, Any]] = [
        {
            "task": next_step,
            "args": [],
            "kwargs": {},
            "options": {"task_id": "the-next"},
            "subtask_type": None,
            "immutable": False,
        }
    ]
    ledger.database._connected().execute(
        "update pecker_jobs set continuation = %s", (jsonb({"chain": chain}),)
    )
    run_job(ledger, ready.job, {(0, 1)})
    flow.advance_job(app, ledger, ready.job)
    return ready.task_id


@dataclass(frozen=True, slots=True)
class Scene:
    """A job before its Post, and hands to move it."""

    app: Celery
    task: ShardedTask
    story: Story
    job: str
    lying: Lying
    deliver: Deliver
    tell: Tell


@pytest.fixture
def scene(request: pytest.FixtureRequest) -> Scene:
    """Give a job whose items have ended; its message waits."""
    return Scene(*(request.getfixturevalue(one) for one in Scene.__dataclass_fields__))


def number(ledger: Ledger, task_id: str) -> int:
    """Return a job's number."""
    return ledger.reading.job(task_id).job


def stage(app: Celery, task_id: str) -> Stage:
    """Return where the job is."""
    stands = at(app).outcomes.stage_of(task_id)
    assert stands is not None
    return stands[0]


def test_post_has_all_results_and_errors_and_celery_goes_on(scene: Scene) -> None:
    """The value is the task's result, and the next step of its chain gets it."""
    [message] = scene.lying()
    assert scene.deliver(message) == "posted"
    [call] = scene.story.calls
    assert call["results"] == [[0, 0], [1, 0]]
    assert call["errors"] == [(1, "bad row")]
    assert scene.app.AsyncResult(scene.job).get() == "posted"
    [following] = scene.lying()
    assert (following.task, following.id, following.args) == (
        "proj.next",
        "the-next",
        ["posted"],
    )
    assert stage(scene.app, scene.job) is Stage.ENDED


def test_a_message_that_comes_twice_posts_once(scene: Scene) -> None:
    """Whether the job has ended, or is at it."""
    [message] = scene.lying()
    scene.story.then = lambda: scene.deliver(message)  # a copy comes in the middle
    assert scene.deliver(message) is None
    assert len(scene.story.calls) == 1
    assert scene.deliver(message) is None
    assert len(scene.story.calls) == 1
    assert stage(scene.app, scene.job) is Stage.ENDED
    assert [one.task for one in scene.lying()] == ["proj.next"]


def test_a_worker_that_died_in_post_is_followed_by_another(scene: Scene) -> None:
    """Which is told that it is the second attempt."""
    [message] = scene.lying()
    assert at(scene.app).outcomes.begin_post(scene.job, "dead:1:a", LEASE) is not None
    assert scene.deliver(message) is None
    scene.tell(LAPSED)
    flow.advance_job(scene.app, at(scene.app), number(at(scene.app), scene.job))
    [again] = scene.lying()
    assert scene.deliver(again) == "posted"
    assert [call["attempt"] for call in scene.story.calls] == [2]


def test_a_worker_that_died_after_post_is_followed_without_post(scene: Scene) -> None:
    """Its value stands in the ledger: Celery is told that one."""
    [message] = scene.lying()
    ledger = at(scene.app)
    turn = ledger.outcomes.begin_post(scene.job, "dead:1:a", LEASE)
    assert turn is not None
    assert ledger.outcomes.post_done(turn, encode({"a": [1]}), lease=LEASE)
    assert scene.deliver(message) is None
    scene.tell(LAPSED)
    flow.advance_job(scene.app, ledger, turn.job)
    [again] = scene.lying()
    assert scene.deliver(again) == {"a": [1]}
    assert scene.story.calls == []
    assert [one.args for one in scene.lying()] == [[{"a": [1]}]]
    assert stage(scene.app, scene.job) is Stage.ENDED


def test_a_frozen_worker_that_wakes_in_post_counts_for_nothing(scene: Scene) -> None:
    """Another has posted meanwhile: one value, one next step."""
    [message] = scene.lying()

    def frozen() -> str:
        scene.story.then = lambda: "the other's"
        scene.tell(LAPSED)
        other = threading.Thread(target=scene.deliver, args=(message,))
        other.start()
        other.join()
        return "the frozen one's"

    scene.story.then = frozen
    assert scene.deliver(message) is None
    assert len(scene.story.calls) == 2
    assert scene.app.AsyncResult(scene.job).get() == "the other's"
    assert [one.args for one in scene.lying()] == [["the other's"]]


def test_a_post_that_kills_its_process_is_not_begun_without_end(scene: Scene) -> None:
    """Then the job has failed, and says why."""
    [message] = scene.lying()
    for _ in range(posting.BEGUN):
        assert at(scene.app).outcomes.begin_post(scene.job, "dead:1:a", LEASE)
        scene.tell(LAPSED)
    failed = scene.deliver(message)
    assert isinstance(failed, JobFailed)
    assert "PostProcess was begun 3 times" in str(failed)
    assert scene.story.calls == []


def test_outages_of_the_ledger_are_no_deaths(scene: Scene) -> None:
    """However many there are in one Post: the message that tries again says so."""

    def away() -> None:
        message = "the server closed the connection unexpectedly"
        raise DatabaseUnavailable(message)

    scene.story.then = away
    [message] = scene.lying()
    for _ in range(posting.BEGUN + 1):
        scene.deliver(message)
        [message] = scene.lying()
    scene.story.then = lambda: "posted"
    assert scene.deliver(message) == "posted"
    assert {call["attempt"] for call in scene.story.calls} == {1}


def test_what_always_fails_like_an_outage_is_not_begun_without_end(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of results that takes too long each time, for one."""
    monkeypatch.setattr(leases, "MOST", 2)

    def away() -> None:
        message = "canceling statement due to statement timeout"
        raise DatabaseUnavailable(message)

    scene.story.then = away
    [message] = scene.lying()
    for _ in range(2 + posting.BEGUN):
        scene.deliver(message)
        [message] = scene.lying()
        scene.tell(LAPSED)
    assert isinstance(scene.deliver(message), JobFailed)


# Failures


def test_what_post_raises_is_the_jobs_failure(scene: Scene) -> None:
    """In the ledger too, with its traceback."""
    [message] = scene.lying()

    def fail() -> None:
        raise Refused

    scene.story.then = fail
    failed = scene.deliver(message)
    assert isinstance(failed, Refused)
    decided = at(scene.app).outcomes.decided(scene.job)
    assert decided is not None
    assert decided.error is not None
    assert (decided.stage, decided.outcome) == (Stage.ENDED, Outcome.FAILED)
    assert decided.error["args"] == ["no disk", 28]
    assert "raise Refused" in decided.error["traceback"]
    assert scene.app.AsyncResult(scene.job).state == states.FAILURE
    assert scene.app.AsyncResult("the-next").state == states.FAILURE
    assert scene.lying() == []


def test_a_failure_is_told_by_another_as_it_was(scene: Scene) -> None:
    """The same class, with the same arguments."""
    [message] = scene.lying()

    def fail() -> None:
        raise Refused

    scene.story.then = fail
    with pytest.raises(Refused):  # as a worker that dies before its tracer hears of it
        posting.post(scene.app, at(scene.app), scene.task.processor, scene.job, run=1)
    stages.delivery.put_off(scene.job)
    scene.tell(LAPSED)
    failed = scene.deliver(message)
    assert isinstance(failed, Refused)
    assert failed.args == ("no disk", 28)
    assert len(scene.story.calls) == 1


def test_a_value_that_is_no_json_fails_the_job(scene: Scene) -> None:
    """With what it was."""
    [message] = scene.lying()
    scene.story.then = object
    failed = scene.deliver(message)
    assert isinstance(failed, ItemNotSerializable)
    assert f"what PostProcess of {TASK} returned cannot be written" in str(failed)
    assert stage(scene.app, scene.job) is Stage.ENDED


@pytest.mark.parametrize("kind", leases.CELERYS)
def test_a_post_that_asks_for_a_retry_has_failed(
    scene: Scene, kind: type[Exception]
) -> None:
    """Celery would take it for something else than an outcome, and wait for ever."""
    [message] = scene.lying()

    def ask() -> None:
        raise kind

    scene.story.then = ask
    failed = scene.deliver(message)
    assert isinstance(failed, JobFailed)
    assert f"raised {kind.__name__}: a job is not retried" in str(failed)


@pytest.mark.parametrize(
    "end",
    [*(kind(0) for kind in process.ENDS), SystemExit(signal.SIGTERM - 256)],
    ids=["shutdown", "terminate", "sigterm"],
)
def test_a_worker_that_ends_in_post_has_not_failed_the_job(
    scene: Scene, end: SystemExit
) -> None:
    """It is its own way out, raised in whatever runs: another worker posts."""

    def stop() -> None:
        raise end

    scene.story.then = stop
    scene.lying()
    with pytest.raises(type(end)):
        posting.post(scene.app, at(scene.app), scene.task.processor, scene.job, run=1)
    assert stage(scene.app, scene.job) is Stage.POSTING
    scene.story.then = lambda: "posted"
    sweeper.sweep(scene.app)
    [message] = scene.lying()
    assert scene.deliver(message) == "posted"


@pytest.mark.parametrize("error", [SystemExit(3), CancelledError(3), GeneratorExit(3)])
def test_a_post_that_raises_no_exception_has_failed(
    scene: Scene, error: BaseException
) -> None:
    """It would end each process that begins it, and hide what it was."""
    [message] = scene.lying()

    def leave() -> None:
        raise error

    scene.story.then = leave
    failed = scene.deliver(message)
    assert isinstance(failed, JobFailed)
    assert f"raised {type(error).__name__}: 3" in str(failed)


# Cancelled


def test_celery_hears_of_a_cancelled_job_without_a_message(scene: Scene) -> None:
    """It is REVOKED, and so is the step that was to follow."""
    [message] = scene.lying()
    flow.cancel(scene.app, at(scene.app), scene.job)
    result = scene.app.AsyncResult(scene.job)
    assert str(result.state) == states.REVOKED
    assert isinstance(result.result, JobCancelled)
    assert str(scene.app.AsyncResult("the-next").state) == states.REVOKED
    assert stage(scene.app, scene.job) is Stage.ENDED
    assert scene.deliver(message) is None
    assert scene.lying() == []


# Later runs


def test_a_job_that_is_run_again_has_a_new_result_and_nothing_follows(
    scene: Scene,
) -> None:
    """An old copy of its message, that would go on with the chain, is passed over."""
    [first] = scene.lying()
    scene.deliver(first)
    scene.lying()
    scene.story.then = lambda: "posted again"
    ledger = at(scene.app)
    assert ledger.control.retry_failed(scene.job) == 1
    flow.advance_job(scene.app, ledger, number(ledger, scene.job))
    assert [one.task for one in scene.lying()] == [WORK]
    ledger.tickets.end_all_holds(number(ledger, scene.job))
    with ledger.database.transaction():
        ledger.database._connected().execute("update pecker_tickets set state = 'idle'")
    run_job(ledger, number(ledger, scene.job))
    flow.advance_job(scene.app, ledger, number(ledger, scene.job))
    [second] = scene.lying()
    assert scene.deliver(first) is None
    assert scene.deliver(second) == "posted again"
    assert scene.app.AsyncResult(scene.job).get() == "posted again"
    assert [call["run"] for call in scene.story.calls] == [1, 2]
    assert scene.story.calls[1]["errors"] == []
    assert scene.lying() == []
    assert stage(scene.app, scene.job) is Stage.ENDED


def test_who_told_an_earlier_run_and_wakes_does_not_end_the_later_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was frozen when Celery knew the first value; the second would not be told."""
    [first] = scene.lying()
    with monkeypatch.context() as patched:
        patched.setattr(scene.task, "on_success", lambda *_: None)
        scene.deliver(first)
    ledger = at(scene.app)
    assert ledger.outcomes.delivered(scene.job)  # by who told it again
    ledger.control.rerun(scene.job, [0])
    ledger.tickets.end_all_holds(number(ledger, scene.job))
    run_job(ledger, number(ledger, scene.job))
    scene.lying()
    flow.advance_job(scene.app, ledger, number(ledger, scene.job))
    [second] = scene.lying()
    with monkeypatch.context() as patched:
        patched.setattr(scene.task, "on_success", lambda *_: None)
        scene.deliver(second)
    for message, then in ((first, Stage.DELIVERING), (second, Stage.ENDED)):
        scene.task.push_request(
            id=scene.job, headers=message.headers, called_directly=False
        )
        scene.task.on_success("posted", scene.job, (), {})
        scene.task.pop_request()
        assert stage(scene.app, scene.job) is then


def test_a_message_of_a_job_nobody_knows_is_passed_over(scene: Scene) -> None:
    """It was purged: there is nothing to say."""
    [message] = scene.lying()
    scene.tell("delete from pecker_jobs")
    request = type("Request", (), {"id": message.id, "headers": message.headers})
    with pytest.raises(Ignore):
        stages.run_stage(scene.app, scene.task.processor, request)

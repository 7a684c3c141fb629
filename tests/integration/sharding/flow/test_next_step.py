"""What follows for a job, said by anybody: the right messages, and each once."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from celery import Celery

from celery_pecker.testing import eventually
from celery_sharding import flow
from celery_sharding.flow import progress
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.base import jsonb
from celery_sharding.ledger.reasons import reason_of
from celery_sharding.ledger.submissions import NewJob
from celery_sharding.messages import NOTIFY, RESENT, RUN, SENT_BY, WORK
from celery_sharding.model import Options, Outcome, Stage
from tests.integration.sharding.conftest import Planner, Time
from tests.integration.sharding.flow.conftest import REFUSED, Lying, application
from tests.integration.sharding.shift import LEASE, ended, run_job, run_layer, taken

# redis-py says so of what Celery's backend calls.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated setex")

CONTINUATION = {
    "link": [{"task": "proj.linked", "args": [], "kwargs": {}, "options": {}}],
    "link_error": [{"task": "proj.failed", "args": [], "kwargs": {}, "options": {}}],
    "chain": [{"task": "proj.next", "args": [], "kwargs": {}, "options": {}}],
    "group_id": "g",
    "group_index": 3,
    "root_id": "root",
    "parent_id": "parent",
    "priority": 0,
    "shadow": "shown",
    "time_limit": 50,
    "headers": {"mine": "kept", SENT_BY: "submitted"},
    "stamped_headers": ["stamp"],
    "stamp": "of mine",
    "expires": "2020-01-01T00:00:00+00:00",
    "eta": "2020-01-01T00:00:00+00:00",
}


def submitted(ledger: Ledger, task_id: str = "the-job", **options: object) -> int:
    """Return a job that was called with much to follow."""
    new = NewJob(
        task_id=task_id,
        task="proj.import_rows",
        args=(),
        kwargs={},
        continuation=CONTINUATION,
        options=Options(**options),  # type: ignore[arg-type]  # a test's own
    )
    return ledger.submissions.submit(new).job


# Tickets


def test_tickets_are_sent_for_what_may_run(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying
) -> None:
    """As many as the job may have, each once, and none grows with the job."""
    ready = planned(((100,) * 50,), concurrency=3)
    assert flow.advance_job(app, ledger, ready.job) is Stage.SHARDING
    flow.advance_job(app, ledger, ready.job)
    sent = lying()
    assert [one.args for one in sent] == [[ready.job, n, 0] for n in (1, 2, 3)]
    assert {one.task for one in sent} == {WORK}
    assert max(one.size for one in sent) <= 350
    assert all(one.headers["ignore_result"] for one in sent)


def test_tickets_are_no_more_than_live_workers_can_use(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying
) -> None:
    """And one, that waits for whoever is free next."""
    ready = planned(((1,) * 50,), concurrency=40)
    ledger.upkeep.record_worker("a@host", 3)
    ledger.upkeep.record_worker("b@host", 2)
    flow.advance_job(app, ledger, ready.job)
    assert len(lying()) == 6


def test_tickets_go_where_the_job_came_from(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, queue_name: str
) -> None:
    """With its priority; or to the queue that its options name."""
    ready = planned(((1,),))
    told = {"queue": f"{queue_name}-other", "priority": 0}
    ledger.database._connected().execute(
        "update pecker_jobs set continuation = continuation || %s",
        (jsonb(told),),
    )
    flow.advance_job(app, ledger, ready.job)
    assert not lying()
    assert [one.task for one in lying(f"{queue_name}-other")] == [WORK]
    named = planned(((1,),), queue=f"{queue_name}-named")
    flow.advance_job(app, ledger, named.job)
    assert [one.args[0] for one in lying(f"{queue_name}-named")] == [named.job]


def test_a_lapsed_hold_is_followed_by_a_new_ticket(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, time: Time
) -> None:
    """Its shards wait again."""
    ready = planned(((1,),))
    turn = taken(ledger, ready.job)
    ledger.shards.claim(turn.hold, layer=0, most=1)
    flow.advance_job(app, ledger, ready.job)
    assert not lying()
    time.step(LEASE)
    flow.advance_job(app, ledger, ready.job)
    [ticket] = lying()
    assert ticket.args == [ready.job, turn.hold.ticket, turn.hold.seq + 1]


# The job's own message


def test_the_jobs_message_is_its_own_again(
    app: Celery, ledger: Ledger, lying: Lying
) -> None:
    """Under its id, with all that is to follow; when it may start is over."""
    job = submitted(ledger)
    turn = ledger.plans.begin("the-job", "a:1:a", LEASE)
    assert turn is not None
    ledger.plans.write(turn, [])
    assert flow.advance_job(app, ledger, job) is Stage.POSTING
    flow.advance_job(app, ledger, job)
    [message] = lying()
    assert (message.task, message.id, message.args) == (
        "proj.import_rows",
        "the-job",
        [],
    )
    assert message.embed["callbacks"] == CONTINUATION["link"]
    assert message.embed["errbacks"] == CONTINUATION["link_error"]
    assert message.embed["chain"] == CONTINUATION["chain"]
    expected = {
        "group": "g",
        "group_index": 3,
        "root_id": "root",
        "parent_id": "parent",
        "shadow": "shown",
        "timelimit": [50, None],
        "eta": None,
        "expires": None,
        "mine": "kept",
        "stamped_headers": ["stamp"],
        "stamps": {"stamp": "of mine"},
        SENT_BY: RESENT,
        RUN: 1,
    }
    assert {key: message.headers[key] for key in expected} == expected


def test_a_later_run_has_nothing_to_follow(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, time: Time
) -> None:
    """Chain, chord and links had their turn; the result is stored anew."""
    ready = planned(((2,),))
    ledger.database._connected().execute(
        "update pecker_jobs set continuation = %s",
        (jsonb(CONTINUATION),),
    )
    run_job(ledger, ready.job, {(0, 1)})
    ended(ledger, ready.task_id)
    ledger.control.retry_failed(ready.task_id)
    flow.advance_job(app, ledger, ready.job)
    assert [one.task for one in lying()] == [WORK]
    time.step(20)
    run_layer(ledger, ready.job)
    assert flow.advance_job(app, ledger, ready.job) is Stage.POSTING
    [message] = lying()
    assert set(message.embed.values()) == {None}
    assert (message.headers["group"], message.headers["mine"]) == (None, "kept")
    assert message.headers[RUN] == 2


def test_a_decided_job_is_told_by_its_message(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying
) -> None:
    """Its failure is in the ledger."""
    ready = planned()
    ledger.outcomes.decide(ready.job, Outcome.FAILED, error=reason_of(ValueError("no")))
    assert flow.advance_job(app, ledger, ready.job) is Stage.DELIVERING
    assert [one.id for one in lying()] == [ready.task_id]


def test_a_job_nobody_knows_is_passed_over(app: Celery, ledger: Ledger) -> None:
    """It was purged."""
    assert flow.advance_job(app, ledger, 4711) is None


# The broker is away


@pytest.fixture
def away(dsn: str) -> Iterator[Celery]:
    """Give the same app with no broker."""
    made = application(dsn, REFUSED, "cache+memory://", "nowhere")
    made.conf.task_publish_retry_policy = {"max_retries": 0}
    yield made
    made.close()


def test_a_broker_that_is_away_is_logged_and_harms_nothing(
    app: Celery,
    away: Celery,
    ledger: Ledger,
    planned: Planner,
    lying: Lying,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What was not sent is sent again by whoever comes later."""
    ready = planned(((1,),))
    with caplog.at_level(logging.WARNING):
        flow.advance_job(away, ledger, ready.job)
    assert "1 of celery_sharding.work not sent, the sweeper sends again" in caplog.text
    ledger.database.now.step(10)  # type: ignore[attr-defined]  # the tests' own time
    flow.advance_job(app, ledger, ready.job)
    assert len(lying()) == 1


# Progress


def test_notify_is_called_for_by_a_message(
    app: Celery, ledger: Ledger, planned: Planner, lying: Lying, time: Time
) -> None:
    """While a threshold is due; and before Post is."""
    ready = planned(((10,), (10,)), notify_every=0.5)
    flow.advance_job(app, ledger, ready.job)
    assert NOTIFY not in {one.task for one in lying()}
    time.step(20)
    run_layer(ledger, ready.job)
    flow.advance_job(app, ledger, ready.job)
    assert [one.args for one in lying() if one.task == NOTIFY] == [[ready.task_id]]
    ledger.outcomes.notified(ready.job, 1)
    time.step(20)
    run_layer(ledger, ready.job)
    flow.advance_job(app, ledger, ready.job)
    assert [one.task for one in lying()] == [NOTIFY, "proj.import_rows"]


def test_progress_bars_hear_how_far_it_is(
    app: Celery, ledger: Ledger, planned: Planner, time: Time
) -> None:
    """As Celery's own: state PROGRESS, with current, total and percent."""
    ready = planned(((10,), (10,), (20,)))
    run_layer(ledger, ready.job)
    flow.advance_job(app, ledger, ready.job)
    result = app.AsyncResult(ready.task_id)
    eventually(lambda: str(result.state) == "PROGRESS")
    assert result.info == {
        "current": 10,
        "total": 40,
        "percent": 25.0,
        "pending": False,
    }


def test_progress_that_was_said_late_is_put_right(
    app: Celery, ledger: Ledger, planned: Planner
) -> None:
    """A failure that it was written over stands again: whoever waits would for ever."""
    ready = planned(((10,), (10,)))
    stands = ledger.outcomes.threshold(ready.job)
    assert stands is not None
    error = ValueError("no disk")
    ledger.outcomes.decide(ready.job, Outcome.FAILED, error=reason_of(error))
    app.backend.mark_as_failure(ready.task_id, error)
    progress.report(app, stands)
    result = app.AsyncResult(ready.task_id)
    eventually(lambda: not progress._reports.waiting.unfinished_tasks)
    assert result.state == "FAILURE"
    assert isinstance(result.result, ValueError)
    assert result.result.args == ("no disk",)

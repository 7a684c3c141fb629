"""Layers close, jobs move on, and each has one outcome, whoever says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from celery_sharding.codec import decode, encode
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.outcomes import MAX_DELIVERIES
from celery_sharding.ledger.reasons import reason_of
from celery_sharding.ledger.submissions import NewJob
from celery_sharding.model import Code, Options, Outcome, Shard, Stage, Step
from celery_sharding.policies import FailFast, Isolate
from tests.integration.sharding.conftest import Planner, Time
from tests.integration.sharding.shift import (
    LEASE,
    closing,
    failure,
    goes_on,
    run_job,
    run_layer,
    taken,
    whole,
)

Opened = Callable[[], Ledger]
TWO = ((10, 10), (5,))


def stage(ledger: Ledger, task_id: str) -> Stage:
    """Return where the job is."""
    stands = ledger.outcomes.stage_of(task_id)
    assert stands is not None
    return stands[0]


def outcome(ledger: Ledger, task_id: str) -> Outcome | None:
    """Return how the job ended."""
    decided = ledger.outcomes.decided(task_id)
    assert decided is not None
    return decided.outcome


# Layers


def test_a_layer_with_an_open_shard_is_not_closed(
    ledger: Ledger, planned: Planner
) -> None:
    """Not by a counter that says zero, and not while one is claimed or runs."""
    job = planned(TWO).job
    turn = taken(ledger, job)
    one, two = ledger.shards.claim(turn.hold, layer=0, most=2)
    ledger.shards.write(turn.hold, [closing(one)], lease=LEASE)
    cursor = ledger.database._connected().cursor()
    cursor.execute("update pecker_layers set open = 0")
    stands = ledger.outcomes.advance(job)
    assert stands is not None
    assert (stands.stage, stands.layer, stands.moved) == (Stage.SHARDING, 0, False)
    ledger.shards.write(turn.hold, [closing(two)], lease=LEASE)
    stands = ledger.outcomes.advance(job)
    assert stands is not None
    assert (stands.stage, stands.layer, stands.moved) == (Stage.SHARDING, 1, True)


def test_what_is_open_is_asked_again_as_a_layer_is_closed(
    ledger: Ledger, planned: Planner
) -> None:
    """Whoever closes it has looked before, perhaps long ago, at another layer."""
    ready = planned(((1,), (1,), (1,)))
    change = ledger.outcomes._change
    assert not change("next_layer", job=ready.job, layer=0, following=1)
    assert not change("finish_layers", job=ready.job, layer=0, ticket=None, seq=None)
    run_layer(ledger, ready.job)
    assert not change("finish_layers", job=ready.job, layer=0, ticket=None, seq=None)
    ledger.outcomes.advance(ready.job)
    run_layer(ledger, ready.job)
    assert not change("next_layer", job=ready.job, layer=0, following=1)
    assert change("next_layer", job=ready.job, layer=1, following=2) == 1
    assert stage(ledger, ready.task_id) is Stage.SHARDING


def test_of_many_who_saw_the_end_of_a_layer_one_moves_the_job(
    open_ledger: Opened, ledger: Ledger, planned: Planner
) -> None:
    """And it moves by one layer: nobody skips one that was not run."""
    job = planned(((1,), (1,), (1,))).job
    ledgers = [open_ledger() for _ in range(4)]
    together = threading.Barrier(4)

    def advance(mine: Ledger) -> bool:
        together.wait()
        stands = mine.outcomes.advance(job)
        assert stands is not None
        return stands.moved

    with ThreadPoolExecutor(4) as pool:
        for layer in range(3):
            run_layer(ledger, job)
            moved = [*pool.map(advance, ledgers)]
            assert sorted(moved) == [False, False, False, True], layer
    stands = ledger.outcomes.advance(job)
    assert stands is not None
    assert (stands.stage, stands.layer) == (Stage.POSTING, 3)


def test_the_last_layer_leads_to_post(ledger: Ledger, planned: Planner) -> None:
    """With all layers closed, and times in them."""
    ready = planned(TWO)
    run_job(ledger, ready.job)
    assert stage(ledger, ready.task_id) is Stage.POSTING
    layers = ledger.reading.layers(ready.job)
    assert all(one.started_at and one.closed_at for one in layers)


def test_a_job_nobody_knows_is_not_advanced(ledger: Ledger) -> None:
    """A message of a job that was purged does no harm."""
    assert ledger.outcomes.advance(4711) is None


# Too many failed


@pytest.mark.parametrize(
    ("on_error", "failing", "fails"),
    [
        (None, 20, False),
        (Isolate(), 20, False),
        (Isolate(max_failed=3), 3, False),
        (Isolate(max_failed=3), 4, True),
        (Isolate(max_failed="10%"), 2, False),
        (Isolate(max_failed="10%"), 3, True),
        (FailFast(), 0, False),
        (FailFast(), 1, True),
    ],
)
def test_a_job_fails_with_one_more_than_it_allows(
    ledger: Ledger, planned: Planner, on_error: object, failing: int, fails: bool
) -> None:
    """The message says how many, what was allowed, and names one of them."""
    ready = planned(((20,), (1,)), on_error=on_error)
    run_layer(ledger, ready.job, {(0, place) for place in range(failing)})
    ledger.outcomes.advance(ready.job)
    if not fails:
        assert stage(ledger, ready.task_id) is Stage.SHARDING
        return
    decided = ledger.outcomes.decided(ready.task_id)
    assert decided is not None
    assert decided.error is not None
    assert decided.outcome is Outcome.FAILED
    assert decided.error["type"] == "TooManyFailed"
    assert f"{failing} of 21 items failed" in decided.error["message"]
    assert "ValueError: bad row" in decided.error["message"]


def test_a_failure_is_seen_while_its_shard_runs(
    ledger: Ledger, planned: Planner
) -> None:
    """The first failed item ends the job, not the last item of its shard."""
    ready = planned(((1_000,),), on_error=FailFast())
    turn = taken(ledger, ready.job)
    [shard] = ledger.shards.claim(turn.hold, layer=0, most=1)
    step = Step(
        shard=0, cursor=1, ahead=1000, done=0, failed=1, failures=(failure(shard, 0),)
    )
    ledger.shards.write(turn.hold, [step], lease=LEASE)
    stands = ledger.outcomes.advance(ready.job)
    assert stands is not None
    assert stands.stage is Stage.DELIVERING
    word = ledger.tickets.renew(turn.hold, LEASE)
    assert not goes_on(word, turn.hold)


def test_a_shard_that_failed_as_a_whole_counts(
    ledger: Ledger, planned: Planner
) -> None:
    """Though each of its items was well."""
    ready = planned(((5,),), on_error=Isolate(max_failed=0))

    def fail(shard: Shard) -> Step:
        return Step(
            shard=shard.shard,
            cursor=5,
            ahead=5,
            done=5,
            failed=0,
            status=Code.FAILED,
            failures=(whole(shard),),
        )

    run_layer(ledger, ready.job, end=fail)
    ledger.outcomes.advance(ready.job)
    assert outcome(ledger, ready.task_id) is Outcome.FAILED


# Deciding


def test_a_job_is_decided_once(ledger: Ledger, planned: Planner) -> None:
    """The second word changes nothing."""
    ready = planned()
    error = reason_of(ValueError("first"))
    assert ledger.outcomes.decide(ready.job, Outcome.FAILED, error=error)
    assert not ledger.outcomes.decide(ready.job, Outcome.CANCELLED)
    assert outcome(ledger, ready.task_id) is Outcome.FAILED


def test_followers_share_the_outcome(
    ledger: Ledger, submitted: Callable[..., str]
) -> None:
    """All who follow when it is decided, each under its own task id."""
    leader = submitted(key="k")
    followers = []
    for name in ("one", "two"):
        new = NewJob(
            task_id=name,
            task="proj.import_rows",
            args=(),
            kwargs={},
            continuation={},
            options=Options(),
            key="k",
        )
        made = ledger.submissions.submit(new, follow=True)
        assert made.leader == leader
        followers.append(name)
    ledger.control.cancel(leader)
    for name in followers:
        assert stage(ledger, name) is Stage.DELIVERING
        assert outcome(ledger, name) is Outcome.CANCELLED
    sent = ledger.outcomes.sending(ledger.reading.job(leader).job, resend=10)
    assert {one.task_id for one in sent} == {leader, "one", "two"}


# Post


def at_posting(ledger: Ledger, planned: Planner, **options: object) -> tuple[int, str]:
    """Return a job whose items have ended."""
    ready = planned(((2,),), **options)
    run_job(ledger, ready.job)
    return ready.job, ready.task_id


def test_one_posts_at_a_time(ledger: Ledger, planned: Planner, time: Time) -> None:
    """Another does when the first is heard no more, and then the first is nobody."""
    job, task_id = at_posting(ledger, planned)
    first = ledger.outcomes.begin_post(task_id, "a:1:a", LEASE)
    assert first is not None
    assert (first.total, first.done, first.failed, first.attempts) == (2, 2, 0, 1)
    assert ledger.outcomes.begin_post(task_id, "b:2:b", LEASE) is None
    time.step(LEASE - 1)
    assert ledger.outcomes.renew_post(job, first.epoch, LEASE)
    time.step(LEASE - 1)
    assert ledger.outcomes.begin_post(task_id, "b:2:b", LEASE) is None
    time.step(2)
    second = ledger.outcomes.begin_post(task_id, "b:2:b", LEASE)
    assert second is not None
    assert second.attempts == 2
    assert not ledger.outcomes.renew_post(job, first.epoch, LEASE)
    assert not ledger.outcomes.post_done(first, encode("zombie"), lease=LEASE)
    assert ledger.outcomes.post_done(second, encode("true"), lease=LEASE)
    decided = ledger.outcomes.decided(task_id)
    assert decided is not None
    assert decided.value is not None
    assert decode(decided.value) == "true"


def test_what_post_came_to_may_be_written_twice(
    ledger: Ledger, planned: Planner
) -> None:
    """The first answer may have been lost: who wrote it is still the one."""
    _, task_id = at_posting(ledger, planned)
    turn = ledger.outcomes.begin_post(task_id, "a:1:a", LEASE)
    assert turn is not None
    assert ledger.outcomes.post_done(turn, encode(1), lease=LEASE)
    assert ledger.outcomes.post_done(turn, encode(1), lease=LEASE)


def test_a_job_that_was_cancelled_in_post_stays_cancelled(
    ledger: Ledger, planned: Planner
) -> None:
    """What Post comes to afterwards counts for nothing."""
    _, task_id = at_posting(ledger, planned)
    turn = ledger.outcomes.begin_post(task_id, "a:1:a", LEASE)
    assert turn is not None
    ledger.control.cancel(task_id)
    assert not ledger.outcomes.post_done(turn, encode(1), lease=LEASE)
    assert outcome(ledger, task_id) is Outcome.CANCELLED


def test_post_of_a_paused_job_waits(ledger: Ledger, planned: Planner) -> None:
    """And is to be had once it goes on."""
    job, task_id = at_posting(ledger, planned)
    ledger.control.pause(task_id)
    assert ledger.outcomes.begin_post(task_id, "a:1:a", LEASE) is None
    assert ledger.outcomes.sending(job, resend=10) == []
    ledger.control.resume(task_id)
    assert len(ledger.outcomes.sending(job, resend=10)) == 1
    assert ledger.outcomes.begin_post(task_id, "a:1:a", LEASE) is not None


# Telling Celery


def test_an_outcome_is_told_by_one_at_a_time(
    ledger: Ledger, planned: Planner, time: Time
) -> None:
    """By whoever ran Post for a lease; then by anybody, without Post."""
    _, task_id = at_posting(ledger, planned)
    turn = ledger.outcomes.begin_post(task_id, "a:1:a", LEASE)
    assert turn is not None
    ledger.outcomes.post_done(turn, encode(1), lease=LEASE)
    assert ledger.outcomes.delivery(task_id, "b:2:b", LEASE) is None
    time.step(LEASE)
    found = ledger.outcomes.delivery(task_id, "b:2:b", LEASE)
    assert found is not None
    assert found.value is not None
    assert decode(found.value) == 1
    assert ledger.outcomes.delivery(task_id, "c:3:c", LEASE) is None
    assert ledger.outcomes.delivered(task_id)
    assert not ledger.outcomes.delivered(task_id)
    time.step(LEASE)
    assert ledger.outcomes.delivery(task_id, "c:3:c", LEASE) is None


def test_a_success_that_celery_made_a_failure_of_is_told_again(
    ledger: Ledger, planned: Planner, time: Time
) -> None:
    """The broker was away for the next step of a chain; but not for ever."""
    _, task_id = at_posting(ledger, planned)
    turn = ledger.outcomes.begin_post(task_id, "a:1:a", LEASE)
    assert turn is not None
    ledger.outcomes.post_done(turn, encode(1), lease=LEASE)
    for _ in range(MAX_DELIVERIES - 1):
        assert not ledger.outcomes.delivered(task_id, troubled=True)
        time.step(LEASE)
        assert ledger.outcomes.delivery(task_id, "b:2:b", LEASE) is not None
    assert ledger.outcomes.delivered(task_id, troubled=True)


def test_a_failure_is_told_once(ledger: Ledger, planned: Planner) -> None:
    """It is what Celery was to be told."""
    ready = planned()
    ledger.outcomes.decide(ready.job, Outcome.FAILED, error=reason_of(ValueError("no")))
    assert ledger.outcomes.delivery(ready.task_id, "a:1:a", LEASE) is not None
    assert ledger.outcomes.delivered(ready.task_id, troubled=True)


# Messages


def test_a_job_message_has_one_sender(
    ledger: Ledger, planned: Planner, time: Time
) -> None:
    """And is sent again when nobody took it: later each time, since a queue is long."""
    job, _ = at_posting(ledger, planned)
    assert len(ledger.outcomes.sending(job, resend=10)) == 1
    sent_at = []
    for second in range(1, 101):
        time.step(1)
        if ledger.outcomes.sending(job, resend=10):
            sent_at.append(second)
    assert sent_at == [10, 20, 40, 80]


def test_a_job_message_is_sent_at_once_when_its_worker_died(
    ledger: Ledger, planned: Planner, time: Time
) -> None:
    """Not while the worker has its lease, and without waiting for longer after it."""
    job, task_id = at_posting(ledger, planned)
    ledger.outcomes.sending(job, resend=10)
    assert ledger.outcomes.begin_post(task_id, "a:1:a", LEASE) is not None
    time.step(LEASE - 1)
    assert ledger.outcomes.sending(job, resend=10) == []
    time.step(1)
    assert len(ledger.outcomes.sending(job, resend=10)) == 1


# Progress


def test_thresholds_are_told_one_by_one_and_never_back(
    ledger: Ledger, planned: Planner
) -> None:
    """Each by one process; a jump over several leaves none out."""
    ready = planned(((10,), (10,)), notify_every=0.25)
    stands = ledger.outcomes.threshold(ready.job)
    assert stands is not None
    assert (stands.due, stands.notified) == (0, 0)
    run_layer(ledger, ready.job)
    stands = ledger.outcomes.threshold(ready.job)
    assert stands is not None
    assert (stands.due, stands.notified, stands.meta["percent"]) == (2, 0, 50.0)
    assert not ledger.outcomes.notified(ready.job, 2)
    assert ledger.outcomes.notified(ready.job, 1)
    assert not ledger.outcomes.notified(ready.job, 1)
    assert ledger.outcomes.notified(ready.job, 2)


def test_every_threshold_of_a_twentieth_is_due_in_the_end(
    ledger: Ledger, planned: Planner
) -> None:
    """0.05 is no binary fraction: none of the twenty is lost to that."""
    ready = planned(((20,),), notify_every=0.05)
    turn = taken(ledger, ready.job)
    [shard] = ledger.shards.claim(turn.hold, layer=0, most=1)
    due = []
    for cursor in range(1, 21):
        status = Code.SUCCEEDED if cursor == 20 else Code.RUNNING
        step = Step(
            shard=shard.shard,
            cursor=cursor,
            ahead=20,
            done=cursor,
            failed=0,
            status=status,
        )
        ledger.shards.write(turn.hold, [step], lease=LEASE)
        stands = ledger.outcomes.threshold(ready.job)
        assert stands is not None
        due.append(stands.due)
    assert due == [*range(1, 21)]


def test_progress_is_told_once_a_second(
    ledger: Ledger, planned: Planner, time: Time
) -> None:
    """By one of all; and no more when the items have ended."""
    ready = planned()
    assert ledger.outcomes.claim_report(ready.job)
    assert not ledger.outcomes.claim_report(ready.job)
    time.step(1)
    assert ledger.outcomes.claim_report(ready.job)
    ledger.control.cancel(ready.task_id)
    time.step(1)
    assert not ledger.outcomes.claim_report(ready.job)

"""Ended jobs run again: what failed and nothing else, or some shards as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from celery_sharding.errors import InstanceNotFound, WrongStage
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.reasons import reason_of
from celery_sharding.ledger.submissions import NewJob
from celery_sharding.model import Code, ItemError, Options, Outcome, Shard, Stage, Step
from celery_sharding.overview import error_groups
from celery_sharding.policies import FailFast, Isolate
from tests.integration.sharding.conftest import Planner
from tests.integration.sharding.shift import (
    LEASE,
    closing,
    ended,
    run_job,
    run_layer,
    taken,
    whole,
)

Submit = Callable[..., str]


def places(ran: list[Shard]) -> list[tuple[int, int]]:
    """Return the items that were run: origin and place."""
    return sorted(
        (shard.origin, shard.place(index))
        for shard in ran
        for index in range(shard.cursor, shard.count)
    )


def results(ledger: Ledger, task_id: str) -> Counter[tuple[int, int]]:
    """Return the results that are stored, as `shift` writes them."""
    return Counter(tuple(one) for one in ledger.reading.each_result(task_id))


def consistent(ledger: Ledger, task_id: str) -> None:
    """Layers have the counts of their shards, and all items are counted once."""
    cursor = ledger.database._connected().cursor()
    rows = cursor.execute(
        "select layer.shards, layer.open, layer.done, layer.failed, layer.total,"
        " counted.* from pecker_jobs as job"
        " join pecker_layers as layer on layer.job = job.job"
        " join ("
        "  select job, layer, count(*),"
        "   count(*) filter (where status in (100, 201, 202)),"
        "   coalesce(sum(done) filter (where status not in (100, 201, 202)), 0),"
        "   coalesce(sum(failed) filter (where status not in (100, 201, 202)), 0)"
        "  from pecker_shards group by job, layer"
        " ) as counted on counted.job = layer.job and counted.layer = layer.layer"
        " where job.task_id = %s",
        (task_id,),
    ).fetchall()
    assert rows
    for shards, is_open, done, failed, total, _, _, *counted in rows:
        assert [shards, is_open, done, failed] == counted
        if not is_open:
            assert done + failed == total


def test_failed_items_alone_run_again_and_post_once_more(
    ledger: Ledger, planned: Planner
) -> None:
    """In their own layers, and Post has the results of both runs."""
    ready = planned(((10, 10), (10,)))
    failing = {(0, 3), (0, 7), (1, 0), (2, 9)}
    run_job(ledger, ready.job, failing)
    ended(ledger, ready.task_id, "first")
    assert ledger.control.retry_failed(ready.task_id) == 4
    consistent(ledger, ready.task_id)
    job = ledger.reading.job(ready.task_id)
    assert (job.stage, job.run, job.layer, job.failed) == (Stage.SHARDING, 2, 0, 0)
    assert job.outcome is None
    assert places(run_layer(ledger, ready.job)) == [(0, 3), (0, 7), (1, 0)]
    assert places(run_job(ledger, ready.job)) == [(2, 9)]
    consistent(ledger, ready.task_id)
    job = ledger.reading.job(ready.task_id)
    assert (job.stage, job.done, job.failed) == (Stage.POSTING, 30, 0)
    assert not [*ledger.reading.each_error(ready.task_id)]
    everything = {(0, place) for place in range(10)}
    everything |= {(1, place) for place in range(10)}
    everything |= {(2, place) for place in range(10)}
    assert results(ledger, ready.task_id) == Counter(everything)
    assert ledger.outcomes.begin_post(ready.task_id, "a:1:a", LEASE, run=1) is None
    ended(ledger, ready.task_id, "second")


def test_what_fails_again_is_recorded_once_and_may_be_tried_again(
    ledger: Ledger, planned: Planner
) -> None:
    """The third run has the one item that failed twice."""
    ready = planned(((10,),))
    run_job(ledger, ready.job, {(0, 3), (0, 7)})
    ended(ledger, ready.task_id)
    assert ledger.control.retry_failed(ready.task_id) == 2
    run_job(ledger, ready.job, {(0, 7)})
    ended(ledger, ready.task_id)
    [error] = ledger.reading.each_error(ready.task_id)
    assert error.place == 7
    assert ledger.reading.job(ready.task_id).failed == 1
    assert ledger.control.retry_failed(ready.task_id) == 1
    assert places(run_job(ledger, ready.job)) == [(0, 7)]
    consistent(ledger, ready.task_id)


def test_a_shard_that_ended_early_goes_on_from_where_it_was(
    ledger: Ledger, planned: Planner
) -> None:
    """Its failed item is run by another; no item is run twice."""
    ready = planned(((10, 10),))

    def early(shard: Shard) -> Step | None:
        if shard.shard != 0:
            return None
        failing = closing(shard, {(0, 2)}).failures
        return Step(
            shard=0,
            cursor=6,
            ahead=10,
            done=5,
            failed=5,
            status=Code.TIMED_OUT,
            failures=(*failing, whole(shard)),
        )

    run_layer(ledger, ready.job, end=early)
    ledger.outcomes.advance(ready.job)
    ended(ledger, ready.task_id)
    assert ledger.control.retry_failed(ready.task_id) == 5
    assert places(run_job(ledger, ready.job)) == [
        (0, 2),
        *((0, n) for n in range(6, 10)),
    ]
    consistent(ledger, ready.task_id)
    assert ledger.reading.job(ready.task_id).done == 20


def test_a_shard_that_failed_after_its_last_item_runs_as_a_whole(
    ledger: Ledger, planned: Planner
) -> None:
    """What it had come to is forgotten: nothing of it is there twice."""
    ready = planned(((5, 5),))

    def fail(shard: Shard) -> Step | None:
        if shard.shard != 1:
            return None
        step = closing(shard)
        return Step(
            shard=1,
            cursor=5,
            ahead=5,
            done=5,
            failed=0,
            status=Code.FAILED,
            results=step.results,
            failures=(whole(shard),),
        )

    run_layer(ledger, ready.job, end=fail)
    ledger.outcomes.advance(ready.job)
    ended(ledger, ready.task_id)
    assert ledger.control.retry_failed(ready.task_id) == 5
    assert places(run_job(ledger, ready.job)) == [(1, place) for place in range(5)]
    assert set(results(ledger, ready.task_id).values()) == {1}
    assert results(ledger, ready.task_id).total() == 10
    consistent(ledger, ready.task_id)


def test_what_was_never_run_of_a_failed_job_runs(
    ledger: Ledger, planned: Planner
) -> None:
    """FailFast ended it; who ran a shard of it then writes nothing any more."""
    ready = planned(((10, 10), (10,)), on_error=FailFast())
    straggler = taken(ledger, ready.job, "slow:1:a")
    [shard] = ledger.shards.claim(straggler.hold, layer=0, most=1)
    failing = closing(shard, {(0, 0)})
    ledger.shards.write(
        straggler.hold,
        [
            Step(
                shard=0, cursor=1, ahead=10, done=0, failed=1, failures=failing.failures
            )
        ],
        lease=LEASE,
    )
    ledger.outcomes.advance(ready.job)
    ledger.outcomes.delivery(ready.task_id, "a:1:a", LEASE)
    ledger.outcomes.delivered(ready.task_id)
    assert ledger.control.retry_failed(ready.task_id) == 30
    word = ledger.shards.write(straggler.hold, [closing(shard)], lease=LEASE)
    assert not word.held
    ran = run_job(ledger, ready.job)
    assert places(ran) == sorted(
        {(origin, n) for origin in range(3) for n in range(10)}
    )
    consistent(ledger, ready.task_id)


def test_failures_are_cut_into_shards_of_the_jobs_own_size(
    ledger: Ledger, planned: Planner
) -> None:
    """So that they are run by several, and no shard is larger than it may be."""
    ready = planned(((10, 10),), size=(1, 4))
    run_job(ledger, ready.job, {(0, place) for place in range(10)})
    ended(ledger, ready.task_id)
    assert ledger.control.retry_failed(ready.task_id) == 10
    ran = run_job(ledger, ready.job)
    assert [shard.count for shard in ran] == [4, 4, 2]


# Nothing to do but Post, or PreProcess


def test_a_job_without_failures_stays_as_it_ended(
    ledger: Ledger, planned: Planner
) -> None:
    """Nothing runs, and its result stays."""
    ready = planned()
    run_job(ledger, ready.job)
    ended(ledger, ready.task_id)
    before = ledger.reading.job(ready.task_id)
    assert ledger.control.retry_failed(ready.task_id) == 0
    after = ledger.reading.job(ready.task_id)
    assert (after.stage, after.run, after.outcome) == (
        before.stage,
        before.run,
        before.outcome,
    )


def test_where_post_failed_post_alone_runs_again(
    ledger: Ledger, planned: Planner
) -> None:
    """The items were well."""
    ready = planned()
    run_job(ledger, ready.job)
    turn = ledger.outcomes.begin_post(ready.task_id, "a:1:a", LEASE)
    assert turn is not None
    error = reason_of(ValueError("no disk"))
    assert ledger.outcomes.post_done(turn, None, error=error, lease=LEASE)
    ledger.outcomes.delivered(ready.task_id, troubled=True)
    assert ledger.control.retry_failed(ready.task_id) == 0
    turn = ledger.outcomes.begin_post(ready.task_id, "a:1:a", LEASE, run=2)
    assert turn is not None
    assert turn.attempts == 1


def test_where_pre_process_failed_the_job_is_planned_again(
    ledger: Ledger, submitted: Submit
) -> None:
    """It has no shards; whoever gets its message plans."""
    task_id = submitted()
    turn = ledger.plans.begin(task_id, "a:1:a", LEASE)
    assert turn is not None
    ledger.outcomes.decide(
        turn.job, Outcome.FAILED, error=reason_of(ValueError("no file"))
    )
    ledger.outcomes.delivery(task_id, "a:1:a", LEASE)
    ledger.outcomes.delivered(task_id)
    assert ledger.control.retry_failed(task_id) == 0
    assert len(ledger.outcomes.sending(turn.job, resend=10)) == 1
    turn = ledger.plans.begin(task_id, "a:1:a", LEASE)
    assert turn is not None
    assert turn.attempts == 1


# Shards by number


def test_shards_are_run_again_whole(ledger: Ledger, planned: Planner) -> None:
    """With those that repeated items of them: no item counts twice."""
    ready = planned(((10, 10), (10,)))
    run_job(ledger, ready.job, {(0, 3), (2, 1)})
    ended(ledger, ready.task_id)
    ledger.control.retry_failed(ready.task_id)
    run_job(ledger, ready.job, {(2, 1)})
    ended(ledger, ready.task_id)
    assert ledger.control.rerun(ready.task_id, [0]) == 10
    consistent(ledger, ready.task_id)
    assert places(run_job(ledger, ready.job)) == [(0, place) for place in range(10)]
    consistent(ledger, ready.task_id)
    job = ledger.reading.job(ready.task_id)
    assert (job.run, job.done, job.failed) == (3, 29, 1)
    assert set(results(ledger, ready.task_id).values()) == {1}
    assert results(ledger, ready.task_id).total() == 29


def test_a_shard_of_repeated_items_stands_for_the_one_they_are_of(
    ledger: Ledger, planned: Planner
) -> None:
    """Asked for by its own number."""
    ready = planned(((10, 10),))
    run_job(ledger, ready.job, {(1, 3)})
    ended(ledger, ready.task_id)
    ledger.control.retry_failed(ready.task_id)
    run_job(ledger, ready.job)
    ended(ledger, ready.task_id)
    assert ledger.control.rerun(ready.task_id, [2]) == 10
    assert places(run_job(ledger, ready.job)) == [(1, place) for place in range(10)]


def test_an_unknown_shard_is_refused_and_nothing_runs(
    ledger: Ledger, planned: Planner
) -> None:
    """With the code and the numbers that are not there."""
    ready = planned(((10, 10),))
    run_job(ledger, ready.job)
    ended(ledger, ready.task_id)
    with pytest.raises(InstanceNotFound, match=r"k_sc_ec_100004: .* no shard 7, 8"):
        ledger.control.rerun(ready.task_id, [0, 7, 8])
    with pytest.raises(InstanceNotFound, match="none was named"):
        ledger.control.rerun(ready.task_id, [])
    for odd in ("first", -1, 2**40, None):
        with pytest.raises(InstanceNotFound, match=f"no shard {odd}"):
            ledger.control.rerun(ready.task_id, [0, odd])  # type: ignore[list-item]
    assert ledger.reading.job(ready.task_id).stage is Stage.ENDED


# Who else is there


def test_a_follower_says_whom_to_ask(ledger: Ledger, submitted: Submit) -> None:
    """It has no shards of its own."""
    leader = submitted(key="k")
    new = NewJob(
        task_id="follower",
        task="proj.import_rows",
        args=(),
        kwargs={},
        continuation={},
        options=Options(),
        key="k",
    )
    ledger.submissions.submit(new, follow=True)
    ledger.control.cancel(leader)
    ledger.outcomes.delivery("follower", "a:1:a", LEASE)
    ledger.outcomes.delivered("follower")
    with pytest.raises(WrongStage, match=f"it followed {leader}"):
        ledger.control.retry_failed("follower")


def test_a_job_waits_for_another_with_its_key(
    ledger: Ledger, planned: Planner, submitted: Submit
) -> None:
    """Two would do the same work at once."""
    ready = planned(key="k", on_error=Isolate())
    run_job(ledger, ready.job, {(0, 0)})
    ended(ledger, ready.task_id)
    submitted(key="k")
    with pytest.raises(
        WrongStage, match=f"another job with the key of {ready.task_id}"
    ):
        ledger.control.retry_failed(ready.task_id)
    assert ledger.reading.job(ready.task_id).stage is Stage.ENDED


def test_the_deadline_counts_from_the_new_run(ledger: Ledger, planned: Planner) -> None:
    """That of the first is over."""
    ready = planned(deadline=60)
    run_job(ledger, ready.job, {(0, 0)})
    ended(ledger, ready.task_id)
    ledger.database.now.step(3_600)  # type: ignore[attr-defined]  # the tests' own time
    ledger.control.retry_failed(ready.task_id)
    assert ledger.upkeep.deadlines() == []


def other_error(step: Step, places: set[int]) -> Step:
    """Return the step with another error for failures at some places."""
    failures = tuple(
        replace(one, type="OSError") if one.place in places else one
        for one in step.failures
    )
    return replace(step, failures=failures)


def group_of(ledger: Ledger, task_id: str, kind: str) -> str:
    """Return the key of the errors of a type."""
    groups, _ = error_groups(ledger, ledger.reading.job(task_id), most=100)
    return next(one.key for one in groups if one.type == kind)


def test_items_of_one_error_alone_run_again(ledger: Ledger, planned: Planner) -> None:
    """Others that failed stay failed, and are counted once."""
    ready = planned(((10, 10), (10,)))
    failing = {(0, 3), (0, 7), (1, 0), (2, 9)}

    def end(shard: Shard) -> Step:
        return other_error(closing(shard, failing), {7, 9})

    run_layer(ledger, ready.job, end=end)
    ledger.outcomes.advance(ready.job)
    run_layer(ledger, ready.job, end=end)
    ledger.outcomes.advance(ready.job)
    ended(ledger, ready.task_id)
    key = group_of(ledger, ready.task_id, "OSError")
    assert ledger.control.retry_failed(ready.task_id, key) == 2
    consistent(ledger, ready.task_id)
    assert ledger.reading.job(ready.task_id).failed == 2
    assert places(run_job(ledger, ready.job)) == [(0, 7), (2, 9)]
    consistent(ledger, ready.task_id)
    left = [(error.shard, error.place) for error in errors(ledger, ready.task_id)]
    assert left == [(0, 3), (1, 0)]
    ended(ledger, ready.task_id, "second")
    assert ledger.reading.job(ready.task_id).failed == 2
    assert ledger.control.retry_failed(ready.task_id) == 2, "and those later"


def errors(ledger: Ledger, task_id: str) -> list[ItemError]:
    """Return what failed of a job."""
    return [*ledger.reading.each_error(task_id)]


def test_a_shard_that_ended_early_goes_on_for_its_own_error_alone(
    ledger: Ledger, planned: Planner
) -> None:
    """Its items that failed in another way stay as they are."""
    ready = planned(((10, 10),))

    def early(shard: Shard) -> Step:
        if shard.shard != 0:
            return closing(shard, {(1, 4)})
        failing = other_error(closing(shard, {(0, 2)}), {2}).failures
        return Step(
            shard=0,
            cursor=6,
            ahead=10,
            done=5,
            failed=5,
            status=Code.TIMED_OUT,
            failures=(*failing, whole(shard)),
        )

    run_layer(ledger, ready.job, end=early)
    ledger.outcomes.advance(ready.job)
    ended(ledger, ready.task_id)
    item, shard = (
        group_of(ledger, ready.task_id, n) for n in ("ValueError", "RuntimeError")
    )
    assert ledger.control.retry_failed(ready.task_id, item) == 1
    assert places(run_job(ledger, ready.job)) == [(1, 4)]
    consistent(ledger, ready.task_id)
    ended(ledger, ready.task_id)
    assert ledger.control.retry_failed(ready.task_id, shard) == 4
    consistent(ledger, ready.task_id)
    assert places(run_job(ledger, ready.job)) == [(0, n) for n in range(6, 10)]
    consistent(ledger, ready.task_id)
    assert [error.type for error in errors(ledger, ready.task_id)] == ["OSError"]
    assert ledger.reading.job(ready.task_id).failed == 1


def test_an_error_that_is_not_there_reopens_nothing(
    ledger: Ledger, planned: Planner
) -> None:
    """The job stays ended, in its run, also where shards of it had not begun."""
    ready = planned(((10, 10),), on_error=FailFast())
    turn = taken(ledger, ready.job)
    [shard] = ledger.shards.claim(turn.hold, layer=0, most=1)
    step = replace(closing(shard, {(0, 3)}), status=Code.FAILED)
    ledger.shards.write(turn.hold, [step], lease=LEASE)
    ledger.outcomes.advance(ready.job)
    ledger.outcomes.delivery(ready.task_id, "a:1:a", LEASE)
    ledger.outcomes.delivered(ready.task_id)
    assert ledger.control.retry_failed(ready.task_id, "0123456789") == 0
    job = ledger.reading.job(ready.task_id)
    assert (job.stage, job.outcome, job.run) == (Stage.ENDED, Outcome.FAILED, 1)
    assert job.failed == 1

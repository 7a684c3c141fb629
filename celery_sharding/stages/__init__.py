"""What a job message does: its receiver asks the ledger what is next.

    planning   PreProcess runs, and its items become shards
    `post`     Post runs once effectively: its value is stored before Celery has it
    leases     kept while code runs; an outage of PostgreSQL, or the end of a process,
               is no death
    delivery   Celery's own tracer stores the outcome, and goes on with chain and chord
    notifying  a threshold of progress was crossed

A stage belongs to one process for a lease, which a thread renews while the
user's code runs. The process that comes after a lapse has a higher epoch, and what the
former one writes then is refused.
"""

import logging
from contextlib import ExitStack
from functools import partial
from typing import Any

from celery.exceptions import Ignore

from celery_pecker.kernel.user_code import call_logging_errors
from celery_sharding.codec import decode, encode
from celery_sharding.errors import ItemNotSerializable, JobFailed
from celery_sharding.flow.outcomes import report_cancelled
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.base import StageLease
from celery_sharding.ledger.reading import Reading
from celery_sharding.ledger.reasons import reason_of
from celery_sharding.messages import RESENT, RUN, SENT_BY, from_request
from celery_sharding.model import Outcome, Stage
from celery_sharding.process import holder_name
from celery_sharding.processor import Processor
from celery_sharding.runner.shard_worker import ShardWorker
from celery_sharding.settings import ShardingSettings
from celery_sharding.stages import delivery, planning
from celery_sharding.stages.delivery import delivered
from celery_sharding.stages.leases import (
    free_abandoned,
    headers_of,
    judged,
    leaving,
    retrying,
)
from celery_sharding.stages.notifying import notify

__all__ = ["delivered", "headers_of", "notify"]

logger = logging.getLogger(__name__)

BEGUN = 3
"""How often Post is begun in a run, at most: if it kills its process it would again."""
TRIES = 60
"""How often what Post came to is written to a ledger that does not answer: it may have
cost hours."""
NOTIFIES = 60.0
"""Seconds for which Post waits for a Notify that another process calls."""
WAITS = 60.0
"""Seconds for which Post's iterators wait for a ledger that does not answer."""


def post(
    app: Any, ledger: Ledger, processor: Processor, task_id: str, *, run: int
) -> Any:
    """Return what the job returns, or raise why it failed: the ledger has it by then.

    Ignore: another runs Post, or did, or the job was decided meanwhile. What Post did
    here counts for nothing then.
    """
    lease = ShardingSettings.read(app.conf).lease
    turn = ledger.outcomes.begin_post(task_id, holder_name(), lease, run=run)
    if turn is None:
        raise Ignore
    until = delivery.Until()
    with leaving(ledger, turn.job, turn.epoch), ExitStack() as stack:
        stack.enter_context(delivery.renewing(app, turn.job, turn.epoch, until))
        # Messages of Notify may have been lost, and after Post they are not checked any
        # more.
        if processor.notify is not None:
            notify(app, task_id, waits=NOTIFIES)
        body, failure = _run(ledger, processor, turn)
        if not _written(ledger, turn, body, failure, lease):
            logger.warning(
                "sharding: PostProcess of %s ended too late, its lease was over: what"
                " it came to counts for nothing",
                task_id,
            )
            raise Ignore
        delivery.keep_until_delivered(task_id, stack.pop_all(), until)
    if run > 1:
        delivery.forget(app, turn.task, task_id)
    if failure is not None:
        raise failure
    return None if body is None else decode(body)


def _run(
    ledger: Ledger, processor: Processor, turn: StageLease
) -> tuple[bytes | None, Exception | None]:
    """Return what Post returned, encoded, or what it raised."""
    if turn.attempts > BEGUN:
        message = (
            f"PostProcess was begun {BEGUN} times and did not come to its end: its"
            " process died each time, or lost the ledger"
        )
        return None, JobFailed(message)
    returned: list[Any] = []
    if processor.post_process is None:
        returned.append({"total": turn.total, "done": turn.done, "failed": turn.failed})
    else:
        error = call_logging_errors(
            f"PostProcess of {turn.task} ({turn.task_id})",
            lambda: returned.append(_call(ledger, processor, turn)),
        )
        if error is not None:
            return None, judged(error, f"PostProcess of {turn.task}")
    try:
        return encode(
            returned[0], what=f"what PostProcess of {turn.task} returned"
        ), None
    except ItemNotSerializable as refused:
        return None, refused


def _call(ledger: Ledger, processor: Processor, turn: StageLease) -> Any:
    assert processor.post_process is not None  # noqa: S101  # asked before
    reading = Reading(ledger.database, waits=WAITS)
    return processor.post_process(
        turn.as_job(),
        reading.each_result(turn.task_id),
        reading.each_error(turn.task_id),
    )


def _written(
    ledger: Ledger,
    turn: StageLease,
    body: bytes | None,
    failure: Exception | None,
    lease: float,
) -> bool:
    """Write the outcome to the ledger, with retries; return whether it stands.

    The epoch keeps it from counting where another has begun Post meanwhile.
    """
    error = None if failure is None else reason_of(failure)
    done = partial(ledger.outcomes.post_done, turn, body, error=error, lease=lease)
    return retrying(done, TRIES)


def run_stage(
    app: Any,
    processor: Processor,
    request: Any,
    *,
    worker: ShardWorker | None = None,
    begin: planning.Begin | None = None,
) -> Any:
    """Return what the job returns, or raise why it failed, for Celery's tracer.

    Raises Ignore where there is nothing to report to Celery yet, or not by this
    process, and DatabaseUnavailable where the ledger does not answer: then the message
    should be delivered once more, and nothing is lost if it is not.

    ``begin``: runs shards of a job that was planned here, for a while. If they are all
    that there are Post follows at once.
    """
    task_id = str(request.id)
    ledger = at(app)
    headers = request.headers or {}
    if headers.get(SENT_BY) != RESENT:
        ledger.submissions.reached(task_id, from_request(request))
    free_abandoned(ledger, headers)
    stands = ledger.outcomes.stage_of(task_id)
    if stands is None:
        raise Ignore
    stage, run = stands
    if stage in (Stage.SUBMITTED, Stage.PLANNING):
        planned = planning.plan(app, processor, task_id, worker, begin=begin)
        stands = ledger.outcomes.stage_of(task_id) if planned and begin else None
        if stands is None:
            raise Ignore
        stage, run = stands
    # A message of an earlier run carries chain and links, which had their turn.
    if run != int(headers.get(RUN, 1)):
        raise Ignore
    if stage is Stage.POSTING:
        value = post(app, ledger, processor, task_id, run=run)
    elif stage is Stage.DELIVERING:
        value = _deliver(app, ledger, task_id, run)
    else:
        raise Ignore
    if not request.ignore_result and not delivery.answers(app, request.task, task_id):
        delivery.put_off(task_id)
        raise Ignore
    return value


def _deliver(app: Any, ledger: Ledger, task_id: str, run: int) -> Any:
    decided = ledger.outcomes.decided(task_id)
    if decided is not None and decided.outcome is Outcome.CANCELLED:
        report_cancelled(app, ledger, task_id, run=run)
        raise Ignore
    return delivery.deliver(app, ledger, task_id, run=run)

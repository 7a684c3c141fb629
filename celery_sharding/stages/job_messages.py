"""A job message arrived: the ledger says what is next, and this process does it."""

from __future__ import annotations

from typing import Any

from celery.exceptions import Ignore

from celery_sharding.flow.cancelled import report_cancelled
from celery_sharding.ledger import Ledger, at
from celery_sharding.messages import RESENT, RUN, SENT_BY, from_request
from celery_sharding.model import Outcome, Stage
from celery_sharding.processor import Processor
from celery_sharding.stages import delivery, planning, posting
from celery_sharding.stages.abandoning import free_abandoned
from celery_sharding.stages.interrupting import Worker


def run_stage(
    app: Any,
    processor: Processor,
    request: Any,
    task_id: str | None = None,
    *,
    worker: Worker | None = None,
    begin: planning.Begin | None = None,
) -> Any:
    """Return what the job returns, or raise why it failed, for Celery's tracer.

    Raises Ignore where there is nothing to report to Celery yet, or not by this
    process, and DatabaseUnavailable where the ledger does not answer: then the message
    should be delivered once more, and nothing is lost if it is not.

    ``begin``: runs shards of a job that was planned here, for a while. If they are all
    that there are Post follows at once.
    """
    task_id = task_id or str(request.id)
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
        value = posting.post(app, ledger, processor, task_id, run=run)
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

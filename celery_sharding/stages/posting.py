"""PostProcess: run by one process at a time, and what it comes to counts once."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from functools import partial
from typing import Any

from celery.exceptions import Ignore

from celery_pecker.kernel.user_code import call_logging_errors
from celery_sharding.codec import decode, encode
from celery_sharding.errors import ItemNotSerializable, JobFailed
from celery_sharding.flow.holder import holder_name
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.posting import PostLease
from celery_sharding.ledger.reading import Reading
from celery_sharding.ledger.reasons import reason_of
from celery_sharding.processor import Processor
from celery_sharding.settings import ShardingSettings
from celery_sharding.stages import delivery
from celery_sharding.stages.abandoning import judged, leaving, retrying
from celery_sharding.stages.notifying import notify

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
    ledger: Ledger, processor: Processor, turn: PostLease
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


def _call(ledger: Ledger, processor: Processor, turn: PostLease) -> Any:
    assert processor.post_process is not None  # noqa: S101  # asked before
    reading = Reading(ledger.database, ledger.now, waits=WAITS)
    return processor.post_process(
        turn.as_job(),
        reading.each_result(turn.task_id),
        reading.each_error(turn.task_id),
    )


def _written(
    ledger: Ledger,
    turn: PostLease,
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

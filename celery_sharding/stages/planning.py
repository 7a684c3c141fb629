"""PreProcess, and what comes of it: shards in the ledger."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from celery_pecker import deadline
from celery_pecker.kernel.errors import LeaseLost
from celery_pecker.kernel.user_code import call_logging_errors
from celery_sharding.codec import decode
from celery_sharding.errors import JobDeadlineExceeded, JobFailed, Misconfigured
from celery_sharding.flow import advance_job, serving
from celery_sharding.flow.holder import holder_name
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.base import StageLease
from celery_sharding.ledger.plans import Written
from celery_sharding.ledger.reasons import reason_of
from celery_sharding.ledger.submissions import ITEMS, names_items
from celery_sharding.model import Outcome, Placement
from celery_sharding.plan import cut, from_stored
from celery_sharding.plan.arguments import join
from celery_sharding.processor import Processor
from celery_sharding.settings import ShardingSettings
from celery_sharding.spool import Spool
from celery_sharding.stages.abandoning import judged, leaving, retrying
from celery_sharding.stages.interrupting import Interruption, Worker
from celery_sharding.stages.lease_renewal import LeaseRenewal

logger = logging.getLogger(__name__)

BEGUN = 3
"""How often PreProcess is begun, at most: what killed its process would do so again."""
TRIES = 5
"""How often a plan is written to a ledger that does not answer."""
BRIEFLY = 5.0
"""Seconds for which a frozen process may keep others from a job that it decides."""


Begin = Callable[[int, int], object]
"""Runs shards of the job of that number, which has so many."""


def plan(
    app: Any,
    processor: Processor,
    task_id: str,
    worker: Worker | None = None,
    *,
    begin: Begin | None = None,
) -> bool:
    """Plan the job; return whether this process brought it past planning.

    False: it is planned already, or another is at it, or took over meanwhile; what was
    done here counts for nothing then. PreProcess is ended if the job is decided, at its
    deadline, and if ``worker`` is to stop. Raises DatabaseUnavailable where the ledger
    does not answer; once this process' lease has lapsed the job is planned anew.

    ``begin``: what this process runs of the shards, before any of their messages.
    """
    ledger = at(app)
    lease = ShardingSettings.read(app.conf).lease
    turn = ledger.plans.begin(task_id, holder_name(), lease)
    if turn is None:
        return False
    if turn.attempts > BEGUN:
        message = (
            f"PreProcess was begun {BEGUN} times and did not come to its end: its"
            " process died each time, or lost the ledger"
        )
        return _fail(app, ledger, turn, JobFailed(message))
    interruption = Interruption(worker.pool if worker else "", turn.deadline_in)
    renewal = LeaseRenewal(
        app,
        lease,
        lambda mine: mine.plans.renew(turn, lease),
        stopping=lambda: worker is not None and worker.stopping,
        end=interruption.end,
    )
    limit = ShardingSettings.read(app.conf).plan_limit
    with leaving(ledger, turn.job, turn.epoch), Spool(limit) as spool, renewal:
        call = _Call(app, processor, turn, ledger, interruption)
        failure = call_logging_errors(
            f"PreProcess of {turn.task} ({task_id})",
            copy_context().run,
            call.cut_into,
            spool,
        )
        if call.ended or (interruption.wanted and failure is not None):
            return _stopped(app, ledger, turn, renewal)
        if failure is not None:
            return _fail(app, ledger, turn, failure)
        written = _write(ledger, turn, spool, renewal)
    if written is None or begin is None or turn.options.placement is Placement.EVEN:
        advance_job(app, ledger, turn.job)
    elif written.shards:
        begin(turn.job, written.shards)
    return written is not None


def _stopped(app: Any, ledger: Ledger, turn: StageLease, renewal: LeaseRenewal) -> bool:
    """Leave the job to another worker unless it is decided; return False."""
    ledger.close()  # it may have been in the middle of a statement
    if not renewal.lost:
        ledger.outcomes.leave(turn.job, turn.epoch, counts=False)
        advance_job(app, ledger, turn.job)
    logger.warning("sharding: PreProcess of %s was ended", turn.task_id)
    return False


class _Call:
    """A job's call on its way to shards."""

    def __init__(
        self,
        app: Any,
        processor: Processor,
        turn: StageLease,
        ledger: Ledger,
        interruption: Interruption,
    ) -> None:
        self.ended = False
        """Whether it was ended from outside, which is no failure of its code."""
        self._interruption = interruption
        self._conf = app.conf
        self._processor = processor
        self._turn = turn
        self._ledger = ledger
        # No worker was announced yet: as many shards as may run at once.
        self._executors = ledger.upkeep.slots() or turn.options.concurrency
        even = turn.options.placement is Placement.EVEN
        self._serving = serving(app, ledger, turn.job) if even else []

    def cut_into(self, spool: Spool) -> None:
        """Cut all shards into the spool; raise what the user's code raises."""
        turn = self._turn
        ended = self._interruption
        scope: deadline.Scope | None = None
        try:
            with ended.bounding() as scope:
                shards = cut(
                    ended.each(self._data()),
                    turn.options,
                    self._executors,
                    conf=self._conf,
                    owners=self._owners(),
                    limit=spool.limit,
                )
                spool.take(shards)
        except deadline.DeadlineExceeded as error:
            if ended.wanted:
                self.ended = True
                return
            if scope is None or not scope.expired:
                raise
            self._ledger.close()  # it may have been in the middle of a statement
            message = (
                f"the job was to end within {turn.options.deadline:g} s of its"
                " submission, and was not planned by then"
            )
            raise JobDeadlineExceeded(message) from error

    def _owners(self) -> list[str]:
        """Return the workers that shards are dealt to: those that tickets can reach.

        None, if no worker runs yet: then shards have no owner.
        """
        owners = [one.hostname for one in self._serving if one.direct_queue]
        if self._serving and not owners:
            message = (
                "placement='even' needs worker_direct=True: shards belong to workers,"
                " and their tickets reach a worker by a queue of its own only; none of"
                f" {', '.join(one.hostname for one in self._serving)} has one"
            )
            raise Misconfigured(message)
        return owners

    def _data(self) -> Any:
        """Return the job's data: what PreProcess returns, or the first argument."""
        turn, pre_process = self._turn, self._processor.pre_process
        joined, kwargs = join(turn.args, turn.kwargs, turn.sources)
        args = [_with_items(self._ledger, one) for one in joined]
        if pre_process is not None:
            job = turn.as_job(args=tuple(args), kwargs=kwargs)
            return pre_process(job, *args, **kwargs)
        if not args:
            message = (
                f"{turn.task} has no pre_process: its items are to be passed as the"
                " first argument"
            )
            raise Misconfigured(message)
        return args[0]


def _with_items(ledger: Ledger, argument: Any) -> Any:
    """Return an argument as the caller passed it: items for what names them."""
    if names_items(argument):
        return from_stored(decode(ledger.submissions.load(argument[ITEMS])))
    return argument


def _write(
    ledger: Ledger, turn: StageLease, spool: Spool, renewal: LeaseRenewal
) -> Written | None:
    """Return the plan that stands. A ledger that does not answer is asked again."""
    try:
        return retrying(lambda: ledger.plans.write(turn, spool), TRIES, renewal.wait)
    except LeaseLost as error:
        # Or an earlier try of ours did stand, and its answer was lost.
        logger.warning("sharding: a plan was not written: %s", error)
        return None


def _fail(app: Any, ledger: Ledger, turn: StageLease, failure: BaseException) -> bool:
    """Fail the job, unless another process has it by now; return whether."""
    reason = reason_of(judged(failure, f"PreProcess of {turn.task}"))
    with ledger.plans.bounded(BRIEFLY):
        decided = ledger.plans.renew(turn, turn.lease) and ledger.outcomes.decide(
            turn.job, Outcome.FAILED, error=reason
        )
    if decided:
        advance_job(app, ledger, turn.job)
    return decided

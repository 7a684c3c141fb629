"""PreProcess, and what comes of it: shards in the ledger.

It is ended from outside where its job was decided, or its worker is to stop:

prefork, solo   wherever it is, but in C
gevent          where it waits
all pools       when its generator, or another iterable, gives its next item
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from celery_pecker import deadline
from celery_pecker.deadline.budget import ENDLESS
from celery_pecker.kernel.clock import monotonic, pause
from celery_pecker.kernel.errors import LeaseLost
from celery_pecker.kernel.user_code import call_logging_errors
from celery_sharding.errors import JobDeadlineExceeded, JobFailed, Misconfigured
from celery_sharding.flow import advance_job, serving
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.base import StageLease
from celery_sharding.ledger.plans import Written
from celery_sharding.ledger.reasons import reason_of
from celery_sharding.model import Outcome, Placement
from celery_sharding.plan import cut
from celery_sharding.plan.arguments import join
from celery_sharding.process import holder_name
from celery_sharding.processor import Processor
from celery_sharding.runner.shard_worker import ShardWorker
from celery_sharding.settings import ShardingSettings
from celery_sharding.spool import PLAN_BYTES, Spool
from celery_sharding.stages.leases import LeaseRenewal, judged, leaving, retrying

logger = logging.getLogger(__name__)

TURN, LET = 0.05, 0.01
"""Seconds after which a greenlet that gives items lets others run, and for how long.
The whole worker stood still otherwise."""


class Interruption:
    """Code that another thread may end before its time, as if by a deadline."""

    def __init__(self, pool: str, seconds: float | None) -> None:
        """Take the ``seconds`` until the code's own deadline; None: it has none."""
        self._pool = pool
        self._greenlet = pool in {"gevent", "eventlet"}
        self._seconds = ENDLESS if seconds is None else seconds
        self._turn = threading.Lock()
        self._scope: deadline.Scope | None = None
        self._enforced: Any = None
        self.wanted = False
        """Whether the code is to end."""

    @contextmanager
    def bounding(self) -> Iterator[deadline.Scope]:
        """Raise DeadlineExceeded in the block at its deadline, or once it is to end."""
        with deadline.within(self._seconds) as scope:
            enforced = deadline.enforce(self._pool)
            with enforced:
                with self._turn:
                    self._scope, self._enforced = scope, enforced
                try:
                    self.check()
                    yield scope
                finally:
                    with self._turn:
                        self._scope = self._enforced = None

    def end(self) -> None:
        """End the code; for another thread. Once is enough."""
        with self._turn:
            if self.wanted:
                return
            self.wanted = True
            if self._scope is not None and self._scope.budget is not None:
                self._scope.budget.at = monotonic()
                check_now = getattr(self._enforced, "check_now", None)
                if check_now is not None:
                    check_now()

    def check(self) -> None:
        """Raise DeadlineExceeded if the code is to end."""
        if self.wanted:
            raise deadline.DeadlineExceeded(
                "its job was decided, or its worker is to stop"
            )

    def each(self, data: Any) -> Any:
        """Return it; what may have no end is looked at between two of its items."""
        if isinstance(data, Collection) or not isinstance(data, Iterable):
            return data
        return self._looked_at(data)

    def _looked_at(self, items: Iterable[Any]) -> Iterator[Any]:
        turn = monotonic()
        for item in items:
            if self._greenlet and monotonic() - turn > TURN:
                # The check whether the job was decided runs in a greenlet, too.
                pause(LET)
                turn = monotonic()
            self.check()
            yield item


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
    worker: ShardWorker | None = None,
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
    with leaving(ledger, turn.job, turn.epoch), Spool(PLAN_BYTES) as spool, renewal:
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


@dataclass(eq=False, repr=False)
class _Call:
    """A job's call on its way to shards."""

    app: Any
    processor: Processor
    turn: StageLease
    ledger: Ledger
    interruption: Interruption

    def __post_init__(self) -> None:
        self.ended = False
        """Whether it was ended from outside, which is no failure of its code."""
        self._conf = self.app.conf
        # No worker was announced yet: as many shards as may run at once.
        self._executors = self.ledger.upkeep.slots() or self.turn.options.concurrency
        even = self.turn.options.placement is Placement.EVEN
        self._serving = serving(self.app, self.ledger, self.turn.job) if even else []

    def cut_into(self, spool: Spool) -> None:
        """Cut all shards into the spool; raise what the user's code raises."""
        turn = self.turn
        ended = self.interruption
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
            self.ledger.close()  # it may have been in the middle of a statement
            raise JobDeadlineExceeded(
                f"the job was to end within {turn.options.deadline:g} s of its"
                " submission, and was not planned by then"
            ) from error

    def _owners(self) -> list[str]:
        """Return the workers that shards are dealt to: those that tickets can reach.

        None, if no worker runs yet: then shards have no owner.
        """
        owners = [one.hostname for one in self._serving if one.direct_queue]
        if self._serving and not owners:
            raise Misconfigured(
                "placement='even' needs worker_direct=True: shards belong to workers,"
                " and their tickets reach a worker by a queue of its own only; none of"
                f" {', '.join(one.hostname for one in self._serving)} has one"
            )
        return owners

    def _data(self) -> Any:
        """Return the job's data: what PreProcess returns, or the first argument."""
        turn, pre_process = self.turn, self.processor.pre_process
        joined, kwargs = join(turn.args, turn.kwargs, turn.sources)
        args = [self.ledger.submissions.with_items(one) for one in joined]
        if pre_process is not None:
            job = turn.as_job(args=tuple(args), kwargs=kwargs)
            return pre_process(job, *args, **kwargs)
        if not args:
            raise Misconfigured(
                f"{turn.task} has no pre_process: its items are to be passed as the"
                " first argument"
            )
        return args[0]


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

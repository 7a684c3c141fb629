"""The body of a ticket's message: take it, run shards for a slice, pass it on."""

import logging
import signal
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

from celery import Celery
from kombu.utils.imports import symbol_by_name

from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.once_a_minute import OnceAMinute
from celery_pecker.kernel.user_code import call_logging_errors
from celery_sharding import flow, pace
from celery_sharding.errors import DatabaseUnavailable, ProcessorNotRegistered
from celery_sharding.ledger import Ledger, at
from celery_sharding.messages import as_called
from celery_sharding.model import Hold, Job, Placement, Turn
from celery_sharding.process import ended_by_signal, process_end
from celery_sharding.processor import Processor
from celery_sharding.runner.hold_renewal import HoldRenewal
from celery_sharding.runner.holding import Holding
from celery_sharding.runner.shard_worker import executor_of
from celery_sharding.runner.slice import Batches, Slice
from celery_sharding.runner.step_writer import Stop, Work
from celery_sharding.settings import ShardingSettings

logger = logging.getLogger(__name__)

SOON = 1.0
"""Seconds until it is asked once more, where the gate names no time."""
OPEN = (True, 0.0)


GATE = "throttle:Gate"
"""What makes the gate of tasks that have none of their own, called with the app, where
that has limits."""


def admitted(processor: Processor, app: Celery) -> float | None:
    """Return None where shards may run, else the seconds until the next question.

    A gate that fails lets pass, and is logged: it is there to be polite.
    """
    database = processor.options.database or _named(processor.throttle)
    limits = app.conf.get("throttle_limits")
    if database is None or (processor.gate is None and not limits):
        return None
    passes, retry_in = user_code.call(
        f"the gate of {processor.name}", OPEN, _ask, processor, database, app
    )
    return None if passes else retry_in


def _named(throttle: object) -> str | None:
    database = throttle[0] if isinstance(throttle, tuple) and throttle else throttle
    return database if isinstance(database, str) else None


def _ask(processor: Processor, database: str, app: Celery) -> tuple[bool, float]:
    gate = processor.gate
    if gate is None:
        gate = processor.gate = symbol_by_name(GATE)(app)
    if isinstance(gate, type) or not hasattr(gate, "admit"):
        # Made in the process that uses it, not in the one that imports the task.
        gate = processor.gate = gate()
    answer: Any = gate.admit(database, 1.0)
    if isinstance(answer, bool):
        return answer, SOON
    passes, retry_in = bool(answer[0]), answer[-1]
    return passes, max(float(retry_in), 0.05)


STRANGE = 1.0
"""Seconds until a ticket is offered once more whose processor is not known here, or
whose source is away."""


class Runner:
    """Takes the tickets that come to one app in this process."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._lease = ShardingSettings.read(app.conf).lease
        self._renewal = HoldRenewal(app)
        self._batches = Batches()
        self._unknown = OnceAMinute(logger, prefix="sharding: ", level=logging.ERROR)

    def work(self, job: int, ticket: int, seq: int, *, shards: int = 0) -> str:
        """Run shards under that ticket, if it is free; return what came of it.

        ``shards``: those of a job that this process planned just now, whose message it
        has in hand. Tickets for the others are sent before the first is run, and Post
        is left to the caller.
        """
        ledger, executor = at(self._app), executor_of(self._app)
        opened = monotonic()
        turn = ledger.tickets.take(
            job,
            ticket,
            seq,
            holder=executor.holder,
            hostname=executor.hostname,
            lease=self._lease,
        )
        if turn is None:
            return "not to be had"
        processor = self._processor(turn)
        wake = STRANGE if processor is None else admitted(processor, self._app)
        if processor is None or wake is not None:
            if processor is None and turn.options.placement is Placement.EVEN:
                ledger.placements.release_worker(job, executor.hostname)
            ledger.tickets.set_idle(turn.hold, wake)
            return "unknown here" if processor is None else "the gate is closed"
        if shards > 1:
            flow.send_open_tickets(self._app, ledger, job)
        lease = turn.options.lease or self._lease
        holding = Holding(ledger, turn, executor, lease, opened)
        return self._hold(holding, processor, owns_message=shards > 0)

    def _hold(
        self, holding: Holding, processor: Processor, *, owns_message: bool
    ) -> str:
        ledger, turn, executor = holding.ledger, holding.turn, holding.executor
        part = Slice(
            app=self._app,
            holding=holding,
            processor=processor,
            work=work_of(turn, executor.pool, holding.opened),
            batch=self._batches.of(turn.hold.job),
            owns_message=owns_message,
        )
        try:
            with self._renewal.keeping(holding, part.hung_item):
                more = part.run(pace.SLICE)
        except BaseException as error:
            if process_end(error) is not None and executor.stops_soon():
                ledger.close()  # it may have been in the middle of a statement
                what = f"giving back {holding}"
                call_logging_errors(what, self._free, ledger, turn.hold)
            raise
        if part.ended:
            return "the last of the job"
        if holding.stop is Stop.LOST:
            return "lost"
        even = turn.options.placement is Placement.EVEN
        if more and not even:
            return self._pass_on(ledger, turn)
        rested = ledger.tickets.set_idle(turn.hold, STRANGE if holding.away else None)
        if even and rested:
            # Not to any worker: to one that has open shards, which may be this one.
            flow.advance_job(self._app, ledger, turn.hold.job)
        return str(holding.stop or part.stop or "nothing to claim")

    def _free(self, ledger: Ledger, hold: Hold) -> None:
        """Free the ticket and its shards for other workers, as this process ends."""
        if ledger.tickets.set_idle(hold):
            flow.advance_job(self._app, ledger, hold.job)

    def _pass_on(self, ledger: Ledger, turn: Turn) -> str:
        hold = turn.hold
        if not ledger.tickets.release(hold, resend=pace.RESEND):
            return "lost"
        ticket = (hold.job, hold.ticket, hold.seq)
        flow.publish_tickets(self._app, ledger, turn, [ticket])
        return "passed on"

    def _processor(self, turn: Turn) -> Processor | None:
        tasks = self._app.tasks
        processor = getattr(tasks.get(turn.task), "processor", None)
        if isinstance(processor, Processor):
            strange = [
                name for name in processor.calls(turn.kwargs) if name not in tasks
            ]
            if not strange:
                return processor
            self._complain(turn, f"task {strange[0]!r}")
        else:
            self._complain(turn, f"sharded task {turn.task!r}")
        return None

    def _complain(self, turn: Turn, what: str) -> None:
        error = ProcessorNotRegistered(
            f"this worker knows no {what}; its job {turn.task_id} waits for one"
            f" that does"
        )
        self._unknown.warning(what, "%s", error)


def work_of(turn: Turn, pool: str, opened: float) -> Work:
    """Return what the shards of a turn have in common."""
    left = turn.deadline_in
    return Work(
        job=Job(
            id=turn.task_id,
            task=turn.task,
            args=turn.args,
            kwargs=dict(turn.kwargs),
            run=turn.run,
            **as_called(turn.continuation),
        ),
        options=turn.options,
        layers=turn.layers,
        pool=pool,
        until=inf if left is None else opened + left,
    )


FIRST = (1, 0)
"""The ticket that a plan begins with, and its number."""


def begin(app: Any, job: int, shards: int) -> str:
    """Run shards of a job that this process planned, for a slice.

    A job that is short ends in the process that began it: no message of it waits
    behind those of other jobs. Where there are more shards, others are called first.
    """
    return work(app, job, *FIRST, shards=shards)


def unlimited(app: Any, task: Any, request: Any) -> bool:
    """Return whether a message of that task may run shards for as long as they take.

    A time limit is for PreProcess and Post, and would end innocent items.
    """
    limits = (*(request.timelimit or ()), task.time_limit, task.soft_time_limit)
    return not executor_of(app).limited and not any(limits)


def work(app: Any, job: int, ticket: int, seq: int, *, shards: int = 0) -> str:
    """Run shards under that ticket, if it is free; return what came of it."""
    runner = _runners.get(app)
    if runner is None:
        runner = _runners[app] = Runner(app)
    try:
        did = runner.work(job, ticket, seq, shards=shards)
    except DatabaseUnavailable as error:
        # If it was held it lapses; what was not written is rerun.
        logger.warning(
            "sharding: ticket %s of job %s is given up: %s", ticket, job, error
        )
        did = "given up"
    if ended_by_signal():
        # The code of an item caught that. The pool takes this process for a dead one.
        raise SystemExit(signal.SIGTERM - 256)
    return did


_runners: WeakKeyDictionary[Any, Runner] = WeakKeyDictionary()

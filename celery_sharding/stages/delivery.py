"""Celery's own tracer gets the outcome: this process has the job until it is stored.

The tracer publishes what follows, stores the result and calls `on_success` or
`on_failure`; they call `delivered`. A process that dies before leaves the job
to the next process when its lease is over: it is reported once more, without Post.
"""

import threading
from contextlib import ExitStack
from typing import Any

from celery.backends.base import BaseKeyValueStoreBackend, DisabledBackend
from celery.exceptions import Ignore

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.user_code import call_logging_errors
from celery_sharding.codec import decode
from celery_sharding.flow.outcomes import raised
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.outcomes import Outgoing
from celery_sharding.process import holder_name
from celery_sharding.settings import ShardingSettings
from celery_sharding.stages.leases import LeaseRenewal, retrying

LONGEST = 120.0
"""Seconds for which a job stays this process' own while its outcome is reported. A
broker and a result backend that are away are waited for by Celery; without an end, a
tracer that failed in between would keep the job from ever being reported."""
TRIES = 10
"""How often it is written down that Celery knows."""

_kept: "dict[str, tuple[ExitStack, Until]]" = {}
"""Leases that are kept by task id, from the stored outcome until Celery knows it, and
until when."""
_turn = threading.Lock()


class Until:
    """A limit that is set later; before, there is none."""

    def __init__(self) -> None:
        self._end: float | None = None

    def set(self, seconds: float) -> None:
        """Let it be over in that many seconds."""
        self._end = monotonic() + seconds

    @property
    def over(self) -> bool:
        """Whether it was set, and is over."""
        return self._end is not None and monotonic() >= self._end


def renewing(app: Any, job: int, epoch: int, until: Until) -> LeaseRenewal:
    """Return the renewal of the lease on Post or its delivery."""
    lease = ShardingSettings.read(app.conf).lease
    return LeaseRenewal(
        app,
        lease,
        lambda mine: not until.over and mine.outcomes.renew_post(job, epoch, lease),
    )


def keep_until_delivered(task_id: str, kept: ExitStack, until: Until) -> None:
    """Keep the lease until `delivered`, or for so long."""
    until.set(LONGEST)
    with _turn:
        former = _kept.get(task_id)
        _kept[task_id] = kept, until
    if former is not None:
        former[0].close()


def deliver(app: Any, ledger: Ledger, task_id: str, *, run: int) -> Any:
    """Return what the job returned, or raise why it failed; Ignore: another does."""
    lease = ShardingSettings.read(app.conf).lease
    delivery = ledger.outcomes.delivery(task_id, holder_name(), lease, run=run)
    if delivery is None:
        raise Ignore
    until = Until()
    with ExitStack() as stack:
        stack.enter_context(renewing(app, delivery.job, delivery.epoch, until))
        keep_until_delivered(task_id, stack.pop_all(), until)
    return outcome_of(app, delivery)


def outcome_of(app: Any, delivery: Outgoing) -> Any:
    """Return the value of a job, or raise its failure."""
    if delivery.run > 1:
        forget(app, delivery.task, delivery.task_id)
    if delivery.error is not None:
        raise raised(app, delivery.error)
    return None if delivery.value is None else decode(delivery.value)


def answers(app: Any, task: str, task_id: str) -> bool:
    """Return whether the result backend can be asked, as Celery will before it stores.

    Celery sends what follows first. With a backend that is away the job would be
    reported without end, and the next step of its chain run as often.
    """
    backend = getattr(app.tasks.get(task), "backend", None) or app.backend
    if not isinstance(backend, BaseKeyValueStoreBackend):
        return True
    what = f"asking the result backend before {task_id} is reported"
    if call_logging_errors(what, backend.get_state, task_id) is not None:
        return False
    with _turn:
        kept = _kept.get(task_id)
    # It was waited for longer than the lease is kept: the job is another's by now.
    return kept is None or not kept[1].over


def put_off(task_id: str) -> None:
    """Leave the delivery to the next process, once this lease is over."""
    _taken(task_id).close()


def _taken(task_id: str) -> ExitStack:
    """Return what keeps the lease, which no other closes from now on."""
    with _turn:
        kept, _ = _kept.pop(task_id, (ExitStack(), None))
    return kept


def forget(app: Any, task: str, task_id: str) -> None:
    """Delete an earlier run's result: Celery would not write over a success."""
    backend = getattr(app.tasks.get(task), "backend", None) or app.backend
    if isinstance(backend, DisabledBackend):
        return
    call_logging_errors(
        f"forgetting the former result of {task_id}", backend.forget, task_id
    )


def delivered(
    app: Any,
    task_id: str,
    error: BaseException | None = None,
    *,
    run: int | None = None,
) -> bool:
    """End the job once Celery has stored its outcome; return whether.

    ``error``: Celery stored a failure. If the job succeeded it was a failure to send
    what follows, and the job is reported once more. ``run``: whose outcome it was.
    """
    kept = _taken(task_id)
    try:
        # Left as it is, all that follows would be sent once more.
        return retrying(
            lambda: at(app).outcomes.delivered(
                task_id, run=run, troubled=error is not None
            ),
            TRIES,
        )
    finally:
        kept.close()

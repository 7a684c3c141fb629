"""Celery is told the outcome by its own tracer: this process has the job until then.

The tracer publishes what follows, stores the result and calls `on_success` or
`on_failure`; `delivered` is said from there. A process that dies before leaves the job
to whoever comes when its lease is over: it is told again, without Post.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import Any

from celery.backends.base import BaseKeyValueStoreBackend, DisabledBackend
from celery.exceptions import Ignore

from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.user_code import survive
from celery_sharding.codec import decode
from celery_sharding.errors import DatabaseUnavailable
from celery_sharding.flow.failure import raised
from celery_sharding.flow.holder import holder_name
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.posting import Delivery
from celery_sharding.settings import ShardingSettings
from celery_sharding.stages.keeping import Keeper

logger = logging.getLogger(__name__)

LONGEST = 120.0
"""Seconds for which a job stays this process' own while its outcome is told. A broker
and a result backend that are away are waited for by Celery; without an end, a tracer
that failed in between would keep the job from ever being told."""
TRIES, PAUSE = 10, 1.0
"""How often it is written down that Celery knows, and seconds between."""

_telling: dict[str, ExitStack] = {}
"""Leases that are kept by task id, from the stored outcome until Celery knows it."""
_until: dict[str, Until] = {}
"""And until when."""
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


def keep(app: Any, job: int, epoch: int, until: Until) -> Keeper:
    """Return what keeps the lease of who runs Post or tells its outcome."""
    lease = ShardingSettings.read(app.conf).lease
    return Keeper(
        app,
        lease,
        lambda mine: not until.over and mine.outcomes.renew_post(job, epoch, lease),
    )


def linger(task_id: str, kept: ExitStack, until: Until) -> None:
    """Keep the lease until `delivered`, or for so long."""
    until.set(LONGEST)
    with _turn:
        former = _telling.pop(task_id, None)
        _telling[task_id], _until[task_id] = kept, until
    if former is not None:
        former.close()


def deliver(app: Any, ledger: Ledger, task_id: str, *, run: int) -> Any:
    """Return what the job returned, or raise why it failed; Ignore: another does."""
    lease = ShardingSettings.read(app.conf).lease
    found = ledger.outcomes.delivery(task_id, holder_name(), lease, run=run)
    if found is None:
        raise Ignore
    until = Until()
    with ExitStack() as stack:
        stack.enter_context(keep(app, found.job, found.epoch, until))
        linger(task_id, stack.pop_all(), until)
    return outcome_of(app, found)


def outcome_of(app: Any, found: Delivery) -> Any:
    """Return the value of a job, or raise its failure."""
    if found.run > 1:
        forget(app, found.task, found.task_id)
    if found.error is not None:
        raise raised(app, found.error)
    return None if found.value is None else decode(found.value)


def answers(app: Any, task: str, task_id: str) -> bool:
    """Return whether the result backend can be asked, as Celery will before it stores.

    Celery sends what follows first. With a backend that is away the job would be told
    again and again, and the next step of its chain run as often.
    """
    backend = getattr(app.tasks.get(task), "backend", None) or app.backend
    if not isinstance(backend, BaseKeyValueStoreBackend):
        return True
    what = f"asking the result backend before {task_id} is told"
    if survive(what, backend.get_state, task_id) is not None:
        return False
    with _turn:
        until = _until.get(task_id)
    # It was waited for longer than the lease is kept: the job is another's by now.
    return until is None or not until.over


def put_off(task_id: str) -> None:
    """Leave the delivery to whoever comes once this lease is over."""
    with _turn:
        kept = _telling.pop(task_id, None)
        _until.pop(task_id, None)
    if kept is not None:
        kept.close()


def forget(app: Any, task: str, task_id: str) -> None:
    """Delete an earlier run's result: Celery would not write over a success."""
    backend = getattr(app.tasks.get(task), "backend", None) or app.backend
    if isinstance(backend, DisabledBackend):
        return
    survive(f"forgetting the former result of {task_id}", backend.forget, task_id)


def delivered(
    app: Any,
    task_id: str,
    error: BaseException | None = None,
    *,
    run: int | None = None,
) -> bool:
    """End the job once Celery has stored its outcome; return whether.

    ``error``: Celery stored a failure. If the job succeeded it was a failure to send
    what follows, and the job is told again. ``run``: the one that was told of.
    """
    with _turn:
        kept = _telling.pop(task_id, None)
        _until.pop(task_id, None)
    try:
        return _end(app, task_id, run=run, troubled=error is not None)
    finally:
        if kept is not None:
            kept.close()


def _end(app: Any, task_id: str, *, run: int | None, troubled: bool) -> bool:
    pause = threading.Event()
    for last in [False] * (TRIES - 1) + [True]:
        try:
            return at(app).outcomes.delivered(task_id, run=run, troubled=troubled)
        except DatabaseUnavailable:
            # Left as it is, all that follows would be sent once more.
            if last:
                raise
            pause.wait(PAUSE)
    return False

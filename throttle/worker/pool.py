"""What the processes and threads of a pool count, and for which task.

The children of prefork have a place each in memory that they share with the worker: a
child that starts takes it by its number, also one that replaces another. Those that are
fresh interpreters (`spawned`) map it by a file. All other pools count in the process of
the worker.
"""

from __future__ import annotations

import os
from typing import Any

from billiard import current_process
from celery import current_app, signals

from celery_pecker.kernel.workers import kind_of, spawns
from throttle.exchange.process import this_process
from throttle.meter import meter
from throttle.worker.running import RUN

SPAWNED = "throttle.worker.spawned"
MEMORY = "CELERY_THROTTLE_MEMORY"
"""Environment variable by which fresh interpreters of a pool find their worker."""
SPARE = 8
"""Places for children that `pool_grow` adds to a running worker."""


def prepare(worker: Any) -> None:
    """Make places in which children count, before the pool starts."""
    rows = max(worker.max_concurrency or 0, worker.concurrency) + SPARE
    if kind_of(worker.pool_cls) == "prefork" and spawns(worker):
        meter.share(rows, variable=MEMORY)
        worker.app.conf.include = (*worker.app.conf.include, SPAWNED)
    else:
        meter.share(rows)
    parent = os.getpid()

    def enter(**_: object) -> None:
        if os.getpid() != parent:  # the solo pool says so in the worker itself
            meter.enter(current_process().index)  # type: ignore[attr-defined]
            tell_runs_apart(worker.app)

    signals.worker_process_init.connect(
        enter, dispatch_uid="throttle.worker.pool", weak=False
    )


def enter_spawned(**_: object) -> None:
    """Count for the worker: this fresh interpreter is a child of it."""
    if meter.join(MEMORY):
        this_process.become_child()
        meter.enter(current_process().index)  # type: ignore[attr-defined]
        tell_runs_apart(current_app)


def counted(consumer: Any) -> None:
    """Let the tasks of a consumer be counted whenever it makes what runs them."""
    update = consumer.update_strategies

    def update_strategies() -> None:
        update()
        tell_runs_apart(consumer.app)

    consumer.update_strategies = update_strategies


def tell_runs_apart(app: Any) -> None:
    """Count what is done from now on as the cost of the run that does it.

    By what runs each task, not by signals: Celery takes 7 µs to send the two that
    stand around a task, also for tasks that no route names.
    """
    for task in app.tasks.values():
        task.__trace__ = _around(task.__trace__)


def _around(trace: Any) -> Any:
    def run(uuid: str, args: Any, kwargs: Any, request: Any = None) -> Any:
        # A task without a route has no cost. What a task calls by `apply` is a part
        # of its own run, and does not come by this way.
        number = request and (request.get("delivery_info") or {}).get(RUN)
        if not number:
            return trace(uuid, args, kwargs, request)
        meter.begin(number)
        try:
            return trace(uuid, args, kwargs, request)
        finally:
            meter.end()

    return run

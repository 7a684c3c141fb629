"""What the processes and threads of a pool count, and for which admitted task.

The children of prefork have a place each in memory that they share with the worker: a
child that starts takes it by its number, also one that replaces another. Those that are
fresh interpreters (`spawned`) map it by a file. All other pools count in the process of
the worker.
"""

import os
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from billiard import current_process
from celery import current_app, signals
from celery.worker import state

from celery_pecker.kernel.workers import kind_of, spawns
from throttle.admission import Accounts
from throttle.exchange.process import this_process
from throttle.meter import meter

RUN = "throttle_run"
"""Where the `delivery_info` that a task is run with says which run it is, in whatever
process. Celery makes that of four fields of a message: no other code can put it there.
What `celery inspect active` shows is the request's own, which stays as it is."""

next_run: Callable[[], int] = count(1).__next__
"""Returns a number that no other run of this process has."""


class Running:
    """Admitted tasks, until they are over, however they end.

    Celery sends no signal: a task may be revoked in the pool's queue, be lost with a
    connection, or with its process. But it strikes the request from its list then.
    """

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._line: deque[tuple[int, Any]] = deque()
        """Looked at in turns, by the thread that adds and the one that collects."""
        self._ended: deque[int] = deque()
        self._unstarted: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._line)

    def add(self, run: int, request: Any) -> None:
        """Note that the request was admitted as that run.

        Two others are let go of if they are over. Kept until the next reading, a tenth
        of a second's requests would outlive Python's young generation, and each full
        collection would come sooner.
        """
        request.request_dict["delivery_info"] = {**request.delivery_info, RUN: run}
        self._look(2)
        self._line.append((run, request))

    def collect(self) -> None:
        """Report to the accounts which are over. For one thread, now and then."""
        self._look(len(self._line))
        ended, unstarted = _taken(self._ended), _taken(self._unstarted)
        if ended or unstarted:
            self._accounts.over(ended, unstarted)

    def _look(self, most: int) -> None:
        line, listed = self._line, state.requests
        for _ in range(most):
            try:
                one = line.popleft()
            except IndexError:
                return
            run, request = one
            # A retry, under the same task id, may have come meanwhile
            if listed.get(request.id) is request:
                line.append(one)
            elif request.time_start is None:
                self._unstarted.append(run)
            else:
                self._ended.append(run)


def _taken(line: deque[int]) -> list[int]:
    return [line.popleft() for _ in range(len(line))]


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

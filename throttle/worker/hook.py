"""Through or held: what happens to each request, and how held ones are released."""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from celery_pecker.kernel.clock import Monotonic, monotonic, now
from throttle.admission import Accounts
from throttle.errors import StoreUnavailable
from throttle.hold import Hold
from throttle.model import Admission, Policy, Target
from throttle.route import Route, load
from throttle.settings import Settings
from throttle.store import open_store
from throttle.worker import pool
from throttle.worker.brokers.broker import Held
from throttle.worker.held_tasks import PERIOD, HeldTasks
from throttle.worker.overflow import Overflow
from throttle.worker.pool import Running, next_run

logger = logging.getLogger("throttle.worker")

ASK: Any = object()
"""In place of a target that has to be asked for."""
TURN = 0.02
"""Seconds after which a look lets the loop go on with other things. On the solo pool a
task runs within the look, so that one is enough."""


class Runtime:
    """Accounts, hold, route, store and counts of one worker, whatever its connection.

    Made before the pool forks, so that its children count into memory that they share
    with the worker.

    Raises:
        Misconfigured: What is configured cannot work; nothing was started.
    """

    def __init__(self, worker: Any, settings: Settings) -> None:
        self.settings = settings
        self.route = Route(load(settings.route), settings.limits)
        self.store = open_store(settings)
        try:
            self.store.check()
        except StoreUnavailable as error:
            logger.warning(
                "throttle: each limit's policy decides until there is an answer: %s",
                error,
            )
        self.accounts = Accounts(settings.limits)
        self.hold: Hold[Held] = Hold(
            settings.limits,
            max_messages=settings.hold_messages,
            max_bytes=settings.hold_bytes,
        )
        pool.prepare(worker)
        self.targets = {
            name: target
            for name, task in worker.app.tasks.items()
            if (target := self._option(task)) is not None or self._free(task)
        }
        """Of tasks for which it is the same whatever the message; None: through."""

    def target(self, request: Any, name: str) -> Target | None:
        """Return where the traffic of a task goes; None: through.

        Of one that `targets` lacks.
        """
        # Celery has decoded the arguments already: to ask for them costs nothing.
        return self.route.target(
            name,
            request.args,
            request.kwargs,
            request.request_dict,
            option=getattr(request.task, "throttle", None),
        )

    def _option(self, task: Any) -> Target | None:
        option = getattr(task, "throttle", None)
        if option is None:
            return None
        return self.route.target(task.name, (), {}, {}, option=option)

    def _free(self, task: Any) -> bool:
        return not self.route.asks and getattr(task, "throttle", None) is None


class Hook:
    """Stands before the function to which Celery hands what may run.

    `offer` runs in the consumer's loop, `turn` there too or, where there is no event
    loop, on the thread or greenlet of the consumer's timer.
    """

    def __init__(
        self, consumer: Any, runtime: Runtime, clock: Monotonic = monotonic
    ) -> None:
        self._runtime = runtime
        self._consumer = consumer
        self._hold = runtime.hold
        self._accounts = runtime.accounts
        self._clock = clock
        self._first = 0
        self._targets: Mapping[str, Any] = runtime.targets
        self.held = HeldTasks(
            consumer, runtime.hold, runtime.accounts, turn=self.turn, clock=clock
        )
        self._pace = self.held.pace
        self._paced = self._pace.waiting
        self._running = Running(runtime.accounts)
        self.overflow = Overflow(runtime.settings, self.held)
        self._through: Callable[[Any], object] = consumer.on_task_request
        consumer.on_task_request = self.offer
        pool.counted(consumer)
        self._lose = consumer.on_connection_error_after_connected
        consumer.on_connection_error_after_connected = self._lost

    # The consumer's life

    def begin(self, consumer: Any) -> None:
        """Take a new connection, of which nothing is held."""
        self.held.begin(self.overflow.begin(consumer))

    def leave(self, consumer: Any) -> None:
        """Forget what is held: the connection is lost, or the worker ends."""
        broker = self.held.broker
        if consumer.connection is not None and broker is not None and self.held:
            held = sorted(self.held, key=lambda one: one.since)
            count = broker.requeue(held)
            logger.info("throttle: %d held tasks went back to their queues", count)
        self.clear()

    def clear(self) -> None:
        """Hold nothing any more: the broker redelivers what was held."""
        self.overflow.end()
        self.held.clear()

    def _lost(self, error: Exception) -> None:
        # Before Celery closes the connection: a timer's thread must not start now what
        # goes back to its queue.
        self.clear()
        self._lose(error)

    # A request comes

    def offer(self, request: Any) -> None:
        """Pass the request to the pool, or hold it, or park it."""
        task = request.task.name
        # In dicts, not by calls: most tasks are of no database, or nothing waits
        target = self._targets.get(task, ASK)
        if target is ASK:
            target = self._runtime.target(request, task)
        if target is None:
            self._through(request)
        elif task in self._paced:
            self._follow(_held(request, target))
        elif self._hold.must_wait(target):
            self._keep(_held(request, target))
        else:
            run = next_run()
            if self._accounts.enter(target, task, run):
                self._running.add(run, request)
                self._through(request)
            else:
                self._keep(_held(request, target))

    def _follow(self, held: Held) -> None:
        # It came with a token of its `rate_limit`, which is for the one before it
        self.held.add_to_pace(held)
        if self.overflow.look():
            first = self._pace.first(held.task, self._admitted)
            if first is not None:
                self._release(first)
        self.held.arm(PERIOD)

    def _keep(self, held: Held) -> None:
        if not self.overflow.takes(held):
            self.held.add(held)

    # What is held

    def turn(self) -> None:
        """Pass held tasks on as far as there is room; remove dead ones."""
        done = False
        try:
            done = not self.overflow.look() or self._let_go()
        finally:
            if self.held:
                self.held.arm(PERIOD if done else 0.0)

    def _let_go(self) -> bool:
        until = self._clock() + TURN
        return (
            self.held.ended.sweep(until, len(self._hold))
            and self._leave_pace(until)
            and self._leave_hold(until)
        )

    def collect(self) -> None:
        """Take in what the exchange has heard just now; on its thread."""
        # A database that has opened is not to wait for the timer: the loop is woken.
        # What a share that is the same lets in comes in by the timer.
        self._running.collect()
        if self._accounts.opened() and self.held and self._consumer.hub is not None:
            self._consumer.hub.call_soon(self._woken)

    def _woken(self) -> None:
        # Beside the timer, which goes on: what this look leaves, the next one takes.
        # A worker with an answer may be the first to turn after a standstill.
        if self.held and self.overflow.look() and not self._let_go():
            self._consumer.hub.call_soon(self._woken)

    def _leave_pace(self, until: float) -> bool:
        for held in self._pace.due(self._admitted):
            self._release(held)
            if self._clock() > until:
                return False
        return True

    def _leave_hold(self, until: float) -> bool:
        databases = deque(self._hold.databases)
        self._first += 1  # another one begins each time
        databases.rotate(-self._first)
        for database in databases:
            for held in self._hold.take(database, self._admission):
                if self._pace.limits(held):
                    self._pace.add(held)
                else:
                    self._pace.pay(held)
                    self._release(held)
                if self._clock() > until:
                    return False
        return True

    def _admission(self, held: Held) -> Admission:
        if not self._pace.limits(held):
            return self._ask(held)
        # It changes the line, if its database lets anything pass: a hold is bounded,
        # and a line of its `rate_limit` is not.
        database = held.target.database
        opened = (
            self._accounts.remaining(database) > 0
            or self._accounts.state(database).policy is Policy.OPEN
        )
        return Admission(opened, 0.0, 0.0 if opened else PERIOD)

    def _admitted(self, held: Held) -> bool:
        return self._ask(held).admitted

    def _ask(self, held: Held) -> Admission:
        run = next_run()
        admission = self._accounts.admit(held.target, held.task, run)
        if admission.admitted:
            self._running.add(run, held.request)
        return admission

    def _release(self, held: Held) -> None:
        self.held.release(held)
        self._through(held.request)


def _held(request: Any, target: Target) -> Held:
    return Held(request=request, since=now().timestamp(), target=target)

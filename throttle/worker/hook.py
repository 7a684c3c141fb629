"""Through or held: what happens to each request, and how held ones are released."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any

from celery.worker import state as _state

from throttle.clock import Monotonic, monotonic, now
from throttle.model import Admission, Policy, Target
from throttle.worker import pool, scheduled
from throttle.worker.brokers.broker import Broker
from throttle.worker.brokers.held import Held
from throttle.worker.overflow import Overflow
from throttle.worker.pace import Pace
from throttle.worker.revoked_or_expired import RevokedOrExpired
from throttle.worker.running import Running, next_run
from throttle.worker.runtime import Runtime

state: Any = _state  # its stubs lack half of it
logger = logging.getLogger("throttle.worker")

ASK: Any = object()
"""In place of a target that has to be asked for."""
PERIOD = 0.05
"""Seconds between two looks at what is held."""
TURN = 0.02
"""Seconds after which a look lets the loop go on with other things. On the solo pool a
task runs within the look, so that one is enough."""


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
        self._armed = False
        self._arming = Lock()
        self._sending = False
        self._more = 0
        self._first = 0
        self._broker: Broker | None = None
        self._targets: Mapping[str, Any] = runtime.targets
        self._pace = Pace(consumer)
        self._paced = self._pace.waiting
        self._ended = RevokedOrExpired(self._all, self._strike, clock)
        self._running = Running(runtime.accounts)
        self._overflow = Overflow(
            runtime.settings,
            runtime.hold,
            held=self._all,
            keep=self._keep_all_the_same,
            forget=self._forget,
        )
        self._through: Callable[[Any], object] = consumer.on_task_request
        consumer.on_task_request = self.offer
        pool.counted(consumer)
        self._lose = consumer.on_connection_error_after_connected
        consumer.on_connection_error_after_connected = self._lost

    # The consumer's life

    def begin(self, consumer: Any) -> None:
        """Take a new connection, of which nothing is held."""
        self._broker = self._overflow.begin(consumer)

    def leave(self, consumer: Any) -> None:
        """Forget what is held: the connection is lost, or the worker ends."""
        broker = self._broker
        if consumer.connection is not None and broker is not None and self.holding:
            held = sorted(self._all(), key=lambda one: one.since)
            count = broker.requeue(held)
            logger.info("throttle: %d held tasks went back to their queues", count)
        self.clear()

    def clear(self) -> None:
        """Hold nothing any more: the broker redelivers what was held."""
        self._overflow.end()
        self._broker = None
        self._hold.clear()
        self._pace.clear()
        self._ended.clear()
        scheduled.clear()
        self._more = 0
        with self._arming:  # Celery cancels what was set while it connected in vain
            self._armed = False

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
            self._follow(self._held(request, target))
        elif self._hold.must_wait(target):
            self._keep(self._held(request, target))
        else:
            run = next_run()
            if self._accounts.enter(target, task, run):
                self._running.add(run, request)
                self._through(request)
            else:
                self._keep(self._held(request, target))

    def _held(self, request: Any, target: Target) -> Held:
        return Held(request=request, since=now().timestamp(), target=target)

    def _follow(self, held: Held) -> None:
        # It came with a token of its `rate_limit`, which is for the one before it
        self._count(held)
        self._pace.add(held)
        if self._overflow.look():
            first = self._pace.first(held.task, self._admitted)
            if first is not None:
                self._release(first)
        self._arm(PERIOD)

    def _keep(self, held: Held) -> None:
        if not self._overflow.takes(held):
            self._count(held)
            self._put(held)

    def _keep_all_the_same(self, held: Held) -> None:
        # It was to be parked, and could not be: nothing more is taken for it
        self._ended.add(held)
        self._put(held)

    def _put(self, held: Held) -> None:
        priority = held.request.delivery_info.get("priority") or 0
        greater_first = self._broker is not None and not self._broker.smaller_first
        self._hold.put(
            held.target,
            held,
            size=held.size,
            priority=-priority if greater_first else priority,
            cost=self._accounts.cost(held.target, held.task),
        )
        self._arm(PERIOD)

    def _count(self, held: Held) -> None:
        scheduled.add(held.request)
        self._ended.add(held)
        if self._broker is not None:
            held.raised = self._broker.raise_prefetch()
            self._more += held.raised
        if self._consumer.hub is None:
            self._send_prefetch()

    def _send_prefetch(self) -> None:
        # An event loop sends it at each of its turns. Without one it would be
        # sent when two seconds have passed without a message. Sending may itself read
        # messages, which are then held and ask for more: that is done by the outer
        # call, or a long rush would be as deep as it is long.
        if self._sending:
            return
        self._sending = True
        qos = self._consumer.qos
        try:
            while qos.prev != qos.value:
                qos.update()
        finally:
            self._sending = False

    # What is held

    def turn(self) -> None:
        """Pass held tasks on as far as there is room; remove dead ones."""
        self._armed = False
        done = False
        try:
            done = not self._overflow.look() or self._let_go()
        finally:
            if self.holding:
                self._arm(PERIOD if done else 0.0)

    def _let_go(self) -> bool:
        until = self._clock() + TURN
        return (
            self._ended.sweep(until, len(self._hold))
            and self._leave_pace(until)
            and self._leave_hold(until)
        )

    def collect(self) -> None:
        """Take in what the exchange has heard just now; on its thread."""
        # A database that has opened is not to wait for the timer: the loop is woken.
        # What a share that is the same lets in comes in by the timer.
        self._running.collect()
        if self._accounts.opened() and self.holding and self._consumer.hub is not None:
            self._consumer.hub.call_soon(self._woken)

    def _woken(self) -> None:
        # Beside the timer, which goes on: what this look leaves, the next one takes.
        # A worker with an answer may be the first to turn after a standstill.
        if self.holding and self._overflow.look() and not self._let_go():
            self._consumer.hub.call_soon(self._woken)

    @property
    def holding(self) -> int:
        """Return how many are held."""
        return len(self._hold) + len(self._pace)

    @property
    def prefetch_more(self) -> int:
        """Return for how many held tasks another message is fetched."""
        return self._more

    def parked(self, database: str) -> int:
        """Return how many messages were parked since the worker started."""
        return self._overflow.parked(database)

    def paced(self, database: str) -> int:
        """Return how many tasks of a database wait for a `rate_limit` of their own."""
        return self._pace.count(database)

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
        self._lower(held)
        scheduled.reserve(held.request)
        self._through(held.request)

    def _strike(self, held: Held) -> None:
        if self._hold.remove(held) or self._pace.remove(held):
            self._lower(held)

    def _lower(self, held: Held) -> None:
        if held.raised and self._broker is not None:
            self._broker.lower_prefetch(held.raised)
            self._more -= held.raised
        held.raised = 0

    def _forget(self, held: Held) -> None:
        # Another worker's by now, or in a parking queue: it must not run in this one
        self._strike(held)
        state.reserved_requests.discard(held.request)
        scheduled.requests.discard(held.request)
        if state.requests.get(held.request.id) is held.request:
            del state.requests[held.request.id]

    def _all(self) -> Iterator[Held]:
        yield from self._hold.items()
        yield from self._pace

    def _arm(self, delay: float) -> None:
        with self._arming:
            if self._armed:
                return
            self._armed = True
        self._consumer.timer.call_after(delay, self.turn)

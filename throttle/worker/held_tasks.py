"""The tasks that this worker holds: they have come, and are not in the pool yet.

Their requests are not reserved but scheduled, as Celery says. Reserved ones would make
the autoscaler grow the pool, and stop a worker with `worker_disable_prefetch`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from threading import RLock
from typing import Any
from weakref import WeakSet, ref

from celery.worker import state as _state
from kombu.utils.functional import maybe_list

from celery_pecker.kernel.clock import Monotonic, monotonic, now
from throttle.admission import Accounts
from throttle.hold import Hold
from throttle.worker.brokers.broker import Broker, Held

state: Any = _state  # its stubs lack half of it

PERIOD = 0.05
"""Seconds between two looks at what is held."""


class Pace:
    """Tasks whose database would let them pass and whose `rate_limit` does not yet.

    Celery takes the token of such a task when it arrives. If it is held then, the token
    is spent, and when its database opens a thousand of its kind would start at once. So
    they need a token each, of Celery's own bucket, when they leave; a newcomer's token
    is used for the one that has waited longest.
    """

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._lock = RLock()
        """Where there is no event loop, a timer's thread takes out what the consumer's
        puts in."""
        self.waiting: dict[str, deque[Held]] = {}
        """By their task; one that none waits of is not in it."""

    def __len__(self) -> int:
        return sum(len(line) for line in self.waiting.values())

    def __iter__(self) -> Iterator[Held]:
        for line in list(self.waiting.values()):
            yield from list(line)

    def count(self, database: str) -> int:
        """Return how many wait for a database."""
        with self._lock:
            return sum(one.target.database == database for one in self)

    def limits(self, held: Held) -> bool:
        """Return whether the task has to wait for its `rate_limit`."""
        bucket = self._bucket(held.task)
        if bucket is None:
            return False
        return held.task in self.waiting or bucket.expected_time(1) > 0

    def pay(self, held: Held) -> None:
        """Use a token of the task."""
        bucket = self._bucket(held.task)
        if bucket is not None:
            bucket.can_consume(1)

    def add(self, held: Held) -> None:
        """Let it wait, behind those of its task."""
        with self._lock:
            self.waiting.setdefault(held.task, deque()).append(held)

    def remove(self, held: Held) -> bool:
        """Remove it; return whether it waited."""
        with self._lock:
            line = self.waiting.get(held.task)
            if line is None or held not in line:
                return False
            line.remove(held)
            if not line:
                del self.waiting[held.task]
            return True

    def clear(self) -> None:
        """Remove all that waits."""
        self.waiting.clear()

    def due(self, admit: Callable[[Held], bool]) -> Iterator[Held]:
        """Yield those that their `rate_limit` lets pass, and that are admitted."""
        for task in list(self.waiting):
            while True:
                bucket = self._bucket(task)
                if bucket is not None and bucket.expected_time(1) > 0:
                    break
                held = self.first(task, admit)
                if held is None:
                    break
                if bucket is not None:
                    bucket.can_consume(1)
                yield held

    def first(self, task: str, admit: Callable[[Held], bool]) -> Held | None:
        """Return the one of that task that has waited longest, if it is admitted."""
        with self._lock:
            line = self.waiting.get(task)
            if not line or not admit(line[0]):
                return None
            held = line.popleft()
            if not line:
                del self.waiting[task]
            return held

    def _bucket(self, task: str) -> Any:
        if self._consumer.disable_rate_limits:
            return None
        return self._consumer.task_buckets[task]


ALL_EVERY = 1.0
"""Seconds between two looks at all that is held, while Celery's list of revocations is
full: it forgets one for each that it learns, and their number says nothing."""
SLACK = 1000
"""Tasks that left before they expired, and are not worth being cleared away yet."""

Expiry = tuple[float, int, ref[Held]]


@dataclass(eq=False, repr=False)
class RevokedOrExpired:
    """Finds held tasks that were revoked or have expired: they leave, and never start.

    Without looking at all that is held.
    """

    held: Callable[[], Iterable[Held]]
    leave: Callable[[Held], object]
    clock: Monotonic = monotonic

    def __post_init__(self) -> None:
        self._expiries: list[Expiry] = []
        self._number = count()
        self._revoked = _revocations()
        self._looked = -ALL_EVERY
        self._suspects: list[Held] = []

    def add(self, held: Held) -> None:
        """Watch one that is held from now on."""
        expires = held.request.expires
        if expires is not None:
            entry = (expires.timestamp(), next(self._number), ref(held))
            heappush(self._expiries, entry)

    def clear(self) -> None:
        """Forget all: nothing is held."""
        self._expiries.clear()
        self._suspects.clear()

    def sweep(self, until: float, holding: int) -> bool:
        """Remove those that are dead; return False if time was too short for all.

        Celery writes each one's result and acknowledges it, on the consumer's thread,
        as it does for those that are dead when they arrive.
        """
        moment = now().timestamp()
        while self._expiries and self._expiries[0][0] < moment:
            held = heappop(self._expiries)[2]()
            if held is not None and held.request.revoked():
                self.leave(held)
            if self.clock() > until:
                return False
        if len(self._expiries) > 2 * holding + SLACK:
            self._expiries = [one for one in self._expiries if one[2]() is not None]
            heapify(self._expiries)
        return self._sweep_revoked(until)

    def _sweep_revoked(self, until: float) -> bool:
        known, moment = _revocations(), self.clock()
        full = len(state.revoked) >= state.revoked.maxlen
        if known != self._revoked or (
            full and not self._suspects and moment - self._looked >= ALL_EVERY
        ):
            self._revoked, self._looked = known, moment
            self._suspects = list(self.held())
        while self._suspects:
            held = self._suspects.pop()
            if held.request.revoked():
                self.leave(held)
            if self.clock() > until:
                return False
        return True


def _revocations() -> tuple[int, int]:
    stamps: Iterable[Any] = state.revoked_stamps.values()
    return len(state.revoked), sum(len(maybe_list(one)) for one in stamps)


CELERYS = hasattr(state, "scheduled_requests")
"""Whether Celery keeps the list, as from 5.7 on: it clears it when the connection is
lost."""
scheduled: Any = state.scheduled_requests if CELERYS else WeakSet()


def schedule(request: Any) -> None:
    """Schedule a request that was reserved."""
    state.reserved_requests.discard(request)
    scheduled.add(request)


def is_scheduled(request: Any) -> bool:
    """Return whether a request is scheduled still: neither let through nor dropped."""
    if request not in scheduled:
        return False
    return CELERYS or not getattr(request, "_already_revoked", False)


@dataclass(eq=False, repr=False)
class HeldTasks:
    """Those in the hold of their database, and those in the line of a `rate_limit`.

    For each of them one more message is fetched, and a timer runs while there are any.
    """

    consumer: Any
    hold: Hold[Held]
    accounts: Accounts
    turn: Callable[[], object]
    """Looks at what is held: called by the consumer's timer."""
    clock: Monotonic = monotonic

    def __post_init__(self) -> None:
        self.pace = Pace(self.consumer)
        self.ended = RevokedOrExpired(self.__iter__, self.remove, self.clock)
        self.broker: Broker | None = None
        """Of the connection that they come by."""
        self.prefetch_more = 0
        """For so many of them another message is fetched."""
        self._armed = False
        self._arming = RLock()  # of a handler of a signal, too: see `Hold`
        self._sending = False

    def __len__(self) -> int:
        return len(self.hold) + len(self.pace)

    def __iter__(self) -> Iterator[Held]:
        yield from self.hold.items()
        yield from self.pace

    def begin(self, broker: Broker) -> None:
        """Take the broker of a new connection."""
        self.broker = broker

    def clear(self) -> None:
        """Hold nothing any more: the broker redelivers what was held."""
        self.broker = None
        self.hold.clear()
        self.pace.clear()
        self.ended.clear()
        if not CELERYS:
            for one in tuple(scheduled):
                if state.requests.get(one.id) is one:
                    del state.requests[one.id]
            scheduled.clear()
        self.prefetch_more = 0
        with self._arming:  # Celery cancels what was set while it connected in vain
            self._armed = False

    # One comes

    def add(self, held: Held) -> None:
        """Hold it until its database lets it through."""
        self._count(held)
        self._put(held)

    def add_to_pace(self, held: Held) -> None:
        """Hold it behind those that wait for the `rate_limit` of its task."""
        self._count(held)
        self.pace.add(held)

    def keep(self, held: Held) -> None:
        """Hold what could not be parked, and fetch nothing more for it."""
        self.ended.add(held)
        self._put(held)

    def _put(self, held: Held) -> None:
        priority = held.request.delivery_info.get("priority") or 0
        greater_first = self.broker is not None and not self.broker.smaller_first
        self.hold.put(
            held.target,
            held,
            size=held.size,
            priority=-priority if greater_first else priority,
            cost=self.accounts.cost(held.target, held.task),
        )
        self.arm(PERIOD)

    def _count(self, held: Held) -> None:
        schedule(held.request)
        self.ended.add(held)
        if self.broker is not None:
            held.raised = self.broker.prefetch.rise(1)
            self.prefetch_more += held.raised
        if self.consumer.hub is None:
            self._send_prefetch()

    def _send_prefetch(self) -> None:
        # An event loop sends it at each of its turns. Without one it would be
        # sent when two seconds have passed without a message. Sending may itself read
        # messages, which are then held and ask for more: that is done by the outer
        # call, or a long rush would be as deep as it is long.
        if self._sending:
            return
        self._sending = True
        qos = self.consumer.qos
        try:
            while qos.prev != qos.value:
                qos.update()
        finally:
            self._sending = False

    # One leaves

    def release(self, held: Held) -> None:
        """Reserve one that was taken out: it goes to the pool now."""
        self._lower(held)
        scheduled.discard(held.request)
        state.task_reserved(held.request)

    def remove(self, held: Held) -> None:
        """Remove it, if it is held."""
        if self.hold.remove(held) or self.pace.remove(held):
            self._lower(held)

    def forget(self, held: Held) -> None:
        """Remove it from Celery's lists too: it must not run in this worker.

        It is another worker's by now, or in a parking queue.
        """
        self.remove(held)
        state.reserved_requests.discard(held.request)
        scheduled.discard(held.request)
        if state.requests.get(held.request.id) is held.request:
            del state.requests[held.request.id]

    def _lower(self, held: Held) -> None:
        if held.raised and self.broker is not None:
            self.broker.prefetch.fall(held.raised)
            self.prefetch_more -= held.raised
        held.raised = 0

    def find(self, task_id: str) -> dict[str, Any]:
        """Return why a task waits here, as JSON can say it; empty: it does not."""
        for one in self:
            if one.request.id == task_id:
                waited, ahead = self.hold.position(one) or (None, None)
                return {
                    **one.target._asdict(),
                    "task": one.task,
                    "seconds": waited,
                    "ahead": ahead,
                }
        return {}

    # When they are looked at

    def arm(self, delay: float) -> None:
        """Have them looked at after so long, unless that is to be done already."""
        with self._arming:
            if self._armed:
                return
            self._armed = True
        self.consumer.timer.call_after(delay, self._fire)

    def _fire(self) -> None:
        self._armed = False
        self.turn()

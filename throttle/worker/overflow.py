"""Where tasks wait that are too many to be held, and how holding is kept up.

A worker holds as many messages and bytes as `throttle_hold_bytes` says. Beyond that

* a queue that serves one database (`queues` of a limit) is paused: its messages wait
  where they are;
* of a queue that serves several, messages that may not pass are parked: they go to a
  queue of their database's own, so that those behind them come through.

Parked messages are consumed while less than half of the bounds is held for their
database, and are held then, however full the hold: parked a second time they would
circulate. Where a running consumer cannot take more (quorum queues), what may not pass
is parked at once, and as much of it is held as the prefetch of the parking allows.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from celery_pecker.kernel.clock import Monotonic, monotonic, now
from throttle.settings import Settings
from throttle.worker.brokers import broker_of
from throttle.worker.brokers.broker import Broker, Callbacks, Held
from throttle.worker.held_tasks import HeldTasks, is_scheduled, schedule

WATCH = 1.0
"""Seconds between two looks at queues and at what is held."""
SLICE = 100
"""Messages that are renewed in one turn of the loop."""
AT_ONCE = 32
"""Messages that are parked in one turn of the loop."""
BACK = 100
"""Messages that are handed back in a second: they are redelivered at once."""
OFTEN = 16
"""Parked messages that come back between two looks at whether there is room."""
LONGEST = 60.0
"""Seconds between two looks at which messages were held too long."""
STANDSTILL = 2.0
"""Seconds without a look, where messages are not renewed, after which the loop reads
first what the broker sent meanwhile: it may have closed the connection."""


@dataclass(eq=False, repr=False)
class Overflow:
    """Stands behind the hold of one worker; begins anew with each connection.

    What it does to the broker is done in the worker's loop, in slices.
    """

    settings: Settings
    held: HeldTasks
    clock: Monotonic = monotonic

    def __post_init__(self) -> None:
        self._queues = self.settings.queues
        self._hold = self.held.hold
        self._consumer: Any = None
        self._broker: Broker | None = None
        self._entry: Any = None
        self._called = False
        self._looked = self.clock()
        self._doubted = False
        """Whether we stood still and the broker has not confirmed since what is
        ours."""
        self._round_at = 0.0
        self._round: list[Held] = []
        self._pending: dict[str, list[Held]] = {}
        self._moving: dict[int, Held] = {}
        self._kept: list[Held] = []
        """Held though they were to be parked: that failed, and is retried."""
        self._paused: dict[str, str] = {}
        self._retry_due = False
        self._came = 0
        self._parked: Counter[str] = Counter()

    # A connection's life

    def begin(self, consumer: Any) -> Broker:
        """Take a new connection, of which nothing is held; return its broker."""
        self._drop()
        self._consumer = consumer
        callbacks = Callbacks(parked=self._arrived, kept=self._stays, gone=self._gone)
        broker = self._broker = broker_of(consumer, self.settings, callbacks)
        self._called = False  # a loop that lost its connection drops its calls
        self._looked, self._doubted = self.clock(), False
        self._round_at = self._looked + self._period(broker)
        self._entry = consumer.timer.call_repeatedly(WATCH, self._watch)
        self._soon()
        return broker

    def end(self) -> None:
        """Leave what was held to the broker: the connection ends."""
        if self._entry is not None:
            self._consumer.timer.cancel(self._entry)
        broker, self._broker, self._entry = self._broker, None, None
        if broker is not None:
            broker.stop()
        self._drop()

    def _drop(self) -> None:
        self._pending.clear()
        self._moving.clear()
        self._kept.clear()
        self._paused.clear()
        self._round.clear()

    def _period(self, broker: Broker) -> float:
        if broker.renewal is not None:
            return broker.renewal
        return min((broker.hold_timeout or LONGEST) / 10, LONGEST)

    # A task may not pass

    def takes(self, held: Held) -> bool:
        """Return whether it is to be parked; if not, it is to be held.

        Costs nothing while there is room.
        """
        broker = self._broker
        if broker is None:
            return False
        database, request = held.target.database, held.request
        if broker.was_parked(request):
            self._came += 1
            if self._came % OFTEN == 0:
                self._attend(broker)
            return False
        if broker.elastic and not self._hold.full:
            return False
        queue = broker.queue_of(request)
        if self._queues.get(queue) == database:
            if broker.elastic and queue not in self._paused:
                # At once: what comes until the next turn is held beyond the bounds
                self._paused[queue] = database
                broker.pause(queue)
            return False
        self._add(held)
        return True

    def _add(self, held: Held) -> None:
        schedule(held.request)
        self._pending.setdefault(held.target.database, []).append(held)
        self._soon()

    def parked(self, database: str) -> int:
        """Return how many messages were parked since the worker started."""
        return self._parked[database]

    def look(self) -> bool:
        """Return whether held tasks may be let through; ask before each time.

        If this process stood still (was stopped, swapped out) its messages may be
        another worker's by now, and what is gone must not run. Until the broker
        has confirmed which are ours, none may.
        """
        broker = self._broker
        if broker is None:
            return True
        moment = self.clock()
        lapse = moment - self._looked
        if lapse > (STANDSTILL if broker.renewal is None else broker.renewal):
            self._doubted = True  # before others see that this was checked
        self._looked = moment
        if self._doubted and not self._cleared(broker, lapse):
            return False
        if self._paused:
            self._resume(broker)
        return True

    def _cleared(self, broker: Broker, lapse: float) -> bool:
        if broker.renewal is None:
            # A connection that was closed meanwhile ends this broker as the loop reads
            self._doubted = lapse > STANDSTILL
        else:
            self._doubted = not broker.renew(self._ours(self.held))
        return not self._doubted

    # In the worker's loop

    def _soon(self) -> None:
        if not self._called:
            self._called = True
            self._consumer.call_soon(self._turn)

    def _watch(self) -> None:
        # On the consumer's timer, which need not be the loop's
        self._retry_due = True
        self._soon()

    def _turn(self) -> None:
        self._called = False
        broker = self._broker
        if broker is None:
            return
        self.look()
        if self._retry_due:
            self._retry_due = False
            self._retry()
        for database, waiting in list(self._pending.items()):
            self._park(broker, database, waiting)
        self._attend(broker)
        if broker.renewal is not None:
            self._renew(broker)
        elif broker.hold_timeout is not None:
            self._hand_back(broker, broker.hold_timeout)

    def _attend(self, broker: Broker) -> None:
        broker.attend([name for name in self.settings.limits if self._room(name)])

    def _resume(self, broker: Broker) -> None:
        for queue, database in list(self._paused.items()):
            if self._room(database):
                del self._paused[queue]
                broker.resume(queue)

    def _room(self, database: str) -> bool:
        """Return whether more may come for a database: half of the bounds is its own.

        If others fill the hold it may still have a few, or it would wait for them.
        """
        waiting = self._hold.waiting(database)
        return not waiting.count or (
            not self._hold.full
            and waiting.count * 2 < self.settings.hold_messages
            and waiting.bytes * 2 < self.settings.hold_bytes
        )

    def _park(self, broker: Broker, database: str, waiting: list[Held]) -> None:
        rest = self._pending[database] = waiting[AT_ONCE:]
        mine = self._ours(waiting[:AT_ONCE])
        self._moving |= {id(one): one for one in mine}
        broker.park(database, mine)
        if rest and len(rest) < len(waiting):
            self._soon()  # some went; the rest is retried a second later

    def _retry(self) -> None:
        kept, self._kept = self._kept, []
        for one in self._ours(kept):
            self.held.forget(one)  # it must not be let through while it is on its way
            self._add(one)

    def _renew(self, broker: Broker) -> None:
        moment = self.clock()
        if not self._round and moment >= self._round_at:
            self._round_at = moment + self._period(broker)
            self._round = [*self.held, *self._moving.values()]
        if self._round:
            some, self._round = self._round[-SLICE:], self._round[:-SLICE]
            broker.renew(self._ours(some))
        if self._round:
            self._soon()

    def _hand_back(self, broker: Broker, hold_timeout: float) -> None:
        moment = self.clock()
        if not self._round and moment >= self._round_at:
            self._round_at = moment + self._period(broker)
            late = now().timestamp() - hold_timeout
            self._round = [one for one in self.held if one.since < late]
        some, self._round = self._round[:BACK], self._round[BACK:]
        for one in self._ours(some):
            if broker.elastic:
                broker.hand_back(one)
            else:  # it must not be let through while it is on its way
                self.held.forget(one)
                self._add(one)

    def _ours(self, held: Iterable[Held]) -> list[Held]:
        # A request that was let through or dropped since is scheduled no more
        return [one for one in held if is_scheduled(one.request)]

    # What the broker tells

    def _arrived(self, held: Held) -> None:
        self._moving.pop(id(held), None)
        self._parked[held.target.database] += 1
        self.held.forget(held)

    def _stays(self, held: Held) -> None:
        # In the hold, or it would be in the way of others when its database has opened
        if self._moving.pop(id(held), None) is not None:
            self.held.keep(held)
            self._kept.append(held)

    def _gone(self, held: Held) -> None:
        self._moving.pop(id(held), None)
        self.held.forget(held)

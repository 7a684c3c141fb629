"""Redis: what is held is renewed, what is moved is moved by a script, once."""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from itertools import repeat
from queue import Empty
from typing import Any

from kombu.transport.redis import QoS
from kombu.utils.json import dumps
from redis.exceptions import ResponseError

from celery_pecker.kernel.clock import monotonic, now
from throttle.settings import Settings
from throttle.worker.brokers.broker import Broker, Callbacks, Held, OtherBroker, Parking

SLICE = 200
"""Messages in one call."""
LONGEST_RENEWAL = 60.0
UNANSWERED = 50
"""Renewals that are remembered: in so many the connection is lost, or Redis is back."""
LOOK = 1.0
"""Seconds between two looks at which parking queues have messages."""

_FOLDER = files(__package__)
PARK = _FOLDER.joinpath("park.lua").read_text(encoding="utf-8")
RENEW = _FOLDER.joinpath("renew.lua").read_text(encoding="utf-8")


def broker_of(consumer: Any, settings: Settings, callbacks: Callbacks) -> Broker:
    """Return what fits, by whether Redis knows what the worker holds."""
    records = isinstance(consumer.task_consumer.channel.qos, QoS)
    kind = RedisBroker if records else UnrecordedRedis
    return kind(consumer, settings, callbacks)


class UnrecordedRedis(OtherBroker):
    """Redis, where `ack_emulation` is off: it does not know what is held."""

    smaller_first = True


class RedisBroker(Broker):
    """Holds by renewing the stamps that kombu gives to deliveries.

    What Redis refuses (out of memory, read only) or cannot be sent stays held. A
    connection that is gone is noticed by the loop, which ends this broker with it.
    """

    smaller_first = True

    def _prepare(self) -> None:
        self.hold_timeout = None
        self._qos: Any = self._channel.qos
        self._errors = (*self._errors, ResponseError)
        self._looked = -LOOK
        self._waiting: frozenset[str] = frozenset()
        """Parking queues that had messages when we looked."""
        self._asked: deque[float] = deque(maxlen=UNANSWERED)
        """Stamps of renewals that Redis did not answer: it may have set them."""
        timeout = float(self._channel.visibility_timeout)
        self.renewal = min(LONGEST_RENEWAL, timeout / 4)

    def renew(self, held: Sequence[Held]) -> bool:
        """Begin the hold of these anew in Redis; report which are gone.

        Returns whether it answered for all of them.
        """
        for some in _slices(held):
            stamp = now().timestamp()
            # Before it is sent: redis-py, so configured, retries by itself
            self._asked.append(stamp)
            arguments = self._stamps()
            for one in some:
                arguments += [one.request.message.delivery_tag, repr(one.since)]
            answers = self._call(RENEW, [self._channel.unacked_index_key], arguments)
            if answers is None:
                return False
            self._asked.remove(stamp)
            for one, ours in zip(some, answers, strict=True):
                if ours:
                    one.since = stamp
                else:
                    self._let_go(one)
                    self._callbacks.gone(one)
        return True

    def _stamps(self) -> list[object]:
        return [len(self._asked), *map(repr, self._asked)]

    def hand_back(self, held: Held) -> None:
        """Return None: Redis holds for as long as we renew."""

    def _end_fetch(self) -> None:
        # It would take the first that goes back, and keep it in a socket that is not
        # read. It ends by itself, within a second; what it brings is put back by kombu.
        if self._channel._in_poll:  # noqa: SLF001 — as kombu does when it closes
            with suppress(Empty):
                self._channel._brpop_read()  # noqa: SLF001 — as above

    def give_back(self, message: Any) -> None:
        """Return a message to its queue; kombu's `reject` pushes to the far end."""
        self._qos.restore_by_tag(message.delivery_tag, leftmost=False)
        self._qos._quick_ack(message.delivery_tag)  # noqa: SLF001 — what its `reject` does, too

    def park(self, database: str, held: Sequence[Held]) -> None:
        """Move these to the parking queue, or keep them; report which."""
        for some in _slices(held):
            keys: dict[str, int] = {}
            arguments = self._stamps()
            for one in some:
                place = keys.setdefault(self._place(database, one), len(keys) + 3)
                info = one.request.message.delivery_info
                tail = dumps([0, info["exchange"], info["routing_key"]])[2:]
                tag = one.request.message.delivery_tag
                arguments += [tag, repr(one.since), place, tail]
            # kombu's prefixing client knows scripts with one key only, prefixes that.
            prefix = self._channel.global_keyprefix
            others = [f"{prefix}{key}" for key in (self._channel.unacked_key, *keys)]
            answers = self._call(
                PARK, [self._channel.unacked_index_key, *others], arguments
            )
            for one, moved in zip(some, answers or repeat(None), strict=False):
                self._tell(one, moved)

    def _tell(self, held: Held, moved: object) -> None:
        if moved is None:
            self._callbacks.kept(held)
            return
        self._let_go(held)
        (self._callbacks.parked if moved else self._callbacks.gone)(held)

    def _place(self, database: str, held: Held) -> str:
        parking = self.parking_of(database, self.queue_of(held.request))
        raw = held.request.message._raw  # noqa: SLF001 — what was sent, as it was sent
        priority = self._channel._get_message_priority(raw, reverse=False)  # noqa: SLF001
        return str(self._channel._q_for_pri(parking.name, priority))  # noqa: SLF001

    def _let_go(self, held: Held) -> None:
        # In this worker only. In Redis the same tag may be another worker's already,
        # and an acknowledgement would take the message from under it.
        message = held.request.message
        held.request.acknowledged = True
        if self._qos._delivered.get(message.delivery_tag) is message:  # noqa: SLF001
            self._qos._quick_ack(message.delivery_tag)  # noqa: SLF001

    def _call(
        self, script: str, keys: list[str], arguments: list[object]
    ) -> list[int] | None:
        """Return what a script answers; None if it may not have run."""
        try:
            with self._channel.conn_or_acquire() as client:
                answers = client.register_script(script)(
                    keys=keys, args=arguments, client=client
                )
        except self._errors as error:
            self._once.warning("redis", "held messages stay in this worker: %s", error)
            return None
        return [int(answer) for answer in answers]

    # Parking

    def attend(self, databases: Collection[str]) -> None:
        """Consume parking queues with messages, as Redis lists them each second.

        An empty one would cost each fetch of the worker four keys more.
        """
        if databases and monotonic() - self._looked >= LOOK:
            self._looked = monotonic()
            self._waiting = self._look(databases)
            for tag, parking in list(self._attended.items()):
                if parking.name not in self._waiting:
                    del self._attended[tag]
                    self._cancel(parking.name, tag)
        super().attend(databases)

    def _exists(self, parking: Parking) -> bool:
        return parking.name in self._waiting

    def _look(self, databases: Collection[str]) -> frozenset[str]:
        steps = self._channel.priority_steps
        names = [parking.name for parking in self._parkings(databases)]
        try:
            with (
                self._channel.conn_or_acquire() as client,
                client.pipeline(transaction=False) as pipe,
            ):
                for name in names:
                    for step in steps:
                        pipe.llen(self._channel._q_for_pri(name, step))  # noqa: SLF001
                lengths = iter(pipe.execute())
        except self._errors as error:
            self._once.warning("parking", "parking queues are not seen: %s", error)
            return self._waiting
        return frozenset(name for name in names if sum(next(lengths) for _ in steps))

    # The channel's

    def _cancel(self, queue: str, tag: str) -> None:
        # A fetch may be on its way. What it brings comes to us: kombu, asked nicely,
        # would send it to the far end of its queue.
        callback = self._channel.connection._callbacks.get(queue)  # noqa: SLF001
        self._channel._basic_cancel(tag)  # noqa: SLF001 — at once, not after a read
        if callback is not None:
            self._channel.connection._callbacks[queue] = callback  # noqa: SLF001


def _slices(held: Sequence[Held]) -> Iterator[Sequence[Held]]:
    for start in range(0, len(held), SLICE):
        yield held[start : start + SLICE]

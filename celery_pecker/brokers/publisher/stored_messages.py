"""Put messages that were built and stored earlier on the broker.

Celery built them at the call, so nothing of Celery's is called here: no router, no
serializer, no signal. What is added is what only the moment of sending knows: the
delivery tag, and how long the message may still wait in the broker.

- *together*: many messages in one go. On Redis one script under the batch's token, all
  or nothing; on RabbitMQ with confirms.
- *alone*: one message, by the same script under a token of its own where that is
  possible, else by kombu's channel. So one that is refused is known by name.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from celery_pecker.brokers.publisher.bulk_lanes import Pushed, StoredLane, prepared
from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.publisher.entities import decode
from celery_pecker.brokers.publisher.message_template import UNREADABLE
from celery_pecker.brokers.publisher.transport import BatchRefused, ScriptRefused
from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.errors import (
    BrokerRefuses,
    BrokerUnavailable,
    PublishUncertain,
)
from celery_pecker.kernel.lease import TrustWindow

MOST_DECLARED = 10_000
"""Texts of queues and exchanges that are decoded once for all messages."""
SPOILED: tuple[type[BaseException], ...] = (ScriptRefused, *UNREADABLE)
"""What is raised where nothing was sent and one by one may do better."""


class StoredPublisher:
    """Puts stored messages on the broker; not for several threads at once."""

    def __init__(self, app: Any, *, timeout: float, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._broker = BrokerConnection(app, timeout=timeout, clock=clock)
        self._entities = lru_cache(MOST_DECLARED)(decode)

    def check(self, message: Message) -> None:
        """Raise ValueError for a message that cannot be read."""
        self._entities(message.declare)

    @property
    def _lane(self) -> StoredLane:
        lane: StoredLane = self._broker.lane(self._broker.transport.stored)
        return lane

    def ensure(self) -> None:
        """Connect, if need be, and hear from the broker that it takes messages.

        Raises:
            BrokerUnavailable: it does not, or does not answer.

        """
        self._broker.ensure()

    def pushed(self, token: str) -> bool:
        """Return whether a batch is known to be on the broker; only Redis can tell.

        Raises:
            BrokerUnavailable: it did not answer.

        """
        self.ensure()
        return self._lane.pushed(token)

    def settle(self, token: str) -> None:
        """Keep a token no longer than needed: its batch is deleted."""
        self._lane.settle(token)

    def is_batchable(self, message: Message) -> bool:
        """Return whether a message can be sent in one go with others.

        Raises:
            BrokerUnavailable: while its exchange was declared, whose type decides.

        """
        if self._lane.asks_exchange and message.exchange:
            self._declare([message])
        return self._lane.takes(message)

    def push(
        self, messages: Sequence[Message], token: str, *, trust: TrustWindow
    ) -> Pushed[int]:
        """Send messages together, each of which `is_batchable`.

        Args:
            messages: Up to a thousand.
            token: Names the batch; Redis pushes nothing under it a second time.
            trust: Until when they may be sent.

        """
        broker, pushed = self._broker, Pushed[int]()
        broker.begin_batch(trust)
        try:
            self.ensure()
            self._declare(messages)
            pushed = self._lane.push(messages, token, self._clock.now())
            broker.note_reply()
        except BatchRefused as error:
            self._judge(error, messages, pushed)
        except SPOILED as error:
            _batches(messages, pushed, error)
        except (BrokerUnavailable, PublishUncertain) as error:
            pushed.broken = error
        return pushed

    def push_alone(
        self, message: Message, token: str, *, trust: TrustWindow
    ) -> Pushed[int]:
        """Send one message; a refusal concerns this message alone.

        Args:
            message: Of any kind.
            token: Names the message; Redis pushes nothing under it a second time,
                unless it refuses scripts or publishes to subscribers.
            trust: Until when it may be sent.

        """
        if self.is_batchable(message):
            pushed = self.push([message], token, trust=trust)
            if pushed.alone and self.is_batchable(message):
                pushed.refused[message.id] = pushed.why
                pushed.alone.clear()
            if not pushed.alone:
                return pushed
        broker, pushed = self._broker, Pushed[int]()
        broker.begin_batch(trust)
        try:
            self.ensure()
            self._declare([message])
            broker.in_time()
            self._by_kombu(message)
            pushed.sent.add(message.id)
        except (BrokerUnavailable, PublishUncertain) as error:
            pushed.broken = error
        except broker.failed_by as error:
            broker.drop()
            pushed.broken = error
        except (*broker.refused_by, *UNREADABLE) as error:
            self._judge(error, [message], pushed)
        if pushed.alone:
            pushed.refused[message.id] = pushed.why
            pushed.alone.clear()
        return pushed

    def close(self) -> None:
        """Close the sockets at once; a push under way fails."""
        self._broker.drop()

    def abandon(self) -> None:
        """Drop the sockets in a fork of the process whose publisher it is."""
        self._broker.abandon()

    def _declare(self, messages: Iterable[Message]) -> None:
        for declare in dict.fromkeys(one.declare for one in messages):
            self._broker.declare_queues(self._entities(declare))

    def _judge(
        self, error: BaseException, messages: Sequence[Message], pushed: Pushed[int]
    ) -> None:
        """Distinguish a broker that refuses everything from a refused message."""
        try:
            self._broker.drop()
            if self._broker.transport.takes_no_writes(
                error
            ):  # even if it does again by now
                raise BrokerRefuses(str(error)) from error
            self.ensure()
        except BrokerUnavailable as away:
            pushed.broken = away
        else:
            _batches(messages, pushed, error)

    def _by_kombu(self, message: Message) -> None:
        """Send one message over kombu's channel, as kombu would send its own."""
        channel = self._broker.channel
        body: bytes | str = message.body
        if channel.body_encoding is None:
            body = message.body.decode(message.content_encoding)
        properties = message.redated(self._clock.now())
        sent = prepared(channel, message, body, properties)
        channel.basic_publish(sent, message.exchange, message.routing_key)


def _batches(
    messages: Sequence[Message], pushed: Pushed[int], error: BaseException
) -> None:
    pushed.alone.update(one.id for one in messages)
    pushed.why = str(error) or type(error).__name__

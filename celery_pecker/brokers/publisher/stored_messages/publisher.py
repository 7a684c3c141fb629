"""Send stored messages by whatever broker there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from kombu.utils.json import loads

from celery_pecker.brokers.publisher.brokers import Kind, takes_no_writes
from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.publisher.message_template import UNREADABLE
from celery_pecker.brokers.publisher.redis_script import BatchRefused, ScriptRefused
from celery_pecker.brokers.publisher.stored_messages.entities import decode
from celery_pecker.brokers.publisher.stored_messages.rabbitmq import StoredRabbit
from celery_pecker.brokers.publisher.stored_messages.redis import StoredRedis
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


@dataclass(slots=True)
class Pushed:
    """What became of messages, by their keys; those in no field were not sent."""

    sent: set[int] = field(default_factory=set)
    refused: dict[int, str] = field(default_factory=dict)
    """They will never be sent as they are, and why."""
    alone: set[int] = field(default_factory=set)
    """One of them spoils the others: they are to be sent one by one."""
    why: str = ""
    """What was wrong when they were sent together."""
    broken: BaseException | None = None
    """Why there is a rest, which may be tried again."""


class StoredPublisher:
    """Puts stored messages on the broker; not for several threads at once."""

    def __init__(self, app: Any, *, timeout: float, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._broker = BrokerConnection(app, timeout=timeout, clock=clock)
        self._redis = StoredRedis(self._broker)
        self._rabbit = StoredRabbit(self._broker)
        self._entities = lru_cache(MOST_DECLARED)(decode)

    def check(self, message: Message) -> None:
        """Raise ValueError for a message that cannot be read."""
        self._entities(message.declare)

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
        return self._broker.kind is Kind.REDIS and self._redis.pushed(token)

    def settle(self, token: str) -> None:
        """Keep a token no longer than needed: its batch is deleted."""
        if self._broker.kind is Kind.REDIS:
            self._redis.settle(token)

    def is_batchable(self, message: Message) -> bool:
        """Return whether a message can be sent in one go with others.

        Raises:
            BrokerUnavailable: while its exchange was declared, whose type decides.

        """
        if self._broker.kind is Kind.REDIS:
            if message.exchange:
                self._declare([message])
            return self._redis.takes(message)
        return self._broker.kind is Kind.RABBITMQ

    def push(
        self, messages: Sequence[Message], token: str, *, trust: TrustWindow
    ) -> Pushed:
        """Send messages together, each of which `is_batchable`.

        Args:
            messages: Up to a thousand.
            token: Names the batch; Redis pushes nothing under it a second time.
            trust: Until when they may be sent.

        """
        broker, pushed = self._broker, Pushed()
        broker.begin_batch(trust)
        try:
            self.ensure()
            self._declare(messages)
            if broker.kind is Kind.RABBITMQ:
                self._confirmed(messages, pushed)
            else:
                self._redis.push(messages, token, self._clock.now())
                pushed.sent.update(one.id for one in messages)
            broker.note_reply()
        except BatchRefused as error:
            self._judge(error, messages, pushed)
        except SPOILED as error:
            _batches(messages, pushed, error)
        except (BrokerUnavailable, PublishUncertain) as error:
            pushed.broken = error
        return pushed

    def push_alone(self, message: Message, token: str, *, trust: TrustWindow) -> Pushed:
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
        broker, pushed = self._broker, Pushed()
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
        """Declare what Celery would; a refusal is the queue's own business.

        It is there then, with other arguments: what is sent to it arrives.
        """
        for declare in dict.fromkeys(one.declare for one in messages):
            try:
                self._broker.declare(self._entities(declare))
            except self._broker.broken_by as error:
                self._broker.drop()
                kind = BrokerRefuses if takes_no_writes(error) else BrokerUnavailable
                msg = f"broker, while declaring queues: {error}"
                raise kind(msg) from error

    def _confirmed(self, messages: Sequence[Message], pushed: Pushed) -> None:
        broker = self._broker
        missing = self._missing(messages)
        for one in messages:
            if one.exchange in missing:
                pushed.refused[one.id] = missing[one.exchange]
        sendable = [one for one in messages if one.id not in pushed.refused]
        sending = self._rabbit.send(sendable, self._clock.now())
        pushed.sent.update(one.id for one in sendable if one.task_id in sending.done)
        for one in sendable:
            if one.task_id in sending.refused and one.id not in pushed.sent:
                pushed.refused[one.id] = sending.refused[one.task_id]
        if isinstance(sending.failure, broker.refused_by):
            rest = {one.id for one in sendable} - pushed.sent - pushed.refused.keys()
            pushed.alone.update(rest)
            pushed.why = str(sending.failure)
        elif sending.failure is not None or sending.lost:
            pushed.broken = sending.failure or TimeoutError("no confirms in time")

    def _missing(self, messages: Sequence[Message]) -> dict[str, str]:
        """Return the exchanges that are not there, and what RabbitMQ says of them."""
        names = {one.exchange for one in messages} - {""}
        try:
            errors = {name: self._rabbit.missing(name) for name in sorted(names)}
        except self._broker.broken_by as error:
            self._broker.drop()
            msg = f"broker, while asking for exchanges: {error}"
            raise BrokerUnavailable(msg) from error
        return {name: why for name, why in errors.items() if why is not None}

    def _judge(
        self, error: BaseException, messages: Sequence[Message], pushed: Pushed
    ) -> None:
        """Distinguish a broker that refuses everything from a refused message."""
        try:
            self._broker.drop()
            if takes_no_writes(error):  # even if it does again by now
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
        prepared = channel.prepare_message(
            body,
            priority=message.priority,
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers=loads(message.headers),
            properties=properties,
        )
        channel.basic_publish(prepared, message.exchange, message.routing_key)


def _batches(messages: Sequence[Message], pushed: Pushed, error: BaseException) -> None:
    pushed.alone.update(one.id for one in messages)
    pushed.why = str(error) or type(error).__name__

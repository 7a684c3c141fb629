"""Stored messages on Redis: the script of the fast lane, under a token of the batch.

The token lives a day: a batch whose relay died between push and delete is known to be
there for as long. Once the batch is deleted, the token is kept for ten more minutes,
for a request that is still on its way.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections import defaultdict, deque
from collections.abc import Sequence
from datetime import datetime
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from celery_pecker.brokers.publisher.bulk_lanes import Pushed, StoredLane
from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.redis.script import RedisScript
from celery_pecker.brokers.redis.transport import UNNAMED
from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.clock import new_tag
from celery_pecker.kernel.errors import BrokerUnavailable

TOKEN_SECONDS = 86_400
SETTLED_MILLISECONDS = 600_000
MOST_SETTLED = 100
"""Tokens of deleted batches that wait for the next push to be shortened."""
LISTED = {"direct", "topic"}
"""Types of exchanges whose messages lie in lists."""


class StoredRedis(StoredLane):
    """Pushes stored messages as kombu's channel would."""

    asks_exchange = True

    def __init__(self, broker: BrokerConnection) -> None:
        super().__init__(broker)
        self._script = RedisScript(broker)
        self._settled: deque[str] = deque(maxlen=MOST_SETTLED)

    def takes(self, message: Message) -> bool:
        """Return whether a script can push this message."""
        channel, exchange = self._broker.channel, message.exchange
        if self._script.refused is not None or channel.body_encoding != "base64":
            return False
        return not exchange or channel.typeof(exchange).type in LISTED

    def push(self, messages: Sequence[Message], token: str, now: datetime) -> Pushed:
        """Push all of them, unless it was done under the token before.

        Raises:
            ScriptRefused: this user may run no scripts; nothing was pushed.
            BrokerUnavailable: nothing was pushed.
            PublishUncertain: all may be there, or nothing.

        """
        channel = self._broker.channel
        priorities = [_priority(channel, message) for message in messages]
        places = self._script.places(
            (one.exchange, one.routing_key, priority)
            for one, priority in zip(messages, priorities, strict=True)
        )
        lists: dict[str, list[bytes]] = defaultdict(list)
        for message, priority in zip(messages, priorities, strict=True):
            text = rendered(message, priority, now)
            for key in places[message.exchange, message.routing_key, priority].lists:
                lists[key].append(text)
        pushed = Pushed(sent={one.id for one in messages})
        if not lists:
            return pushed  # an exchange without a queue: kombu drops the message
        expiring = dict.fromkeys(self._settled, SETTLED_MILLISECONDS)
        for place in places.values():
            expiring.update(place.expiring)
        fingerprint = b"%d" % len(messages)
        self._script.push(
            token, lists, expiring, fingerprint=fingerprint, seconds=TOKEN_SECONDS
        )
        self._settled.clear()
        return pushed

    def pushed(self, token: str) -> bool:
        """Ask whether something was pushed under the token.

        Raises:
            BrokerUnavailable: Redis did not answer.

        """
        broker = self._broker
        try:
            pool = broker.channel.pool
            connection = pool.get_connection(*UNNAMED)
            try:
                connection.send_command(
                    "EXISTS", self._script.key(token), check_health=False
                )
                return bool(connection.read_response())
            finally:
                pool.release(connection)
        except broker.broken_by as error:
            broker.drop()
            message = f"Redis was asked for a token and did not answer: {error}"
            raise BrokerUnavailable(message) from error

    def settle(self, token: str) -> None:
        """Shorten the life of a token at the next push: its batch is deleted."""
        if self._broker.channel is not None:
            self._settled.append(self._script.key(token))


def rendered(message: Message, priority: int, now: datetime) -> bytes:
    """Return the JSON that kombu would push."""
    properties = message.redated(now)
    properties["priority"] = priority if message.priority is None else message.priority
    properties["delivery_info"] = {
        "exchange": message.exchange,
        "routing_key": message.routing_key,
    }
    properties["body_encoding"] = "base64"
    # new for each push: Redis's unacked messages are kept by this tag
    properties["delivery_tag"] = new_tag()
    return (
        f'{{"body": "{b64encode(message.body).decode()}",'
        f' "content-encoding": {quoted(message.content_encoding)},'
        f' "content-type": {quoted(message.content_type)},'
        f' "headers": {message.headers}, "properties": {json.dumps(properties)}}}'
    ).encode()


def _priority(channel: Any, message: Message) -> int:
    """Return the priority by kombu's rule, which also says which list it is."""
    properties = {"properties": {"priority": message.priority or 0}}
    return int(channel._get_message_priority(properties))  # noqa: SLF001 (kombu's rule)

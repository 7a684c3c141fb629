"""The fast lane on Redis: one script for up to a thousand messages, under a token.

What is exact here: up to a thousand messages are pushed together or not at all, and
a message is pushed once under its token, however often it is tried within
`TOKEN_SECONDS`. The token lives beside the messages and is written by the same script,
so a failover that loses the one loses the other. A request that was on its way when we
gave up may still be run later (a frozen server that wakes up): it finds the token
taken and adds nothing.

Stored messages go by the same script, under the token of their batch. It lives a day: a
batch whose relay died between push and delete is known to be there for as long. Once
the batch is deleted, the token is kept for ten more minutes, for a request that is
still on its way.
"""

import json
import zlib
from base64 import b64encode
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from kombu.utils.json import JSONEncoder, dumps

from celery_pecker.brokers.publisher.bulk_lanes import FastLane, Pushed, StoredLane
from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.publisher.lanes import (
    SAMPLE,
    Dispatch,
    LaneRefused,
    NoTemplate,
    names_in,
)
from celery_pecker.brokers.publisher.message_template import (
    Expiry,
    MessageTemplate,
    Route,
    with_places,
)
from celery_pecker.brokers.publisher.transport import BatchRefused, ScriptRefused
from celery_pecker.brokers.redis.script import RedisScript
from celery_pecker.brokers.redis.transport import UNNAMED
from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.clock import new_tag
from celery_pecker.kernel.errors import (
    BrokerRefuses,
    BrokerUnavailable,
    PeckerError,
    PublishUncertain,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisMessage:
    """The JSON of one entry's message, twice: with and without an expiry."""

    route: Route
    priority: int
    expiry: Expiry
    plain: bytes
    dated: bytes

    @classmethod
    def of(cls, template: MessageTemplate, channel: Any) -> "RedisMessage":
        """Return the text that kombu would push, with places for what differs."""
        message, route, marks = template.message, template.route, template.marks
        priority = channel._get_message_priority(message)  # noqa: SLF001 (kombu's rule)
        channel._inplace_augment_message(  # noqa: SLF001 (what basic_publish begins with)
            message, route.exchange, route.routing_key
        )
        message["properties"]["delivery_tag"] = marks.tag
        places = {
            f'"{marks.task_id}"'.encode(): b"%(id)b",
            f'"{marks.header}"'.encode(): b"%(header)b",
            f'"{marks.expires}"'.encode(): b"%(expires)b",
            marks.expiration.encode(): b"%(expiration)b",
            marks.tag.encode(): b"%(tag)b",
        }
        dated = with_places(dumps(message).encode(), places, marks)
        message["headers"]["expires"] = None
        del message["properties"]["expiration"]
        return cls(
            route=route,
            priority=priority,
            expiry=template.expiry,
            plain=with_places(dumps(message).encode(), places, marks),
            dated=dated,
        )

    def render(self, dispatch: Dispatch, header: str, now: datetime) -> bytes:
        """Return the bytes of the message for one slot."""
        stamp = self.expiry.stamp(now, dispatch.expires)
        fields = {
            b"id": quoted(dispatch.task_id).encode(),
            b"header": header.encode(),
            # new for each push: Redis's unacked messages are kept by this tag
            b"tag": new_tag().encode(),
        }
        if stamp is None:
            return self.plain % fields
        fields[b"expires"] = quoted(stamp.header).encode()
        fields[b"expiration"] = stamp.milliseconds.encode()
        return self.dated % fields


#: Messages that one script pushes.
BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainBatch:
    """What was tried under a token whose answer did not come, or came in part.

    Without this a part of a batch that is tried again would be parted anew, and a token
    that was given to other messages would keep it out.
    """

    place: str
    """The server that was asked: another one knows nothing of the token."""
    messages: dict[str, RedisMessage]
    numbers: dict[str, int]
    """The part of the batch that a task's message belongs to, for good."""
    attempts: dict[tuple[str, bytes], frozenset[str]] = field(default_factory=dict)
    """Which tasks a request held, by its token and fingerprint."""

    @classmethod
    def of(
        cls, work: Sequence[tuple[RedisMessage, Dispatch]], *, place: str
    ) -> "UncertainBatch":
        """Return a new batch, parted."""
        return cls(
            place=place,
            messages={dispatch.task_id: message for message, dispatch in work},
            numbers={d.task_id: i // BATCH for i, (_, d) in enumerate(work)},
        )

    def chunks(
        self, work: Sequence[tuple[RedisMessage, Dispatch]]
    ) -> list[tuple[int, list[tuple[RedisMessage, Dispatch]]]]:
        """Return the batch, or what is tried again of it, in its parts.

        A task that was not in the batch before is in a part of its own.
        """
        fresh = max(self.numbers.values(), default=-1) + 1
        parts: dict[int, list[tuple[RedisMessage, Dispatch]]] = defaultdict(list)
        for message, dispatch in work:
            if dispatch.task_id not in self.numbers:
                self.numbers[dispatch.task_id] = fresh
                self.messages[dispatch.task_id] = message
            parts[self.numbers[dispatch.task_id]].append((message, dispatch))
        return sorted(parts.items())


TOKEN_SECONDS = 600
#: Batches of which it is remembered what was tried.
UNSETTLED = 100


class RedisLane(FastLane):
    """Pushes messages onto Redis lists as kombu's channel would."""

    exact = True

    def __init__(self, broker: BrokerConnection, suspects: set[str]) -> None:
        super().__init__(broker, suspects)
        self._json = JSONEncoder()
        self._open: dict[str, UncertainBatch] = {}
        self._script = RedisScript(broker)

    def why_refused(self) -> str | None:
        """Return why Redis refuses scripts to us, for a minute after it did."""
        return self._script.refused

    def build(self, template: MessageTemplate) -> RedisMessage:
        """Return the text that kombu would push, with a place for what differs."""
        channel, route = self._broker.channel, template.route
        if route.exchange and (kind := channel.typeof(route.exchange).type) != "direct":
            raise NoTemplate(f"exchange {route.exchange!r} is of type {kind}")
        return RedisMessage.of(template, channel)

    def check_message(self, message: RedisMessage, now: datetime) -> None:
        """Fill a message in as a slot would; what is odd about its entry is raised."""
        message.render(SAMPLE, self._json.encode({}), now)

    def push(
        self, work: Sequence[tuple[RedisMessage, Dispatch]], token: str, now: datetime
    ) -> None:
        """Put all messages on their lists.

        Raises:
            LaneRefused: none is, since Redis runs no scripts of ours, or refuses one
                of the messages.
            BrokerUnavailable: none is.
            PublishUncertain: `done` are; the others may be. Pushing them, or some of
                them, again under the same token is exact if `retry_safe`.
        """
        open_ = self._open.get(token)
        fresh = open_ is None
        if open_ is None:
            open_ = UncertainBatch.of(work, place=self._place())
        elif open_.place != self._place():
            raise PublishUncertain(
                f"tried at {open_.place}, which is not the broker any more"
            )
        done: set[str] = set()
        for number, chunk in open_.chunks(work):
            try:
                self._push(chunk, f"{token}:{number}", open_, now)
            except (ScriptRefused, BatchRefused) as error:
                spoiled = isinstance(error, BatchRefused)
                if spoiled:  # the slow lane, one by one, finds out by which of them
                    self._suspects |= {dispatch.name for _, dispatch in chunk}
                if fresh and not done:
                    raise LaneRefused(str(error)) from error
                if spoiled:
                    raise PublishUncertain(
                        str(error),
                        done=names_in((dispatch for _, dispatch in work), done),
                    ) from error
                # What was tried by a script may be there: only a script can tell.
                self._keep(token, open_)
                raise BrokerRefuses(str(error)) from error
            except (BrokerUnavailable, PublishUncertain) as error:
                if isinstance(error, BrokerUnavailable) and not done:
                    raise
                self._keep(token, open_)
                raise PublishUncertain(
                    str(error),
                    retry_safe=True,
                    done=names_in((dispatch for _, dispatch in work), done),
                ) from error
            done |= {dispatch.task_id for _, dispatch in chunk}
        self._open.pop(token, None)

    def tried(self, token: str, task_id: str) -> RedisMessage | None:
        """Return what was tried for this task under the token and not settled.

        It has to be tried by this lane again, whatever lane the entry has by now.
        """
        open_ = self._open.get(token)
        return None if open_ is None else open_.messages.get(task_id)

    def _keep(self, token: str, open_: UncertainBatch) -> None:
        self._open[token] = open_
        if len(self._open) > UNSETTLED:
            # What was forgotten is refused by its token if it is tried again.
            self._open.pop(next(iter(self._open)))

    def _place(self) -> str:
        """Return which server this is; behind a Sentinel all are the same."""
        channel = self._broker.channel
        parameters = channel.pool.connection_kwargs
        known = ("host", "port", "path", "db")
        return "/".join(f"{parameters[k]}" for k in known if k in parameters)

    def _push(
        self,
        work: Sequence[tuple[RedisMessage, Dispatch]],
        token: str,
        open_: UncertainBatch,
        now: datetime,
    ) -> None:
        encode = self._json.encode
        texts = (
            (
                (message.route.exchange, message.route.routing_key, message.priority),
                message.render(dispatch, encode(dict(dispatch.header)), now),
            )
            for message, dispatch in work
        )
        ids = [dispatch.task_id for _, dispatch in work]
        fingerprint = b"%08x" % zlib.crc32("".join(ids).encode())
        open_.attempts[token, fingerprint] = frozenset(ids)
        holder = self._script.push(
            token, texts, fingerprint=fingerprint, seconds=TOKEN_SECONDS
        )
        if isinstance(holder, int):
            return
        if not open_.attempts.get((token, holder), frozenset()).issuperset(ids):
            raise PeckerError(
                f"token {token!r} belongs to another batch; this one was not sent"
            )


STORED_TOKEN_SECONDS = 86_400
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

    def push(
        self, messages: Sequence[Message], token: str, now: datetime
    ) -> Pushed[int]:
        """Push all of them, unless it was done under the token before.

        Raises:
            ScriptRefused: this user may run no scripts; nothing was pushed.
            BrokerUnavailable: nothing was pushed.
            PublishUncertain: all may be there, or nothing.

        """
        texts = []
        for one in messages:
            known = {"properties": {"priority": one.priority or 0}}
            # By kombu's rule, which also says which list it is
            priority = int(self._broker.channel._get_message_priority(known))  # noqa: SLF001 (kombu's rule)
            where = one.exchange, one.routing_key, priority
            texts.append((where, rendered(one, priority, now)))
        pushed = self._script.push(
            token,
            texts,
            fingerprint=b"%d" % len(messages),
            seconds=STORED_TOKEN_SECONDS,
            expiring=dict.fromkeys(self._settled, SETTLED_MILLISECONDS),
        )
        if pushed:
            self._settled.clear()
        return Pushed(sent={one.id for one in messages})

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
            raise BrokerUnavailable(
                f"Redis was asked for a token and did not answer: {error}"
            ) from error

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

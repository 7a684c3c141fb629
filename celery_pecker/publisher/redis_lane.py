"""The fast lane on Redis: one script for up to a thousand messages, under a token.

What is exact here: a batch is pushed whole or not at all, and the same batch under
the same token is pushed once, however often it is tried within `TOKEN_SECONDS`. The
token lives beside the messages and is written by the same script, so a failover that
loses the one loses the other.

What is sent is one command on one socket, written and read by hand: redis-py would
send it again after a timeout if the user's options say so. A request that could not
be written whole was never run; an answer that did not come leaves it open.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from kombu.utils.json import JSONEncoder, dumps
from redis.exceptions import BusyLoadingError, NoScriptError, ResponseError

from celery_pecker.clock import new_id
from celery_pecker.errors import BrokerUnavailable, PublishUncertain
from celery_pecker.publisher.connection import Link
from celery_pecker.publisher.dispatch import Dispatch
from celery_pecker.publisher.envelope import Draft, Route
from celery_pecker.publisher.expiry import Expiry
from celery_pecker.publisher.lanes import NotPlain

BATCH = 1000
TOKEN_SECONDS = 600
SCRIPT = files(__package__).joinpath("push.lua").read_bytes()
# Redis names scripts so.
SHA = hashlib.sha1(SCRIPT, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisMessage:
    """The JSON of one entry's message, twice: with and without an expiry."""

    route: Route
    priority: int
    expiry: Expiry
    plain: str
    dated: str

    def render(self, dispatch: Dispatch, header: str, now: datetime) -> bytes:
        """Return the bytes of the message for one slot."""
        stamp = self.expiry.stamp(now, dispatch.expires)
        fields = {
            "id": quoted(dispatch.task_id),
            "header": header,
            # new for each push: Redis's unacked messages are kept by this tag
            "tag": new_id(),
        }
        if stamp is None:
            text = self.plain % fields
        else:
            fields["expires"] = quoted(stamp.header)
            fields["expiration"] = stamp.milliseconds
            text = self.dated % fields
        return text.encode("ascii")


class RedisLane:
    """Pushes messages onto Redis lists as kombu's channel would."""

    exact = True

    def __init__(self, link: Link) -> None:
        self._link = link
        self._json = JSONEncoder()

    def build(self, draft: Draft) -> RedisMessage:
        """Return the text that kombu would push, with a place for what differs."""
        channel, route, marks = self._link.channel, draft.route, draft.marks
        if route.exchange and (kind := channel.typeof(route.exchange).type) != "direct":
            msg = f"exchange {route.exchange!r} is of type {kind}"
            raise NotPlain(msg)
        message = draft.message
        priority = channel._get_message_priority(message)  # noqa: SLF001 (kombu's rule)
        channel._inplace_augment_message(  # noqa: SLF001 (what basic_publish begins with)
            message, route.exchange, route.routing_key
        )
        message["properties"]["delivery_tag"] = marks.tag
        places = {
            f'"{marks.task_id}"': "%(id)s",
            f'"{marks.header}"': "%(header)s",
            f'"{marks.expires}"': "%(expires)s",
            marks.expiration: "%(expiration)s",
            marks.tag: "%(tag)s",
        }
        dated = _with_places(dumps(message), places)
        message["headers"]["expires"] = None
        del message["properties"]["expiration"]
        plain = _with_places(dumps(message), places)
        return RedisMessage(
            route=route,
            priority=priority,
            expiry=draft.expiry,
            plain=plain,
            dated=dated,
        )

    def push(
        self, work: Sequence[tuple[RedisMessage, Dispatch]], token: str, now: datetime
    ) -> None:
        """All messages are on their lists.

        Raises:
            BrokerUnavailable: none is.
            PublishUncertain: `done` are; the others may be, and pushing the same
                work again under the same token is exact.
        """
        for number, start in enumerate(range(0, len(work), BATCH)):
            chunk = work[start : start + BATCH]
            try:
                self._push(chunk, f"{token}:{number}", now)
            except (BrokerUnavailable, PublishUncertain) as error:
                if isinstance(error, BrokerUnavailable) and not start:
                    raise
                done = frozenset(dispatch.name for _, dispatch in work[:start])
                raise PublishUncertain(
                    str(error), retry_safe=True, done=done
                ) from error

    def _push(
        self, work: Sequence[tuple[RedisMessage, Dispatch]], token: str, now: datetime
    ) -> None:
        link = self._link
        channel = link.channel
        prefix = channel.global_keyprefix
        lists: dict[str, list[bytes]] = defaultdict(list)
        keys: dict[tuple[int, int], list[str]] = {}
        expiring: dict[str, int] = {}
        for message, _ in work:
            place = (id(message.route), message.priority)
            if place in keys:
                continue
            try:
                queues = self._queues(message.route)
            except link.broken_by as error:
                raise self._nothing_sent(error) from error
            keys[place] = [
                prefix + channel._q_for_pri(queue, message.priority)  # noqa: SLF001 (kombu's rule)
                for queue in queues
            ]
            expiring.update(self._expiring(queues))
        encode = self._json.encode
        for message, dispatch in work:
            text = message.render(dispatch, encode(dict(dispatch.header)), now)
            for key in keys[id(message.route), message.priority]:
                lists[key].append(text)
        if not lists:
            # An exchange without a queue: kombu drops the message, so do we.
            return
        names = zlib.crc32("".join(d.task_id for _, d in work).encode())
        body: list[Any] = [TOKEN_SECONDS, f"{names:08x}", len(lists)]
        for messages in lists.values():
            body += [len(messages), *messages]
        body += expiring.values()
        all_keys = [f"{prefix}pecker:batch:{token}", *lists, *expiring]
        self._run([len(all_keys), *all_keys, *body])

    def _queues(self, route: Route) -> list[str]:
        """Return where the exchange leads now; a worker may have bound a new queue."""
        found = self._link.channel._lookup(route.exchange, route.routing_key)  # noqa: SLF001 (kombu's rule)
        return list(found)

    def _expiring(self, queues: Sequence[str]) -> Iterator[tuple[str, int]]:
        channel = self._link.channel
        for queue in queues:
            milliseconds = channel._expires.get(queue)  # noqa: SLF001 (known since declared)
            if milliseconds is not None:
                for step in channel.priority_steps:
                    key = channel.global_keyprefix + channel._q_for_pri(queue, step)  # noqa: SLF001
                    yield key, milliseconds

    def _run(self, arguments: list[Any]) -> None:
        """The script ran; see `push` for what it raises."""
        link = self._link
        pool = link.channel.pool
        try:
            connection = pool.get_connection()
        except link.broken_by as error:
            raise self._nothing_sent(error) from error
        try:
            try:
                self._ask(connection, ["EVALSHA", SHA, *arguments])
            except NoScriptError:
                self._ask(connection, ["EVAL", SCRIPT, *arguments])
        except (ResponseError, BusyLoadingError) as error:
            # Redis answered, and not with yes: the script checks before it writes.
            raise self._nothing_sent(error) from error
        finally:
            pool.release(connection)

    def _ask(self, connection: Any, command: list[Any]) -> None:
        link = self._link
        request = b"".join(connection.pack_command(*command))
        try:
            connection.send_packed_command([request], check_health=False)
        except link.broken_by as error:
            raise self._nothing_sent(error) from error
        try:
            connection.read_response()
        except (ResponseError, BusyLoadingError):
            raise
        except link.broken_by as error:
            link.drop()
            msg = f"Redis took a batch and did not answer: {error}"
            raise PublishUncertain(msg, retry_safe=True) from error

    def _nothing_sent(self, error: BaseException) -> BrokerUnavailable:
        self._link.drop()
        return BrokerUnavailable(f"Redis took nothing of the batch: {error}")


def _with_places(text: str, places: dict[str, str]) -> str:
    text = text.replace("%", "%%")
    for mark, place in places.items():
        text = text.replace(mark, place)
    for mark in places:
        if mark.strip('"') in text:
            msg = "a part of the message holds the task's id in a text of its own"
            raise NotPlain(msg)
    return text

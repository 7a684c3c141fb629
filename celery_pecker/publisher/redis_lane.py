"""The fast lane on Redis: one script for up to a thousand messages, under a token.

What is exact here: up to a thousand messages are pushed together or not at all, and
a message is pushed once under its token, however often it is tried within
`TOKEN_SECONDS`. The token lives beside the messages and is written by the same script,
so a failover that loses the one loses the other. A request that was on its way when we
gave up may still be run later (a frozen server that wakes up): it finds the token
taken and adds nothing.

What is sent is one command on one socket, written and read by hand: redis-py would
send it again after a timeout if the user's options say so. A request that could not
be written whole was never run; an answer that did not come leaves it open.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Any

from kombu.utils.json import JSONEncoder
from redis.exceptions import (
    BusyLoadingError,
    NoPermissionError,
    NoScriptError,
    ResponseError,
)

from celery_pecker.errors import (
    BrokerRefuses,
    BrokerUnavailable,
    PeckerError,
    PublishUncertain,
)
from celery_pecker.publisher.connection import Link
from celery_pecker.publisher.dispatch import SAMPLE, Dispatch, names_in
from celery_pecker.publisher.envelope import Draft, Route
from celery_pecker.publisher.lanes import LaneRefused, NotPlain
from celery_pecker.publisher.redis_message import RedisMessage
from celery_pecker.publisher.unsettled import Unsettled

TOKEN_SECONDS = 600
#: Seconds after which scripts are tried again that Redis refused.
REFUSED_SECONDS = 60.0
#: Batches of which it is remembered what was tried.
UNSETTLED = 100
SCRIPT = files(__package__).joinpath("push.lua").read_bytes()
# Redis names scripts so.
SHA = hashlib.sha1(SCRIPT, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a route leads: lists to push to, and keys to expire, in milliseconds."""

    lists: list[str]
    expiring: dict[str, int]


class _ScriptRefused(Exception):
    """The user of the broker's URL may not run the script; nothing was written."""


class RedisLane:
    """Pushes messages onto Redis lists as kombu's channel would."""

    exact = True

    def __init__(self, link: Link) -> None:
        self._link = link
        self._json = JSONEncoder()
        self._open: dict[str, Unsettled] = {}
        self._refused: tuple[float, str] | None = None

    def shut_out(self) -> str | None:
        """Return why Redis refuses scripts to us, for a minute after it did."""
        if self._refused is None or self._refused[0] <= self._link.clock.monotonic():
            return None
        return self._refused[1]

    def build(self, draft: Draft) -> RedisMessage:
        """Return the text that kombu would push, with a place for what differs."""
        channel, route = self._link.channel, draft.route
        if route.exchange and (kind := channel.typeof(route.exchange).type) != "direct":
            msg = f"exchange {route.exchange!r} is of type {kind}"
            raise NotPlain(msg)
        return RedisMessage.of(draft, channel)

    def try_out(self, message: RedisMessage, now: datetime) -> None:
        """Fill a message in as a slot would; what is odd about its entry is raised."""
        message.render(SAMPLE, self._json.encode({}), now)

    def push(
        self, work: Sequence[tuple[RedisMessage, Dispatch]], token: str, now: datetime
    ) -> None:
        """All messages are on their lists.

        Raises:
            LaneRefused: none is, since Redis runs no scripts of ours.
            BrokerUnavailable: none is.
            PublishUncertain: `done` are; the others may be. Pushing them, or some of
                them, again under the same token is exact if `retry_safe`.
        """
        open_ = self._open.get(token)
        fresh = open_ is None
        if open_ is None:
            open_ = Unsettled.of(work, place=self._place())
        elif open_.place != self._place():
            msg = f"tried at {open_.place}, which is not the broker any more"
            raise PublishUncertain(msg)
        done: set[str] = set()
        for number, chunk in open_.chunks(work):
            try:
                self._push(chunk, f"{token}:{number}", open_, now)
            except _ScriptRefused as error:
                until = self._link.clock.monotonic() + REFUSED_SECONDS
                self._refused = until, str(error)
                if fresh and not done:
                    raise LaneRefused(str(error)) from error
                # What was tried by a script may be there: only a script can tell.
                self._keep(token, open_)
                raise BrokerRefuses(str(error)) from error
            except (BrokerUnavailable, PublishUncertain) as error:
                if isinstance(error, BrokerUnavailable) and not done:
                    raise
                self._keep(token, open_)
                names = names_in((dispatch for _, dispatch in work), done)
                raise PublishUncertain(
                    str(error), retry_safe=True, done=names
                ) from error
            done |= {dispatch.task_id for _, dispatch in chunk}
        self._open.pop(token, None)

    def kept(self, token: str, task_id: str) -> RedisMessage | None:
        """Return what was tried for this task under the token and not settled.

        It has to be tried by this lane again, whatever lane the entry has by now.
        """
        open_ = self._open.get(token)
        return None if open_ is None else open_.messages.get(task_id)

    def _keep(self, token: str, open_: Unsettled) -> None:
        self._open[token] = open_
        if len(self._open) > UNSETTLED:
            # What was forgotten is refused by its token if it is tried again.
            self._open.pop(next(iter(self._open)))

    def _place(self) -> str:
        """Return which server this is; behind a Sentinel all are the same."""
        channel = self._link.channel
        parameters = channel.pool.connection_kwargs
        known = ("host", "port", "path", "db")
        return "/".join(f"{parameters[k]}" for k in known if k in parameters)

    def _push(
        self,
        work: Sequence[tuple[RedisMessage, Dispatch]],
        token: str,
        open_: Unsettled,
        now: datetime,
    ) -> None:
        link = self._link
        prefix = link.channel.global_keyprefix
        lists: dict[str, list[bytes]] = defaultdict(list)
        places = self._places(work)
        encode = self._json.encode
        for message, dispatch in work:
            text = message.render(dispatch, encode(dict(dispatch.header)), now)
            for key in places[id(message.route), message.priority].lists:
                lists[key].append(text)
        if not lists:
            # An exchange without a queue: kombu drops the message, so do we.
            return
        ids = [dispatch.task_id for _, dispatch in work]
        fingerprint = b"%08x" % zlib.crc32("".join(ids).encode())
        open_.attempts[token, fingerprint] = frozenset(ids)
        body: list[Any] = [TOKEN_SECONDS, fingerprint, len(lists)]
        for messages in lists.values():
            body += [len(messages), *messages]
        expiring: dict[str, int] = {}
        for place in places.values():
            expiring.update(place.expiring)
        body += expiring.values()
        keys = [f"{prefix}pecker:batch:{token}", *lists, *expiring]
        holder = self._run([len(keys), *keys, *body])
        if isinstance(holder, int):
            return
        if not open_.attempts.get((token, holder), frozenset()).issuperset(ids):
            msg = f"token {token!r} belongs to another batch; this one was not sent"
            raise PeckerError(msg)

    def _places(
        self, work: Sequence[tuple[RedisMessage, Dispatch]]
    ) -> dict[tuple[int, int], Place]:
        """Return the Redis keys of each route and priority in the batch."""
        channel = self._link.channel
        places: dict[tuple[int, int], Place] = {}
        for message, _ in work:
            where = (id(message.route), message.priority)
            if where in places:
                continue
            try:
                queues = self._queues(message.route)
            except self._link.broken_by as error:
                raise self._nothing_sent(error) from error
            prefix, key = channel.global_keyprefix, channel._q_for_pri  # noqa: SLF001 (kombu's rule)
            places[where] = Place(
                [prefix + key(queue, message.priority) for queue in queues],
                {
                    prefix + key(queue, step): channel._expires[queue]  # noqa: SLF001 (known since declared)
                    for queue in queues
                    if queue in channel._expires  # noqa: SLF001 (as above)
                    for step in channel.priority_steps
                },
            )
        return places

    def _queues(self, route: Route) -> list[str]:
        """Return where the exchange leads now; a worker may have bound a new queue."""
        found = self._link.channel._lookup(route.exchange, route.routing_key)  # noqa: SLF001 (kombu's rule)
        return list(found)

    def _run(self, arguments: list[Any]) -> int | bytes:
        """The script ran; return what it answered."""
        link = self._link
        pool = link.channel.pool
        try:
            connection = pool.get_connection()
        except link.broken_by as error:
            raise self._nothing_sent(error) from error
        try:
            try:
                return self._ask(connection, ["EVALSHA", SHA, *arguments])
            except NoScriptError:
                return self._ask(connection, ["EVAL", SCRIPT, *arguments])
        except BusyLoadingError as error:
            raise self._nothing_sent(error) from error
        except ResponseError as error:
            # Redis answered, and not with yes: the script checks before it writes.
            if isinstance(error, NoPermissionError):
                msg = f"Redis lets this user run no such script ({error})"
                raise _ScriptRefused(msg) from error
            link.drop()
            msg = f"Redis refused the batch: {error}"
            raise BrokerRefuses(msg) from error
        finally:
            pool.release(connection)

    def _ask(self, connection: Any, command: list[Any]) -> int | bytes:
        link = self._link
        request = b"".join(connection.pack_command(*command))
        link.in_time()
        try:
            connection.send_packed_command([request], check_health=False)
        except link.broken_by as error:
            raise self._nothing_sent(error) from error
        try:
            answer: int | bytes = connection.read_response()
        except (ResponseError, BusyLoadingError):
            raise
        except link.broken_by as error:
            link.drop()
            msg = f"Redis took a batch and did not answer: {error}"
            raise PublishUncertain(msg, retry_safe=True) from error
        return answer

    def _nothing_sent(self, error: BaseException) -> BrokerUnavailable:
        self._link.drop()
        return BrokerUnavailable(f"Redis took nothing of the batch: {error}")

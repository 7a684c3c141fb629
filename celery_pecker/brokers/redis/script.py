"""Run the script that pushes messages onto Redis lists, in one request.

What is sent is one command on one socket, written and read by hand: redis-py would
send it again after a timeout if the user's options say so. A request that could not
be written whole was never run; an answer that did not come leaves it open.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from redis.exceptions import (
    BusyLoadingError,
    NoPermissionError,
    NoScriptError,
    ResponseError,
)

from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.publisher.transport import BatchRefused, ScriptRefused
from celery_pecker.brokers.redis.transport import UNNAMED, takes_no_writes
from celery_pecker.kernel.errors import (
    BrokerRefuses,
    BrokerUnavailable,
    PublishUncertain,
)

#: Seconds after which scripts are tried again that Redis refused.
REFUSED_SECONDS = 60.0
SCRIPT = files(__package__).joinpath("push.lua").read_bytes()
# Redis names scripts so.
SHA = hashlib.sha1(SCRIPT, usedforsecurity=False).hexdigest()


Place = tuple[list[str], dict[str, int]]
"""Where a route leads: lists to push to, and keys to expire, in milliseconds."""
Where = tuple[str, str, int]
"""Exchange, routing key and priority of a message."""


class RedisScript:
    """Pushes a batch of messages, all or nothing, under a token."""

    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker
        self._refused: tuple[float, str] | None = None

    @property
    def refused(self) -> str | None:
        """Why Redis refuses scripts to this user, for a minute after it did."""
        if self._refused is None or self._refused[0] <= self._broker.clock.monotonic():
            return None
        return self._refused[1]

    def push(
        self,
        token: str,
        messages: Iterable[tuple[Where, bytes]],
        *,
        fingerprint: bytes,
        seconds: int,
        expiring: Mapping[str, int] | None = None,
    ) -> int | bytes:
        """Push messages onto their lists, unless it was done under the token before.

        Args:
            token: The name of the batch; Redis keeps it for `seconds`.
            messages: Where each goes, and its text. An exchange without a queue drops
                it, as kombu does.
            fingerprint: What Redis keeps under the token.
            seconds: For how long Redis keeps it.
            expiring: Milliseconds by the key of what else is to expire.

        Returns:
            How many were pushed, or the fingerprint that is under the token already.

        Raises:
            ScriptRefused: this user may run no scripts.
            BatchRefused: one of the messages cannot be pushed; none was.
            BrokerUnavailable: nothing was pushed.
            PublishUncertain: all may be there, or nothing.

        """
        rendered = [*messages]
        places = self._places(where for where, _ in rendered)
        lists: dict[str, list[bytes]] = defaultdict(list)
        for where, text in rendered:
            for key in places[where][0]:
                lists[key].append(text)
        if not lists:
            return 0
        expires = {**(expiring or {})}
        for _, dying in places.values():
            expires.update(dying)
        body: list[Any] = [seconds, fingerprint, len(lists)]
        for texts in lists.values():
            body += [len(texts), *texts]
        body += expires.values()
        keys = [self.key(token), *lists, *expires]
        try:
            return self._run([len(keys), *keys, *body])
        except ScriptRefused as error:
            until = self._broker.clock.monotonic() + REFUSED_SECONDS
            self._refused = until, str(error)
            raise

    def key(self, token: str) -> str:
        """Return where Redis keeps a token."""
        return f"{self._broker.channel.global_keyprefix}pecker:batch:{token}"

    def _places(self, wanted: Iterable[Where]) -> dict[Where, Place]:
        """Return the keys of each way that a message of the batch goes."""
        channel = self._broker.channel
        places: dict[Where, Place] = {}
        for where in dict.fromkeys(wanted):
            exchange, routing_key, priority = where
            try:
                # A worker may have bound a new queue.
                queues = [*channel._lookup(exchange, routing_key)]  # noqa: SLF001 (kombu's rule)
            except self._broker.broken_by as error:
                raise self._nothing_sent(error) from error
            prefix, key = channel.global_keyprefix, channel._q_for_pri  # noqa: SLF001 (kombu's rule)
            expires = getattr(channel, "_expires", {})  # new in kombu 5.7
            places[where] = (
                [prefix + key(queue, priority) for queue in queues],
                {
                    prefix + key(queue, step): expires[queue]
                    for queue in queues
                    if queue in expires
                    for step in channel.priority_steps
                },
            )
        return places

    def _run(self, arguments: list[Any]) -> int | bytes:
        """Run the script; return its reply."""
        broker = self._broker
        pool = broker.channel.pool
        try:
            connection = pool.get_connection(*UNNAMED)
        except broker.broken_by as error:
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
                raise ScriptRefused(
                    f"Redis lets this user run no such script ({error})"
                ) from error
            msg = f"Redis refused the batch: {error}"
            if not takes_no_writes(error):
                raise BatchRefused(msg) from error
            broker.drop()
            raise BrokerRefuses(msg) from error
        finally:
            pool.release(connection)

    def _ask(self, connection: Any, command: list[Any]) -> int | bytes:
        broker = self._broker
        request = b"".join(connection.pack_command(*command))
        broker.in_time()
        try:
            connection.send_packed_command([request], check_health=False)
        except broker.broken_by as error:
            raise self._nothing_sent(error) from error
        try:
            answer: int | bytes = connection.read_response()
        except (ResponseError, BusyLoadingError):
            raise
        except broker.broken_by as error:
            broker.drop()
            raise PublishUncertain(
                f"Redis took a batch and did not answer: {error}", retry_safe=True
            ) from error
        return answer

    def _nothing_sent(self, error: BaseException) -> BrokerUnavailable:
        self._broker.drop()
        return BrokerUnavailable(f"Redis took nothing of the batch: {error}")

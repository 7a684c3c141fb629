"""The publisher's own connection to the broker, bounded in time and never resending.

It is not taken from the app's pool: its timeouts are ours, it is made on the thread
that publishes (so never before a fork), and it can be dropped at any time.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import Any

import kombu.transport.redis
import redis
from kombu import exceptions
from kombu.common import maybe_declare
from kombu.exceptions import OperationalError
from redis.exceptions import NoPermissionError, ResponseError

from celery_pecker.brokers.publisher.brokers import (
    KINDS,
    Kind,
    sentinel_options,
    takes_no_writes,
)
from celery_pecker.brokers.publisher.confirms import Confirms
from celery_pecker.brokers.publisher.sockets import hang_up, sockets
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.errors import BrokerRefuses, BrokerUnavailable
from celery_pecker.kernel.lease import TrustWindow

_FAILED: tuple[type[Exception], ...] = (OperationalError, OSError)
if hasattr(exceptions, "BatchPublishError"):  # kombu 5.7
    _FAILED = (*_FAILED, exceptions.BatchPublishError)
UNNAMED = () if redis.VERSION >= (5, 3) else ("_",)
"""What a pool of redis-py wants to hear of a connection that is for no command."""
REFUSED_SECONDS = 30.0
"""Seconds for which nothing is claimed after Redis refused messages to this user."""
QUIET = 0.2
"""Seconds after which a silent broker is asked for a sign of life."""
# What py-amqp and redis-py say of a socket that was closed under them.
_CLOSED = (AttributeError, ValueError)


class BrokerConnection:
    """A connection and one channel on it; both are replaced after a failure."""

    def __init__(self, app: Any, *, timeout: float, clock: Clock = SYSTEM) -> None:
        self._app = app
        self.clock = clock
        self.timeout = timeout
        self._connection: Any = None
        self.channel: Any = None
        """Messages go out here."""
        self.side: Any = None
        """Queues are declared here: a refusal closes an AMQP channel."""
        self.confirms: Confirms | None = None
        self.kind = Kind.OTHER
        self._trust = TrustWindow(opened=0.0, seconds=float("inf"))
        """How long the batch in hand may be sent."""
        self._answered = float("-inf")
        self._blocked = False
        self._failures = 0
        self._refused: tuple[float, str] | None = None
        # Both outlive the connection: it may be dropped while an error is on its way.
        self.failed_by: tuple[type[BaseException], ...] = _FAILED
        """What is raised when the broker, or the way to it, fails."""
        self.refused_by: tuple[type[BaseException], ...] = ()
        """What is raised when the broker refuses one request and closes the channel."""

    @property
    def broken_by(self) -> tuple[type[BaseException], ...]:
        """All that can be raised where only the broker is spoken to."""
        return (*self.failed_by, *self.refused_by, *_CLOSED)

    @property
    def _connection_errors(self) -> tuple[type[BaseException], ...]:
        """Return what can be raised of a connection over which nothing can be sent."""
        return (*self.broken_by, BrokerRefuses)

    def ensure(self) -> None:
        """Connect if there is no connection on which the broker answered a moment ago.

        One that has been silent for `QUIET` is asked: about 0.2 ms. Slots are claimed
        after this, so what a silent broker costs is found out before, not after.

        Raises:
            BrokerRefuses: Redis takes no writes (it is a replica, full, or cannot
                save), or has refused messages to this user lately.
            BrokerUnavailable: none could be made. Each URL of a failover list is
                tried at most once, and none after `timeout` seconds; the next call
                goes on with the next URL.
        """
        if self._refused is not None and self.clock.monotonic() < self._refused[0]:
            raise BrokerRefuses(self._refused[1])
        if self.channel is not None:
            if self._is_connected() and self._answers():
                return
            self.drop()
        self._connect()
        self.note_reply()

    def refused(self, error: BaseException | None) -> None:
        """Claim nothing for a while if Redis refuses messages to this user.

        It is asked for a sign of life before each claim, and gives it.
        """
        if isinstance(error, NoPermissionError):
            until = self.clock.monotonic() + REFUSED_SECONDS
            self._refused = until, f"Redis lets this user send no messages: {error}"

    def note_reply(self) -> None:
        """Remember that the broker has just answered."""
        self._answered = self.clock.monotonic()

    def begin_batch(self, trust: TrustWindow) -> None:
        """Take a batch in hand, which may be sent within that window."""
        self._trust = trust

    def in_time(self) -> None:
        """Refuse to send too late; call it right before the write.

        A process that was frozen since it claimed must not send (I2).

        Raises:
            BrokerUnavailable: it is; nothing was sent.
        """
        if self._trust.closed(self.clock.monotonic()):
            msg = "too late: this process stood still between claim and send"
            raise BrokerUnavailable(msg)

    def declare(self, entities: Iterable[Any]) -> str | None:
        """Declare the entities as Celery does; return why the broker refused, or None.

        kombu remembers per connection what is declared and asks again only for what
        may vanish by itself. A refusal closes an AMQP channel: there is a new one.
        """
        try:
            for entity in entities:
                maybe_declare(entity, self.side)
        except self.refused_by as error:
            self.reopen()
            return str(error)
        return None

    def reopen(self) -> None:
        """Open the channels anew that the broker has closed."""
        if self.kind is Kind.RABBITMQ:
            if self.channel is None or not self.channel.is_open:
                self.channel = self._connection.channel()
                self.confirms = Confirms(self.channel, self.clock)
            if self.side is None or not self.side.is_open:
                self.side = self._connection.channel()

    def drop(self) -> None:
        """Close the sockets at once, without a word to the broker."""
        connection, self._connection = self._connection, None
        self.channel = self.side = self.confirms = None
        self._blocked = False
        if connection is not None:
            hang_up(connection, self.kind)

    def abandon(self) -> None:
        """Let go of the sockets of the process that this one was forked from.

        Else what the owner aborts would live on here: the kernel would go on sending
        what the owner gave up. The broker gets nothing.
        """
        connection, self._connection = self._connection, None
        self.channel = self.side = self.confirms = None
        if connection is not None:
            for sock in sockets(connection, self.kind):
                with contextlib.suppress(OSError):
                    os.close(sock.detach())

    def _is_connected(self) -> bool:
        """Return whether the socket still stands; about 20 µs, no round trip."""
        try:
            if self.kind is Kind.REDIS:
                pool = self.channel.pool
                pool.release(pool.get_connection(*UNNAMED))
            elif self.kind is Kind.RABBITMQ:
                self._read_pending()
                self.reopen()
        except self.broken_by:
            return False
        if self._blocked:
            msg = "RabbitMQ blocks publishers: an alarm of memory or disk is on"
            raise BrokerUnavailable(msg)
        return bool(self._connection.connected)

    def _answers(self) -> bool:
        """Ask for a sign of life, unless there was one a moment ago."""
        if self.clock.monotonic() - self._answered < QUIET:
            return True
        try:
            if self.kind is Kind.REDIS:
                self._try_writing()
            elif self.kind is Kind.RABBITMQ:
                # AMQP has no ping; this is answered and changes nothing.
                self.side.basic_qos(0, 0, False)
        except self._connection_errors:
            return False
        self.note_reply()
        return True

    def _try_writing(self) -> None:
        """Have Redis answer a write that changes nothing; raise BrokerRefuses.

        A replica, a full Redis and one that cannot save answer each PING.
        """
        pool = self.channel.pool
        connection = pool.get_connection(*UNNAMED)
        try:
            key = f"{self.channel.global_keyprefix}pecker:none"
            connection.send_command("LPUSHX", key, "", check_health=False)
            connection.read_response()
        except ResponseError as error:
            if takes_no_writes(error):
                msg = f"Redis takes no writes: {error}"
                raise BrokerRefuses(msg) from error
            # No right to this key or command, or a proxy: that is a sign of life.
        finally:
            pool.release(connection)

    def _read_pending(self) -> None:
        """Read what RabbitMQ has sent meanwhile; a closed socket raises."""
        connection = self._connection.connection
        with contextlib.suppress(TimeoutError):
            while True:
                connection.drain_events(timeout=0)

    def _connect(self) -> None:
        connection = self._new_connection()
        started = self.clock.monotonic()
        failure: BaseException | None = None
        for _ in range(max(1, len(connection.alt))):
            try:
                self._open(connection)
            except self._connection_errors as error:
                failure = error
            else:
                return
            self._failures += 1
            self.drop()
            connection.maybe_switch_next()
            if self.clock.monotonic() - started >= self.timeout:
                break
        msg = f"broker {connection.as_uri()}: {failure}"
        refuses = isinstance(failure, BrokerRefuses)
        raise (BrokerRefuses if refuses else BrokerUnavailable)(msg) from failure

    def _new_connection(self) -> Any:
        connection = self._app.connection_for_write(connect_timeout=self.timeout)
        for _ in range(self._failures % max(1, len(connection.alt))):
            connection.maybe_switch_next()
        return connection

    def _open(self, connection: Any) -> None:
        self._connection = connection
        # kombu counts KeyError among Redis's connection errors, for its consumers;
        # here it would be an unknown codec of an entry.
        errors = (e for e in connection.connection_errors if e is not KeyError)
        self.failed_by = (*_FAILED, *errors)
        self.refused_by = connection.channel_errors
        self.kind = KINDS.get(connection.get_transport_cls(), Kind.OTHER)
        if self.kind is Kind.REDIS:
            options = connection.transport_options
            for option in ("socket_timeout", "socket_connect_timeout"):
                if options.get(option) is None:
                    options[option] = self.timeout
            # redis-py would send a command again that may have been done already
            options["retry_on_timeout"] = False
            if issubclass(
                connection.get_transport_cls(), kombu.transport.redis.SentinelTransport
            ):
                options["sentinel_kwargs"] = sentinel_options(
                    options, sentinels=len(connection.alt) or 1
                )
        # kombu's default is two seconds of sleep and another try
        connection.ensure_connection(max_retries=0)
        if self.kind is Kind.RABBITMQ:
            amqp = connection.connection
            # py-amqp's own timeouts end a wait for the first byte of a frame only
            amqp.sock.settimeout(self.timeout)
            amqp.on_blocked, amqp.on_unblocked = self._block, self._unblock
            self.reopen()
        else:
            self.channel = self.side = connection.channel()
            if self.kind is Kind.REDIS:
                self._try_writing()

    def _block(self, _reason: object) -> None:
        self._blocked = True

    def _unblock(self) -> None:
        self._blocked = False

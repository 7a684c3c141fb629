"""The publisher's own connection to the broker, bounded in time and never resending.

It is not taken from the app's pool: its timeouts are ours, it is made on the thread
that publishes (so never before a fork), and it can be dropped at any time.
"""

import contextlib
import os
from collections.abc import Iterable
from typing import Any

from celery.utils.imports import symbol_by_name
from kombu import exceptions
from kombu.common import maybe_declare
from kombu.exceptions import OperationalError

from celery_pecker.brokers.publisher.transport import Transport
from celery_pecker.brokers.rabbitmq.transport import RabbitMQ
from celery_pecker.brokers.redis.transport import Redis
from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.errors import BrokerRefuses, BrokerUnavailable
from celery_pecker.kernel.lease import TrustWindow

_FAILED: tuple[type[Exception], ...] = (OperationalError, OSError)
if hasattr(exceptions, "BatchPublishError"):  # kombu 5.7
    _FAILED = (*_FAILED, exceptions.BatchPublishError)
KNOWN = {one: kind for kind in (Redis, RabbitMQ) for one in kind.classes}
"""The brokers that are known, by kombu's transports."""
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
        self.confirms: Any = None
        """What the transport keeps of messages, where each is confirmed."""
        self.transport = Transport(self, None)
        self._trust = TrustWindow(opened=0.0, seconds=float("inf"))
        """How long the batch in hand may be sent."""
        self._lanes: dict[str, Any] = {}
        self._answered = float("-inf")
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
            if self._lives():
                return
            self.drop()
        self._connect()
        self.note_reply()

    def refused(self, error: BaseException | None) -> None:
        """Claim nothing for a while if the broker refuses messages to this user."""
        why = self.transport.why_forbidden(error)
        if why is not None:
            self._refused = self.clock.monotonic() + REFUSED_SECONDS, why

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
            raise BrokerUnavailable(
                "too late: this process stood still between claim and send"
            )

    def declare(self, entities: Iterable[Any]) -> str | None:
        """Declare the entities as Celery does; return why the broker refused, or None.

        kombu remembers per connection what is declared and asks again only for what
        may vanish by itself. A refusal closes an AMQP channel: there is a new one.
        """
        try:
            for entity in entities:
                maybe_declare(entity, self.side)
        except self.refused_by as error:
            self.transport.reopen()
            return str(error)
        return None

    def use(self, channel: Any, side: Any) -> None:
        """Take the channels of a connection that its transport has opened."""
        self.channel, self.side = channel, side

    def declare_queues(self, entities: Iterable[Any]) -> str | None:
        """Declare what a route needs; return why the broker refused, or None.

        A refusal is the queue's own business. It is there then, with other arguments:
        what is sent to it arrives.

        Raises:
            BrokerUnavailable: the broker failed meanwhile.
        """
        try:
            return self.declare(entities)
        except self.broken_by as error:
            self.drop()
            refuses = self.transport.takes_no_writes(error)
            raise (BrokerRefuses if refuses else BrokerUnavailable)(
                f"broker, while declaring queues: {error}"
            ) from error

    def lane(self, path: str, *arguments: Any) -> Any:
        """Return a lane of the transport by its dotted path, kept for good."""
        if path not in self._lanes:
            self._lanes[path] = symbol_by_name(path)(self, *arguments)
        return self._lanes[path]

    def drop(self) -> None:
        """Close the sockets at once, without a word to the broker."""
        if self._has_let_go():
            self.transport.hang_up()

    def abandon(self) -> None:
        """Let go of the sockets of the process that this one was forked from.

        Else what the owner aborts would live on here: the kernel would go on sending
        what the owner gave up. The broker gets nothing.
        """
        if self._has_let_go():
            for sock in self.transport.sockets():
                with contextlib.suppress(OSError):
                    os.close(sock.detach())

    def _has_let_go(self) -> bool:
        connection, self._connection = self._connection, None
        self.channel = self.side = self.confirms = None
        return connection is not None

    def _lives(self) -> bool:
        """Look at the socket, and ask the broker if it was silent for a while."""
        try:
            self.transport.check_socket()
            if not self._connection.connected:
                return False
            if self.clock.monotonic() - self._answered >= QUIET:
                self.transport.ask()
                self.note_reply()
        except self._connection_errors:
            return False
        return True

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
        kind = KNOWN.get(connection.get_transport_cls(), Transport)
        self.transport = kind(self, connection)
        self.transport.set_options()
        # kombu's default is two seconds of sleep and another try
        connection.ensure_connection(max_retries=0)
        self.transport.open()

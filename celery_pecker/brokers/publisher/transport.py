"""What a kind of broker is to the publisher: a folder beside this one for each.

`Transport` is what stands between a connection and a broker, and what is right of one
that is not known. How it takes many messages in one go says `bulk_lanes`.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from amqp.exceptions import FrameSyntaxError


class ScriptRefused(Exception):
    """The user of the broker's URL may not run the script; nothing was written."""


class BatchRefused(Exception):
    """The broker refused the batch for one of its messages; nothing was written."""


class Transport:
    """One connection to a broker of which nothing is known but what kombu says."""

    lane: ClassVar[str] = ""
    """Dotted path of its `FastLane`; empty: there is none."""
    stored: ClassVar[str] = "celery_pecker.brokers.publisher.bulk_lanes:StoredLane"
    ends_batch: ClassVar[tuple[type[BaseException], ...]] = ()
    """What ends a batch of kombu's, beside what ends the connection."""

    def __init__(self, broker: Any, connection: Any) -> None:
        """Take our connection, and kombu's, which is not open yet."""
        self.broker = broker
        self.connection = connection

    def set_options(self) -> None:
        """Bound what the client does, before it connects."""

    def open(self) -> None:
        """Give the broker's connection its channels; it is connected."""
        channel = self.connection.channel()
        self.broker.use(channel, channel)

    def reopen(self) -> None:
        """Open the channels anew that the broker has closed."""

    def check_socket(self) -> None:
        """Raise if the socket is gone; about 20 µs, no round trip.

        Raises:
            BrokerUnavailable: it is not, and the broker takes no messages.
        """

    def ask(self) -> None:
        """Ask for a sign of life, by what changes nothing.

        Raises:
            BrokerRefuses: the broker lives, and takes no messages.
        """

    def why_missing(self, exchange: str) -> str | None:
        """Return why nothing can be sent to an exchange; None: it is there.

        Raises:
            BrokerUnavailable: the broker failed meanwhile.
        """
        return None

    def hang_up(self) -> None:
        """Close the sockets as if the process had died."""
        # What this transport does to close is not known: release it on a thread.
        threading.Thread(target=self.connection.release, daemon=True).start()

    def sockets(self) -> Iterable[socket.socket]:
        """Return the open sockets."""
        return ()

    @staticmethod
    def takes_no_writes(error: BaseException) -> bool:
        """Return whether the broker says that it takes nothing now, of anybody."""
        return False

    def concerns_message(self, error: BaseException) -> bool:
        """Return whether others may be sent: this one has no frame, or is refused."""
        return isinstance(error, FrameSyntaxError)

    def why_forbidden(self, error: BaseException | None) -> str | None:
        """Return why this user may send no messages, if that is the error."""
        return None


def abort(open_sockets: Iterator[socket.socket]) -> None:
    """Close sockets so that the kernel forgets what it has not delivered yet.

    An ordinary close goes on sending in the background: a batch that was given up
    eight seconds ago reached a RabbitMQ that had been out of reach. The descriptor is
    closed directly, since TLS would say goodbye first and wait for the answer.
    """
    for sock in open_sockets:
        with contextlib.suppress(OSError):
            sock.settimeout(0)
            sock.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            # wakes a reader in another thread; shutting the writing side would send on
            sock.shutdown(socket.SHUT_RD)
        sock.close()

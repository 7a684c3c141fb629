"""How a broker takes many messages in one go: entries' slots, and stored messages."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from kombu.utils.json import loads

from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.brokers.publisher.message_template import MessageTemplate
from celery_pecker.brokers.stored_message import Message


class FastLane:
    """Sends messages that are built once, many in one go."""

    exact: ClassVar[bool] = False
    """Whether a batch that is tried again under its token is not sent twice."""

    def __init__(self, broker: BrokerConnection, suspects: set[str]) -> None:
        """Take the connection, and names of which one is refused with others."""
        self._broker = broker
        self._suspects = suspects

    def why_refused(self) -> str | None:
        """Return why the broker refuses this lane now."""
        return None

    def tried(self, token: str, task_id: str) -> Any:
        """Return what was tried for a task under the token and is not settled."""
        return None

    build: Callable[[MessageTemplate], Any]
    """Returns the message with places for what differs from slot to slot."""
    check_message: Callable[[Any, datetime], None]
    """Fills a message in as a slot would; what is odd about its entry is raised."""
    push: Callable[[Sequence[tuple[Any, Dispatch]], str, datetime], None]
    """Sends all messages, under a token."""


def prepared(
    channel: Any, message: Message, body: bytes | str, properties: Mapping[str, Any]
) -> Any:
    """Return a stored message as a channel of kombu's sends it."""
    return channel.prepare_message(
        body,
        priority=message.priority,
        content_type=message.content_type,
        content_encoding=message.content_encoding,
        headers=loads(message.headers),
        properties=properties,
    )


Key = TypeVar("Key", int, str)


@dataclass(slots=True)
class Pushed(Generic[Key]):
    """What became of messages, by the ids of their rows or tasks.

    Those in no field were not sent.
    """

    sent: set[Key] = field(default_factory=set)
    """The broker has them, confirmed where it confirms."""
    refused: dict[Key, str] = field(default_factory=dict)
    """They will never be sent as they are, and why."""
    lost: AbstractSet[Key] = frozenset()
    """Written, and not answered."""
    alone: set[Key] = field(default_factory=set)
    """One of them spoils the others: they are to be sent one by one."""
    why: str = ""
    """What was wrong when they were sent together."""
    broken: BaseException | None = None
    """Why there is a rest, which may be tried again."""
    uncertain: bool = False
    """Some of the rest may be on the broker."""


class StoredLane:
    """Sends stored messages, many in one go; this one none."""

    asks_exchange: ClassVar[bool] = False
    """Whether the type of an exchange decides what it takes."""

    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker

    def takes(self, message: Message) -> bool:
        """Return whether a message can be sent in one go with others."""
        return False

    push: Callable[[Sequence[Message], str, datetime], Pushed[int]]
    """Sends all of them, under a token; returns what became of each."""

    def pushed(self, token: str) -> bool:
        """Return whether a batch is known to be on the broker."""
        return False

    def settle(self, token: str) -> None:
        """Keep a token no longer than needed: its batch is deleted."""

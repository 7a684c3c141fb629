"""A message that Celery built once, with marks where one run differs from the next.

Celery's own `apply_async` runs on a producer whose channel keeps what it is given
instead of sending it: router, defaults of the task, serializer, compression,
priority, stamps and headers are all Celery's and kombu's. Then marks are put where
the id, the instant of expiry and the `pecker` header stand. Marks are random and new
for each message, so nothing that a user wrote can equal one.
"""

import numbers
import struct
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from amqp.exceptions import AMQPError
from celery.beat import ScheduleEntry, Scheduler
from celery.result import denied_join_result
from kombu.messaging import Producer

from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.publisher.lanes import NoTemplate, Unbuildable
from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.errors import BrokerUnavailable


@dataclass(frozen=True, slots=True)
class Stamp:
    """What Celery writes into a message that expires."""

    header: str
    """`headers['expires']`: what a worker compares with its clock."""
    milliseconds: str
    """The property `expiration`: what RabbitMQ counts down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The `expires` that an entry has by itself, by its options or by its task's."""

    seconds: float | None = None
    until: datetime | None = None
    text: str | None = None
    """`until` as the user wrote it."""
    timezone: tzinfo

    @classmethod
    def of(cls, app: Any, entry: ScheduleEntry) -> "Expiry":
        """Return what Celery would take `expires` from, in Celery's order."""
        options = dict(entry.options or {})
        task = app.tasks.get(entry.task)
        if task is not None:
            options = {**task._get_exec_options(), **options}  # noqa: SLF001 (as apply_async does)
        own = options.get("expires")
        if own is None:
            return cls(timezone=app.timezone)
        if isinstance(own, numbers.Real):
            return cls(seconds=float(own), timezone=app.timezone)
        if isinstance(own, datetime):
            return cls(until=own, text=own.isoformat(), timezone=app.timezone)
        msg = f"option 'expires' is {own!r}"
        if not isinstance(own, str):
            raise NoTemplate(msg)
        try:
            until = datetime.fromisoformat(own)
        except ValueError:
            raise NoTemplate(msg) from None
        return cls(until=until, text=own, timezone=app.timezone)

    def stamp(self, now: datetime, expires: datetime | None) -> Stamp | None:
        """Return what to write for a slot that expires then, or by this option."""
        until, text = self.until, self.text
        if expires is not None:
            until, text = expires, expires.isoformat()
        if until is not None and text is not None:
            # Celery takes an instant without a zone for UTC
            aware = until if until.tzinfo else until.replace(tzinfo=UTC)
            left = (aware - now).total_seconds()
            return Stamp(text, _milliseconds(left))
        if self.seconds is None:
            return None
        instant = (now + timedelta(seconds=self.seconds)).astimezone(self.timezone)
        return Stamp(instant.isoformat(), _milliseconds(self.seconds))


def _milliseconds(seconds: float) -> str:
    # Celery says 0 of an instant in the past, kombu cuts off, not rounds.
    return str(int(max(seconds, 0) * 1000))


UNREADABLE: tuple[type[BaseException], ...] = (
    *(ValueError, TypeError, LookupError, AttributeError, OverflowError),
    *(RecursionError, struct.error, AMQPError),
)
"""What is raised of a message that cannot be put into a transport's form."""
#: Stands for "expires" while Celery builds; only its place in the message counts.
_LATER = datetime(2100, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholders:
    """Texts that stand for what is filled in for each slot."""

    task_id: str
    header: str
    expires: str
    expiration: str
    tag: str

    @classmethod
    def draw(cls) -> "Placeholders":
        """Return marks that occur nowhere else."""
        marks = {one.name: new_id().hex for one in fields(cls)}
        return cls(**marks | {"task_id": str(new_id())})


def with_places(
    octets: bytes, places: Mapping[bytes, bytes], marks: Placeholders
) -> bytes:
    """Return a message to be filled in by ``%``, with places where its marks stand.

    Raises:
        NoTemplate: a mark is left, which a user's text has in it.
    """
    octets = octets.replace(b"%", b"%%")
    for mark, place in places.items():
        octets = octets.replace(mark.replace(b"%", b"%%"), place)
    if any(text.encode() in octets for text in astuple(marks)):
        raise NoTemplate(
            "a part of the message holds the task's id in a text of its own"
        )
    return octets


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where messages go, and what Celery declares before it sends them there."""

    exchange: str
    routing_key: str
    mandatory: bool
    immediate: bool
    declare: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTemplate:
    """One message as kombu would hand it to its channel, with marks in it."""

    message: Any
    route: Route
    marks: Placeholders
    expiry: Expiry


def for_slot(
    entry: ScheduleEntry,
    *,
    task_id: str,
    header: object,
    expires: datetime | None,
) -> ScheduleEntry:
    """Return a copy of the entry whose options belong to one slot.

    `retry` is off: kombu's own retry sends again when the connection breaks, and
    whether the first message arrived is then unknown. The headers are new, since
    Celery's beat writes into those of the entry it is given.
    """
    options = {k: v for k, v in (entry.options or {}).items() if k != "pecker"}
    options["headers"] = {**(options.get("headers") or {}), "pecker": header}
    options["task_id"] = task_id
    options["retry"] = False
    if expires is not None:
        options["expires"] = expires
    copy = object.__new__(type(entry))
    vars(copy).update(vars(entry), options=options)
    return copy


def build_template(
    app: Any, scheduler: Scheduler, entry: ScheduleEntry, broker: BrokerConnection
) -> MessageTemplate:
    """Return the entry's message with marks in it; its queues are declared.

    No result is waited for: a result backend does not get the made-up id.

    Raises:
        NoTemplate: the message is not one that can be repeated.
        BrokerUnavailable: a queue could not be declared.
        Unbuildable: Celery cannot build it, by whatever lane.
    """
    marks = Placeholders.draw()
    tape = _Tape(broker.channel)
    producer = _Recorder(tape, broker)

    def build() -> None:
        copy = for_slot(
            entry, task_id=marks.task_id, header=marks.header, expires=_LATER
        )
        with denied_join_result(), user_code.no_exit("the entry's code"):
            scheduler.apply_async(copy, producer=producer, advance=False)

    _, error = user_code.tried(build)
    if error is not None:
        # Only what met the broker is its failure: kombu gives the KeyError of an
        # unknown codec the type of one.
        root: BaseException = error
        while (cause := root.__cause__ or root.__context__) is not None:
            root = cause
        why = user_code.shown(root)
        raise producer.failure or Unbuildable(why) from error
    if len(tape.kept) != 1:
        raise NoTemplate(f"one run sends {len(tape.kept)} messages")
    ((message, target),) = tape.kept
    _set_placeholders(*_parts(message), marks)
    return MessageTemplate(
        message=message,
        route=Route(
            exchange=target["exchange"],
            routing_key=target["routing_key"],
            mandatory=bool(target["mandatory"]),
            immediate=bool(target["immediate"]),
            declare=tuple(producer.declared),
        ),
        marks=marks,
        expiry=Expiry.of(app, entry),
    )


class _Tape:
    """A channel that keeps messages instead of sending them."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self.kept: list[tuple[Any, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def basic_publish(self, message: Any, **target: Any) -> None:
        self.kept.append((message, target))


class _Recorder(Producer):
    """A producer that remembers what it declared."""

    def __init__(self, tape: Any, broker: BrokerConnection) -> None:
        self.declared: list[Any] = []
        self.failure: NoTemplate | BrokerUnavailable | None = None
        """Why the broker did not declare something."""
        self._broker = broker
        super().__init__(tape, auto_declare=False)

    def maybe_declare(self, entity: Any, retry: bool = False, **_policy: Any) -> bool:
        try:
            refusal = self._broker.declare([entity])
        except self._broker.broken_by as error:
            self._broker.drop()
            self.failure = BrokerUnavailable(str(error))
            raise self.failure from error
        if refusal is not None:
            self.failure = NoTemplate(refusal)
            raise self.failure
        self.declared.append(entity)
        return True


def _parts(message: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return headers and properties, of a virtual transport's message or py-amqp's."""
    if isinstance(message, Mapping):
        return message["headers"], message["properties"]
    return message.properties["application_headers"], message.properties


def _set_placeholders(
    headers: dict[str, Any], properties: dict[str, Any], marks: Placeholders
) -> None:
    expected = {
        "id": marks.task_id,
        "expires": _LATER.isoformat(),
        "pecker": marks.header,
    }
    for field, value in expected.items():
        if headers.get(field) != value:
            raise NoTemplate(f"header {field!r} is not written as protocol 2 does")
    if properties.get("expiration") is None:
        raise NoTemplate("the message has no expiration")
    headers["expires"] = marks.expires
    properties["expiration"] = marks.expiration

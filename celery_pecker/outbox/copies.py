"""Many messages of one task: Celery builds the first, the others are copies of it.

Celery needs 0.3 ms for a message; a copy costs a tenth of that. It is right only while
Celery would build the same: no code listens to or has patched the sending, no route is
asked for each call, the body is plain JSON, and a copy made for the first row equals
what Celery built for it, byte for byte. Else each is built by Celery.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

from celery.utils.saferepr import saferepr
from kombu.exceptions import EncodeError
from kombu.utils.json import dumps, loads

from celery_pecker.brokers.publisher.lanes import SignalReceivers, task_reason
from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.clock import new_tag
from celery_pecker.kernel.errors import NotRecorded

_QUOTES = frozenset("'\\\"")

Row = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments and keyword arguments of one call."""


def row_of(value: object, place: int) -> Row:
    """Return the arguments that a row of `send_many` stands for.

    Raises:
        NotRecorded: it is neither a tuple or list nor a mapping.
    """
    if isinstance(value, (tuple, list)):
        return tuple(value), {}
    if isinstance(value, Mapping):
        return (), dict(value)
    message = (
        f"row {place} is {value!r}; allowed are a tuple or list of arguments, or a dict"
        " of keyword arguments"
    )
    raise NotRecorded(message)


@dataclass(frozen=True, slots=True)
class Copies:
    """A message with places for what differs from row to row."""

    app: Any
    task: Any
    first: Message
    headers: tuple[str, ...]
    """The JSON around id, root id, and the representations of the arguments."""
    order: tuple[int, ...]
    """Which of these stands between which two parts."""
    properties: tuple[str, ...]
    embed: Mapping[str, Any]

    @classmethod
    def of(cls, app: Any, task: Any, first: Message, row: Row) -> Copies | None:
        """Return the template, None if each message has to be built by Celery."""
        if (
            first.content_type != "application/json"
            or first.content_encoding != "utf-8"
            or task_reason(task) is not None
            or getattr(task, "_dump_pydantic_arguments", None) is not None
            or SignalReceivers(app).reason() is not None
        ):
            return None
        try:
            _, _, embed = loads(first.body)
        except ValueError:
            return None
        marks = [new_tag() for _ in range(4)]
        headers = loads(first.headers)
        own_root = headers.get("root_id") == first.task_id
        headers |= {"id": marks[0], "argsrepr": marks[2], "kwargsrepr": marks[3]}
        if own_root:
            headers["root_id"] = marks[1]
        parts, order = _cut(dumps(headers), marks)
        properties = dumps(loads(first.properties)).replace(first.task_id, marks[0])
        made = cls(
            app, task, first, parts, order, tuple(properties.split(marks[0])), embed
        )
        return made if made.message(row, first.task_id) == first else None

    def message(self, row: Row, task_id: str) -> Message:
        """Return the message of a row.

        Raises:
            TypeError: the task does not take these arguments, as Celery says it.
            NotRecorded: an argument cannot be serialized.
        """
        args, kwargs = row
        if self.task.typing:
            self.task.__header__(*args, **kwargs)
        try:
            body = dumps((args, kwargs, self.embed)).encode()
        except (TypeError, ValueError, EncodeError) as error:
            message = f"an argument cannot be serialized: {error}"
            raise NotRecorded(message) from error
        quoted = f'"{task_id}"'
        values = (
            quoted,
            quoted,
            _quoted(self._shown(args, self.app.amqp.argsrepr_maxsize)),
            _quoted(self._shown(kwargs, self.app.amqp.kwargsrepr_maxsize)),
        )
        headers = [self.headers[0]]
        for number, part in zip(self.order, self.headers[1:], strict=True):
            headers += values[number], part
        return self.first._replace(
            task_id=task_id,
            headers="".join(headers),
            properties=task_id.join(self.properties),
            body=body,
        )

    def _shown(self, value: Any, limit: int) -> str:
        """Return what Celery shows of arguments, by the short way where it is right."""
        if plain(value):
            text = repr(value)
            if len(text) < limit:
                return text
        shown: str = saferepr(value, limit, maxlevels=self.app.conf.task_repr_maxlevels)
        return shown


def plain(value: Any) -> bool:
    """Return whether `saferepr` writes these arguments as `repr` does, unless cut."""
    if type(value) is tuple:
        return all(map(_simple, value))
    return not value or (
        type(value) is dict
        and all(map(_simple, value))
        and all(map(_simple, value.values()))
    )


def _simple(value: Any) -> bool:
    kind = type(value)
    if kind is str:
        return value.isascii() and value.isprintable() and not _QUOTES & {*value}
    return kind is int or value is None or kind is bool


def _cut(text: str, marks: list[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the text around the marks, and which mark stands between which parts."""
    places = sorted(
        (text.index(f'"{mark}"'), number)
        for number, mark in enumerate(marks)
        if f'"{mark}"' in text
    )
    parts, at = [], 0
    for place, number in places:
        parts.append(text[at:place])
        at = place + len(marks[number]) + 2
    return (*parts, text[at:]), tuple(number for _, number in places)

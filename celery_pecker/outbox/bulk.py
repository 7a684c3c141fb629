"""Build the messages of many calls of one task, before any of them is written.

Celery needs about 0.3 ms for each. Many calls of one task differ in their id and their
arguments only, so the message of the first is copied, where all that could make a
difference is known to be the same: no code listens to or has patched the sending, no
route is asked for each call, the body is plain JSON, and a copy made for the first row
equals what Celery built for it, byte for byte. Else each is built by Celery.

Results are copied too. A third of the time of a copy went into its result: most of that
for a promise with a weak method, which is hardly ever used. So it is made at its first
use.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

from celery import Task
from celery.result import AsyncResult
from celery.utils.saferepr import saferepr
from kombu.exceptions import EncodeError
from kombu.utils.json import dumps, loads
from vine import promise

from celery_pecker.brokers.publisher.lanes import SignalReceivers, task_reason
from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.adapters.calls import real
from celery_pecker.kernel.clock import new_tag
from celery_pecker.kernel.errors import NotRecorded
from celery_pecker.outbox import refusals
from celery_pecker.outbox.model import Entry

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
    if not isinstance(value, Mapping):
        allowed = "are a tuple or list of arguments, or a dict of keyword arguments"
        NotRecorded.refuse(f"row {place}", value, allowed)
    return (), dict(value)


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
    def of(cls, app: Any, task: Any, first: Message, row: Row) -> "Copies | None":
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
            raise NotRecorded(f"an argument cannot be serialized: {error}") from error
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


def like(first: Any) -> Callable[[str], Any]:
    """Return what makes results for other ids, equal to this one in all else.

    Args:
        first: A result of the same task. Of a class with a constructor of its own each
            result is made by that class.

    """
    kind = type(first)
    if kind.__init__ is not AsyncResult.__init__:
        return lambda task_id: kind(task_id, app=first.app, backend=first.backend)
    shared = {
        key: value
        for key, value in vars(first).items()
        if key not in {"id", "on_ready"}
    }

    class Recorded(kind):  # type: ignore[misc,valid-type]  # whatever the task has
        """A result whose promise is made at its first use."""

        @cached_property
        def on_ready(self) -> Any:
            """What is called when the task has ended."""
            return promise(self._on_fulfilled, weak=True)

    def made(task_id: str) -> Any:
        result = Recorded.__new__(Recorded)
        result.__dict__.update(shared, id=task_id)
        return result

    return made


MOST_ROWS = 100_000
"""Of one call: they are all in memory before the first is written."""
OF_ONE = ("task_id", "dedupe_key")
"""Options that name one message."""

Gather = Callable[[Any], tuple[list[Entry], Any]]


@dataclass(slots=True)
class BulkBatch:
    """What is to be written, and the results of its tasks."""

    entries: list[Entry] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    copies: bool = False
    """Whether the messages differ in id, headers, properties and body only."""


def checked(task: Any, options: dict[str, Any]) -> Any:
    """Return the task itself; refuse what `send_many` cannot repeat."""
    if not isinstance(task, Task):
        NotRecorded.refuse("task", task, "is a task of the app")
    for name in OF_ONE:
        if options.get(name) is not None:
            raise NotRecorded(
                f"{name} is {options[name]!r}, but there are many messages; allowed in"
                " send"
            )
    return real(task)


def build(task: Any, rows: Iterable[Any], gather: Gather, limit: int) -> BulkBatch:
    """Return the messages of all rows.

    Args:
        task: the task.
        rows: as `send_many` takes them.
        gather: has Celery build the messages of a signature.
        limit: bytes of a message.
    """
    calls = [row_of(v, n) for n, v in enumerate(islice(rows, MOST_ROWS + 1), 1)]
    if len(calls) > MOST_ROWS:
        raise NotRecorded(
            f"rows are more than {MOST_ROWS}; allowed are so many in one call: divide"
            " them"
        )
    batch = BulkBatch()
    template: Copies | None = None
    result_of: Callable[[str], Any] | None = None
    parent = task.app.current_worker_task
    for number, (args, kwargs) in enumerate(calls):
        if template is not None and result_of is not None:
            copied = template.message((args, kwargs), new_tag())
            refusals.check(copied, limit)
            batch.entries.append(replace(batch.entries[0], message=copied))
            batch.results.append(result_of(copied.task_id))
            if parent:
                parent.add_trail(batch.results[-1])
            continue
        entries, result = gather(task.s(*args, **kwargs))
        batch.entries += entries
        batch.results.append(result)
        if not number and len(calls) > 1 and len(entries) == 1:
            first = entries[0].message
            template = Copies.of(task.app, task, first, (args, kwargs))
            batch.copies = template is not None
            # The others are without a parent, and ignored as the first.
            alike = task.AsyncResult(result.id)
            alike.ignored = result.ignored
            result_of = like(alike)
    return batch

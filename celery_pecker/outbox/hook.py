"""The one seam to a Celery app: its `send_task`, which all that is sent goes through.

`delay`, `apply_async`, each message of a group, the first of a chain: Celery ends up in
`app.send_task`. An outbox lays its own over it, on the app and not on its class, once:
what is meant for an outbox is built by Celery's own and kept, all else goes on as ever.

Sent as ever, also where an outbox is in force:

- what brings a connection or a producer of its own: a scheduler's slots, for one;
- the message that goes on with the run of this very task (`retry`, `replace`). Celery
  raises an exception after it, which would undo the transaction that it had joined.

Code that writes something of its own before it sends asks `app.send_task.records`
first: what is recorded may be undone.

Celery builds a message, and it is kept instead of sent.

Router, defaults of the task, serializer, compression, priority, stamps, headers and
signals are all Celery's and kombu's: its own `send_task` runs on a producer whose
channel keeps what it gets. What is kept is in no transport's own form, so that it can
be delivered by any.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from typing import Any

from celery.result import denied_join_result
from kombu import Connection
from kombu.exceptions import EncodeError
from kombu.utils.json import dumps

from celery_pecker import deadline
from celery_pecker.brokers.publisher import entities
from celery_pecker.brokers.stored_message import Message
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.errors import NotRecorded
from celery_pecker.outbox import refusals
from celery_pecker.outbox.model import Entry, Mode

_kept: ContextVar[list[Message] | None] = ContextVar("kept", default=None)
_NOWHERE = Connection("memory://")
"""What a producer is asked for and nothing is sent over."""
_DECLARED = "pecker: declared"


@contextmanager
def capturing() -> Iterator[list[Message]]:
    """Yield the list that messages built inside the block are kept in.

    They are work of their own: they do not inherit the deadline of the run that records
    them, and no result backend is notified, since no caller waits.

    Raises:
        NotRecorded: an argument, header or option cannot be serialized.
    """
    kept: list[Message] = []
    token = _kept.set(kept)
    try:
        with deadline.detached(), denied_join_result():
            yield kept
    except EncodeError as error:
        raise NotRecorded(f"an argument cannot be serialized: {error}") from error
    finally:
        _kept.reset(token)


def producer_for(app: Any) -> Any:
    """Return the app's own kind of producer, on a channel that keeps messages."""
    kind: Any = type("Keeping", (_CapturingProducer, app.amqp.Producer), {})
    return kind(_Channel(), auto_declare=False)


class _CapturingProducer:
    """Laid over the app's producer: nothing is declared, nothing is asked of a broker.

    One producer serves all threads: what a message needs declared travels with it.
    """

    connection = _NOWHERE

    def publish(self, body: Any, **options: Any) -> Any:
        """Keep the message and what would be declared for it."""
        options[_DECLARED] = list(options.pop("declare", None) or ())
        # A retry is the deliverer's; kombu would ask the connection for it.
        options["retry"] = False
        return super().publish(body, **options)  # type: ignore[misc]


class _Channel:
    """Keeps what it is asked to publish."""

    connection = None

    def prepare_message(self, *parts: Any) -> tuple[Any, ...]:
        """Return what a message is made of, in kombu's order."""
        return parts

    def basic_publish(
        self, message: Any, exchange: Any, routing_key: str | None, **_: object
    ) -> None:
        """Keep a task's message; of others (events) nothing is recorded."""
        kept = _kept.get()
        body, priority, content_type, content_encoding, headers, properties = message
        properties = dict(properties or {})
        declare = properties.pop(_DECLARED, ())
        if kept is None:
            raise NotRecorded(
                "the producer of the outbox was used outside of the outbox"
            )
        if not headers or "task" not in headers:
            return
        kept.append(
            Message(
                task=str(headers["task"]),
                task_id=str(headers["id"]),
                exchange=str(exchange or ""),
                routing_key=str(routing_key or ""),
                priority=priority,
                content_type=content_type or "",
                content_encoding=content_encoding or "",
                declare=_encoded(entities.encode, declare, "declare"),
                headers=_encoded(dumps, headers, "headers"),
                properties=_encoded(dumps, properties, "properties"),
                body=_bytes(body, content_encoding),
            )
        )


def _encoded(encode: Any, value: Any, field: str) -> Any:
    try:
        return encode(value)
    except (TypeError, ValueError) as error:
        raise NotRecorded(
            f"{field} of the message cannot be kept as JSON: {error}"
        ) from error


def _bytes(body: Any, encoding: str | None) -> bytes:
    if isinstance(body, bytes):
        return body
    return str(body).encode(encoding if encoding not in {None, "binary"} else "utf-8")


INSTALLED = "_celery_pecker_outbox"
MAPS = frozenset({"celery.map", "celery.starmap"})
"""Celery's own tasks that run another one for each item; `chunks` are of the second."""


@dataclass(eq=False)
class Sink(ABC):
    """Where the messages of a block go."""

    app: Any
    _: KW_ONLY
    limit: int
    """Bytes that a message may have."""
    owner: object
    """Whose block it is: what one outbox sends does not go into another's."""
    mode: Mode | None = None
    """Of all messages of the block; None: of their tasks."""
    over: bool = False
    """Whether its block has ended."""

    @abstractmethod
    def take(self, entry: Entry) -> str:
        """Keep or write a message; return the id of the task that will run."""

    def take_all(
        self, entries: list[Entry], *, copies: bool
    ) -> list[str]:  # each is taken alike
        """Keep or write messages that were built for one call."""
        return [self.take(entry) for entry in entries]


_blocks: ContextVar[tuple[tuple[object, Sink], ...]] = ContextVar("blocks", default=())
"""The blocks that this thread or task is in, with their owners; the inner one last."""


def enter(sink: Sink, *, by: object) -> None:
    """Begin a block of this thread or task: what is sent in it goes to the sink."""
    _blocks.set((*_blocks.get(), (by, sink)))


def leave(*, by: object) -> Sink:
    """End the inner one of the blocks of an owner.

    Others inside of it go on: a generator that is in a block may end while the one
    that iterates over it is in a block of its own.

    Raises:
        NotRecorded: there is none in this thread or task.
    """
    blocks = _blocks.get()
    for at in reversed(range(len(blocks))):
        whose, sink = blocks[at]
        if whose is by:
            sink.over = True
            _blocks.set(blocks[:at] + blocks[at + 1 :])
            return sink
    raise NotRecorded(
        "a block of the outbox ends in another context than it was begun in: begin and"
        " end it in the same thread and the same task of asyncio"
    )


@contextmanager
def into(sink: Sink) -> Iterator[None]:
    """Send what is sent inside of the block to a sink."""
    enter(sink, by=sink)
    try:
        yield
    finally:
        leave(by=sink)


def block_in(app: Any) -> Sink | None:
    """Return the inner one of the blocks of an app; None: in none.

    Without one, each task's own outbox or the broker is where its message goes.

    Raises:
        NotRecorded: that block has ended.
    """
    return _inner(sink for _, sink in _blocks.get() if sink.app is app)


def block_of(owner: object) -> Sink | None:
    """Return the inner one of the blocks of one outbox; None: in none.

    Blocks of others inside of it leave it in force.

    Raises:
        NotRecorded: that block has ended.
    """
    return _inner(sink for _, sink in _blocks.get() if sink.owner is owner)


def _inner(sinks: Iterable[Sink]) -> Sink | None:
    """Return the last one of these blocks, which must go on.

    Raises:
        NotRecorded: it is the context of a block that has ended, copied by a thread or
            task: the transaction may be over, and what was kept for its end is written.
    """
    sink = next(reversed([*sinks]), None)
    if sink is not None and sink.over:
        raise NotRecorded(
            "the block of the outbox in whose context this is sent has ended: wait"
            " inside of it for the tasks of asyncio and the threads that it starts, or"
            " start them outside"
        )
    return sink


def install(app: Any, sink_of: Callable[[], Sink]) -> None:
    """Route the app's `send_task` through the outbox; once for an app.

    Args:
        app: the Celery app.
        sink_of: gives where a message of a task with `outbox=` goes outside of blocks.
    """
    if INSTALLED in vars(app):
        return
    setattr(app, INSTALLED, True)
    send = app.send_task
    producers: list[Any] = []

    def records(name: str, **options: Any) -> bool:
        """Return whether `send_task` would record the message of such a call."""
        return not _bypasses_outbox(app, options) and (
            block_in(app) is not None or _mode(app, name, None, options) is not None
        )

    def send_task(
        name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> Any:
        mode = _mode(app, name, kwargs, options)
        sink = None
        if not _bypasses_outbox(app, options):
            sink = block_in(app) or (sink_of() if mode is not None else None)
        if sink is None:
            _refuse_key(options)
            return send(name, args, kwargs, **options)
        if not producers:
            producers.append(producer_for(app))
        key = options.pop("dedupe_key", None)
        if key is not None:
            refusals.check_key(key)
            refusals.check_alone(key, options.get("group_id"))
        delay = refusals.delay_of(
            options.pop("countdown", None), options.pop("eta", None), SYSTEM.now()
        )
        options.pop("publisher", None)
        options["producer"] = producers[0]
        with capturing() as kept:
            result = send(name, args, kwargs, **options)
        if len(kept) != 1:
            raise NotRecorded(
                f"task {name!r} built {len(kept)} messages instead of one"
            )
        message = kept[0]._replace(delay=delay)
        refusals.check(message, sink.limit)
        chosen = sink.mode if sink.mode is not None else mode
        if chosen is None:
            chosen = Mode.RELAY
        task_id = sink.take(Entry(message, chosen, key))
        return result if task_id == result.id else type(result)(task_id)

    send_task.records = records  # type: ignore[attr-defined]  # see above
    app.send_task = send_task


def install_on_commit(app: Any, in_atomic: Callable[[], bool]) -> None:
    """Have `delay_on_commit` and `apply_async_on_commit` record in the transaction.

    Celery's own call `delay` after Django's commit: what dies in between loses the
    task. Of what is not recorded, or not in a transaction of Django's, that stays.

    Args:
        app: the Celery app; without Django its tasks have no such methods.
        in_atomic: whether a call would join the transaction that they wait for.
    """
    for name in ("delay", "apply_async"):
        theirs = getattr(app.Task, f"{name}_on_commit", None)
        if theirs is not None and not hasattr(theirs, "__wrapped__"):
            setattr(app.Task, theirs.__name__, _at_once(theirs, name, in_atomic))


def _at_once(theirs: Any, name: str, in_atomic: Callable[[], bool]) -> Any:
    @wraps(theirs)
    def on_commit(self: Any, *args: Any, **kwargs: Any) -> None:
        app = self.app
        options = {} if name == "delay" else {**kwargs, "args": None, "kwargs": None}
        joins = (
            not app.conf.task_always_eager
            and app.send_task.records(self.name, task_type=self, **options)
            and (block_in(app) is not None or in_atomic())
        )
        if joins:
            getattr(self, name)(*args, **kwargs)
        else:
            theirs(self, *args, **kwargs)

    return on_commit


def _mode(
    app: Any, name: str, kwargs: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> Mode | None:
    """Return the mode that the task names; None: no outbox.

    Of `map`, `starmap` and `chunks` the task that they run says it.
    """
    task = options.get("task_type")
    if name in MAPS and kwargs and isinstance(kwargs.get("task"), Mapping):
        task, name = None, kwargs["task"].get("task")
    # As Celery itself looks for it: the app is not finalized for this.
    task = task or app._tasks.get(name)  # noqa: SLF001
    return refusals.mode_of(getattr(task, "outbox", None), f"outbox of {name!r}")


def _bypasses_outbox(app: Any, options: Mapping[str, Any]) -> bool:
    """Return whether a message is sent as ever, whatever outbox there is."""
    if options.get("connection") is not None:
        return True
    producer = options.get("producer") or options.get("publisher")
    # A group hands its messages a producer of the app's pool: no choice of the user's.
    if producer is not None and "release" not in vars(producer):
        return True
    running = app.current_worker_task
    task_id = options.get("task_id")
    return bool(running and task_id and running.request.id == task_id)


def _refuse_key(options: dict[str, Any]) -> None:
    if options.get("dedupe_key") is not None:
        raise NotRecorded(
            f"dedupe_key is {options['dedupe_key']!r}, but this message goes straight"
            " to the broker; allowed for tasks with outbox= and inside of an outbox"
        )
    options.pop("dedupe_key", None)

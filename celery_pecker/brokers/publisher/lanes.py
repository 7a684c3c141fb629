"""What is asked of the publisher, and which lane an entry takes, and why: without I/O.

The fast lane repeats a message that Celery built once. That is right only while
Celery would build the same one again and no code would notice that it did not: no
signal receivers, no patched functions, nothing in the entry that is evaluated anew
for each run. A process can become instrumented at any time, so
`SignalReceivers.reason` is asked before every batch.

"Patched" means: the function does not live in the module that defines it in Celery
or kombu. `functools.wraps` copies the name of that module, and wrapt even lends the
code object, but the globals of a function cannot be lent. What a tracer does to the
code object itself is seen only if it happens after the publisher was made.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from types import FunctionType, ModuleType
from typing import Any

import celery.app.amqp
import celery.app.base
import celery.app.routes
import celery.app.task
import celery.beat
import kombu.messaging
from celery import signals
from celery.beat import BeatLazyFunc, ScheduleEntry, Scheduler
from kombu.messaging import Producer


@dataclass(slots=True, kw_only=True)
class Dispatch:
    """One slot to put on the wire. Not to be changed (see schedules.model.Slot)."""

    name: str
    """The entry's name, as given to `Publisher.prepare`."""
    task_id: str
    header: Mapping[str, object]
    """The value of `headers['pecker']`; made of what JSON knows."""
    expires: datetime | None = None
    """An absolute, aware instant. None: the `expires` of the entry or of its task
    counts from the host's clock, as in Celery's beat."""
    ends: float | None = None
    """By which monotonic moment a run in this process must have ended. None: ever."""
    latest: float | None = None
    """After which monotonic moment a run in this process does not start any more."""


def names_in(batch: Iterable[Dispatch], task_ids: AbstractSet[str]) -> frozenset[str]:
    """Return the names all of whose slots in the batch are among `task_ids`.

    An entry that catches up has several slots in one batch.
    """
    names: dict[str, bool] = {}
    for dispatch in batch:
        among = dispatch.task_id in task_ids
        names[dispatch.name] = names.get(dispatch.name, True) and among
    return frozenset(name for name, among in names.items() if among)


SAMPLE = Dispatch(name="", task_id="0" * 36, header={})
"""A slot that is never sent: an entry of which it cannot be filled in is unusual."""


OURS = "celery_pecker"

#: Options by which one run differs from the next, or that bring their own way out.
SLOW_OPTIONS = frozenset(
    {"countdown", "eta", "connection", "producer", "publisher", "router"}
)
TASK_METHODS = ("apply_async", "shadow_name", "_get_exec_options")


class LaneRefused(Exception):
    """The broker refuses what the fast lane does, and has nothing of the batch."""


class NoTemplate(Exception):
    """This entry's message cannot be repeated from a template; the text says why."""


class Unbuildable(Exception):
    """Celery cannot build this entry's message; the text says why."""


def native(function: object, home: ModuleType) -> bool:
    """Return whether `function` is the one that `home` itself defines, unpatched."""
    if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
        return False
    names = function.__globals__
    ours = str(names.get("__name__", "")).partition(".")[0] == OURS
    return names is vars(home) or (ours and home is celery.beat)


def entry_reason(app: Any, entry: ScheduleEntry) -> str | None:
    """Return what keeps the entry out of the fast lane, None if nothing does."""
    values = (*(entry.args or ()), *(entry.kwargs or {}).values())
    if any(isinstance(value, BeatLazyFunc) for value in values):
        return "arguments are evaluated for each run (BeatLazyFunc)"
    options = entry.options or {}
    for option in sorted(SLOW_OPTIONS & options.keys()):
        if options[option] is not None:
            return f"option {option!r}"
    return task_reason(app.tasks.get(entry.task))


def task_reason(task: Any) -> str | None:
    """Return what of the task's class is not Celery's own and concerns sending."""
    if task is None:
        return None
    for method in TASK_METHODS:
        if method in vars(task) or not native(
            getattr(type(task), method), celery.app.task
        ):
            return f"{type(task).__name__}.{method} is not Celery's own"
    return None


class SignalReceivers:
    """Knows whether a receiver in this process watches, or takes part in, sending."""

    def __init__(self, app: Any, scheduler: Scheduler | None = None) -> None:
        """``scheduler``: what sends the messages; None where no scheduler does."""
        self._app = app
        self._scheduler = scheduler
        self._trusted: tuple[object, ...] = ()
        self._codes = [_code(function) for _, function, _ in self._functions()]

    def reason(self) -> str | None:
        """Return what watches or differs per run; None if a copy is as good."""
        return next(self._reasons(), None)

    def _reasons(self) -> Iterator[str]:
        for signal in ("before_task_publish", "after_task_publish", "task_sent"):
            if any(map(_watches, getattr(signals, signal).receivers)):
                yield f"signal {signal} has receivers"
        conf = self._app.conf
        for setting in ("task_send_sent_event", "task_always_eager"):
            if conf[setting]:
                yield f"setting {setting}"
        amqp = self._app.amqp
        if any(type(r) is not celery.app.routes.MapRoute for r in amqp.routes):
            yield "task_routes holds a function"
        if type(amqp) is not celery.app.amqp.AMQP or amqp.Producer is not Producer:
            yield "app.amqp is not Celery's own"
        yield from self._patched()

    def _patched(self) -> Iterator[str]:
        functions = list(self._functions())
        current = tuple(function for _, function, _ in functions)
        codes = [_code(function) for function in current]
        # Equal tuples of functions are compared by identity, element by element:
        # the usual answer costs no look into their globals.
        if current == self._trusted and codes == self._codes:
            return
        for (name, function, home), code, first in zip(
            functions, codes, self._codes, strict=True
        ):
            if not native(function, home) or code is not first:
                yield f"{name} is patched"
        self._trusted = current

    def _functions(self) -> Iterator[tuple[str, object, ModuleType]]:
        if self._scheduler is not None:
            kind = type(self._scheduler)
            for name in ("apply_entry", "apply_async", "send_task"):
                function = vars(self._scheduler).get(name) or getattr(kind, name)
                yield f"{kind.__name__}.{name}", function, celery.beat
        task = celery.app.task.Task
        yield "Task.apply_async", task.apply_async, celery.app.task
        send = type(self._app).send_task
        yield "Celery.send_task", send, celery.app.base
        amqp = self._app.amqp
        yield "AMQP.as_task_v2", type(amqp).as_task_v2, celery.app.amqp
        yield "AMQP.send_task_message", amqp.send_task_message, celery.app.amqp
        for name in ("publish", "_publish"):
            yield f"Producer.{name}", getattr(Producer, name), kombu.messaging


def _watches(receiver: Any) -> bool:
    """Return whether a receiver is not ours; ours add nothing to a slot's message.

    They hand a task's deadline and trace on to its subtasks; the header of a slot has
    both. Celery keeps (name or id of the receiver, id of its sender) with each.
    """
    name = receiver[0][0]
    return not (isinstance(name, str) and name.startswith(f"{OURS}."))


def _code(function: object) -> object:
    return getattr(function, "__code__", None)

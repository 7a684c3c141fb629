"""Build the messages of many calls of one task, before any of them is written.

Results of very many tasks, as `task.AsyncResult` makes them one by one.

A third of the time of a copy went into its result: most of that for a promise with a
weak method, which is hardly ever used. So it is made at its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from celery import Task
from celery.result import AsyncResult
from vine import promise

from celery_pecker.kernel.adapters.per_app import real
from celery_pecker.kernel.clock import new_tag
from celery_pecker.kernel.errors import NotRecorded
from celery_pecker.outbox import refusals
from celery_pecker.outbox.copies import Copies, Row, row_of
from celery_pecker.outbox.model import Entry


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
        message = f"task is {task!r}; allowed is a task of the app"
        raise NotRecorded(message)
    for name in OF_ONE:
        if options.get(name) is not None:
            message = (
                f"{name} is {options[name]!r}, but there are many messages; allowed in"
                " send"
            )
            raise NotRecorded(message)
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
        message = (
            f"rows are more than {MOST_ROWS}; allowed are so many in one call: divide"
            " them"
        )
        raise NotRecorded(message)
    batch = BulkBatch()
    template: Copies | None = None
    result_of: Callable[[str], Any] | None = None
    for number, (args, kwargs) in enumerate(calls):
        if template is not None and result_of is not None:
            _copy(batch, template, result_of, (args, kwargs), limit)
            continue
        entries, result = gather(task.s(*args, **kwargs))
        batch.entries += entries
        batch.results.append(result)
        if not number and len(calls) > 1 and len(entries) == 1:
            first = entries[0].message
            template = Copies.of(task.app, task, first, (args, kwargs))
            batch.copies = template is not None
            result_of = like(_result(task, result))
    return batch


def _result(task: Any, first: Any) -> Any:
    """Return a result as the others are: without a parent, ignored as the first."""
    result = task.AsyncResult(first.id)
    result.ignored = first.ignored
    return result


def _copy(
    batch: BulkBatch,
    template: Copies,
    result_of: Callable[[str], Any],
    row: Row,
    limit: int,
) -> None:
    message = template.message(row, new_tag())
    refusals.check(message, limit)
    first = batch.entries[0]
    batch.entries.append(Entry(message, first.mode, first.key))
    result = result_of(message.task_id)
    parent = template.app.current_worker_task
    if parent:
        parent.add_trail(result)
    batch.results.append(result)

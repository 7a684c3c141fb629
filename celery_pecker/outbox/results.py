"""Results of very many tasks, as `task.AsyncResult` makes them one by one.

A third of the time of a copy went into its result: most of that for a promise with a
weak method, which is hardly ever used. So it is made at its first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from celery.result import AsyncResult
from vine import promise


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

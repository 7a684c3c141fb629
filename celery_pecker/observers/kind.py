"""A function that was declared as an observer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from celery_pecker.kernel.adapters.calls import awaited
from celery_pecker.observers import refusals
from celery_pecker.observers.model import Answer, Isolation, ObserverRow, Unreachable
from celery_pecker.observers.retry import Retry

Full = Literal["wait", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was declared beside the function."""

    weight: int
    retry: Retry
    stop_grace: float
    unreachable: Unreachable
    isolation: Isolation
    on_parked: str | None
    """A signature as JSON."""
    on_moved: str | None


@dataclass(eq=False)
class Observer:
    """A kind of observer: ``start`` starts one of it under a name of its own."""

    observers: Any
    """The `Observers` that it was declared on."""
    kind: str
    function: Callable[..., Any]
    options: Options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as tests do."""
        return self.function(*args, **kwargs)

    def start(  # of them two are the observer's, the rest of any start
        self,
        name: str,
        *args: Any,
        connection: Any = None,
        full: Full = "wait",
        on_parked: Any = None,
        on_moved: Any = None,
        **kwargs: Any,
    ) -> int:
        """Record an observer of this kind; return its id. See `Observers.start`."""
        made: int = self.observers.start(
            self.kind,
            name,
            connection=connection,
            full=full,
            on_parked=on_parked,
            on_moved=on_moved,
            **refusals.bound(self.kind, self.function, args, kwargs),
        )
        return made

    astart = awaited(start)

    def stop(self, name: str, *, connection: Any = None) -> Answer:
        """Ask for the end of an observer."""
        answer: Answer = self.observers.stop(name, connection=connection)
        return answer

    def restart(self, name: str, *, connection: Any = None) -> Answer:
        """Ask for a new beginning of an observer."""
        answer: Answer = self.observers.restart(name, connection=connection)
        return answer

    def status(self, name: str) -> ObserverRow | None:
        """Return an observer as the table has it."""
        row: ObserverRow | None = self.observers.status(name)
        return row

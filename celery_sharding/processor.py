"""A sharded task's code: four functions, and the options by which they run."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from celery_sharding.errors import Misconfigured
from celery_sharding.model import Options


def nothing(kwargs: Mapping[str, Any]) -> Iterable[str]:
    """Return no task names: no task is called."""
    return ()


PASSED = {"process": 1, "notify": 2, "post_process": 3}
"""How many arguments each function gets; PreProcess has those of the call, too."""


def check_code(what: str, function: Callable[..., Any]) -> None:
    """Refuse code that a call does not run: a coroutine, or a generator.

    Only PreProcess may be a generator: its items are the job's. And code with
    parameters that are never passed: their defaults would win over what a call passes.

    Raises:
        Misconfigured: It is a coroutine function, or a generator function, or has
            another parameter by name.

    """
    kind = None
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        kind = "an async function, and Celery's workers await nothing"
    elif inspect.isgeneratorfunction(function) and what != "pre_process":
        kind = "a generator, and nothing reads its items"
    if kind is not None:
        name = getattr(function, "__qualname__", repr(function))
        raise Misconfigured(
            f"{what} of a sharded task must be a plain function: {name} is {kind}"
        )
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except ValueError:  # some in C do not say
        return
    for one in parameters[PASSED.get(what, len(parameters)) :]:
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise Misconfigured(
                f"{what} of a sharded task is never passed {one.name!r}: it gets"
                f" {PASSED[what]} arguments, and job.kwargs has what a call passes by"
                " name"
            )


@dataclass(slots=True, kw_only=True)
class Processor:
    """A sharded task's code; all but `process` may be absent."""

    name: str
    """Of the Celery task."""
    process: Callable[..., Any]
    """``(shard)``: called for each shard, and again for the rest of one whose item
    failed. What it returns, if it is not None, is a result of the items that the call
    was given."""
    options: Options
    pre_process: Callable[..., Any] | None = None
    """``(job, *args, **kwargs)`` of the call; returns the items. None: the first
    argument of the call is the items."""
    notify: Callable[..., Any] | None = None
    """``(job, progress)``."""
    post_process: Callable[..., Any] | None = None
    """``(job, results, errors)``; what it returns is what the job returns."""
    key: Callable[..., str] | str | None = None
    """From the call's arguments to the job's key: a function of them, or a format
    ("upload-{0}", "{tenant}"); None: each call is a job of its own."""
    gate: Any = None
    """What is asked before items are run: ``admit(database, cost)`` says whether they
    may, and if not when to ask again (`throttle.Gate`), or a function that makes it."""
    throttle: object = None
    """The database that items touch, or a pair of it and a tenant, as tasks name it:
    asked of the gate of `throttle`, where `gate` is None and there are limits."""
    calls: Callable[[Mapping[str, Any]], Iterable[str]] = nothing
    """From a job's keyword arguments to the names of the tasks that are called with its
    items: a worker that does not know them leaves the job to others."""
    returns: bool | None = None
    """Whether calls of it return a value; None: none has returned in this process."""

    def note_return(self, *, value: bool) -> None:
        """Note that a call returned, with a value or without one.

        One call with a value decides: others may have had nothing to return.
        """
        self.returns = self.returns or value

"""Signatures that hold items until they are sent, and `sharded` for any task."""

from __future__ import annotations  # Celery before 5.6 has no Task[...] at run time

from collections.abc import Mapping
from typing import Any, Self

from celery import Task
from celery.canvas import Signature

from celery_sharding.canvas import inline
from celery_sharding.canvas.inline import (
    ListedSources,
    sources_of,
    to_be_listed,
)
from celery_sharding.errors import Misconfigured
from celery_sharding.ledger import at
from celery_sharding.plan.arguments import HEADER, join, split
from celery_sharding.policies import Isolate, changes_as_json
from celery_sharding.settings import ShardingSettings

ROUTES = ("queue", "exchange", "routing_key", "priority", "serializer", "compression")
OF_THE_JOB = (*ROUTES, "countdown", "eta", "expires", "shadow", "headers")
"""Options of the called signature that are the job's: its message has them."""
LIMITS = ("soft_time_limit", "time_limit")
"""Those that bound a call, the first one first."""
CANVASES = {"chain", "group", "chord", "xmap", "xstarmap", "chunks"}
"""Kinds of signatures that are no single task."""


def check_task(signature: Mapping[str, Any]) -> None:
    """Refuse what is no task: each item of it would fail."""
    kind = signature.get("subtask_type")
    if kind in CANVASES:
        raise Misconfigured(
            f"sharded() calls one task, with items or with their results, and cannot"
            f" wait for a {kind}: let a task call it, or give the chain a job as a part"
        )


def refuse_options(signature: Signature) -> None:
    """Refuse options of the called signature that cannot hold for an item."""
    for name in signature.options:
        if name not in OF_THE_JOB and name not in LIMITS:
            raise Misconfigured(
                f"{signature.task}: the option {name!r} cannot hold for an item of"
                f" sharded(); allowed are {', '.join((*OF_THE_JOB, *LIMITS))}; set"
                " others on the signature that sharded() returns"
            )


def refuse_post_options(post: Signature) -> None:
    """Refuse options of what is called with the results: it runs in the job."""
    for name in post.options:
        raise Misconfigured(
            f"post={post.task}: it runs where the job does, and its option {name!r}"
            " cannot hold; give it none, or let it be the next step of a chain"
        )


def refuse_arguments(task: Any, signature: Signature) -> None:
    """Refuse arguments that the task does not take, once and not for each item."""
    header = getattr(task, "__header__", None)
    if header is None or not task.typing:
        return
    first = () if signature.immutable else (None,)
    try:
        header(*first, *signature.args, **signature.kwargs)
    except TypeError as error:
        raise TypeError(
            f"sharded() calls {signature.task} with an item first: {error}"
        ) from error


def refuse_rate_limit(task: Any) -> None:
    """Refuse a task with a rate limit: it is of messages, and items are none."""
    if task.rate_limit:
        raise Misconfigured(
            f"{task.name} has rate_limit={task.rate_limit!r}, which workers hold for"
            " messages: sharded() cannot hold it for items. Call it from a sharded"
            " task of your own, with gate= or concurrency="
        )


def carried(
    task: Any, signature: Signature, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the job's options, with what follows from the task where none is given."""
    merged = {"on_error": Isolate(max_failed=0), **options}
    seconds = _time_limit(task, signature)
    if seconds is not None:
        merged.setdefault("item_timeout", seconds)
    return merged


def _time_limit(task: Any, signature: Signature) -> float | None:
    """Return the seconds that a call may take; None: nothing says."""
    conf = signature.app.conf
    sources: tuple[list[Any], ...] = (
        [signature.options.get(name) for name in LIMITS],
        [getattr(task, name, None) for name in LIMITS],
        [conf.get(f"task_{name}") for name in LIMITS],
    )
    for soft, hard in sources:
        if soft or hard:
            return float(soft or hard)
    return None


KIND = "sharded"
EACH, EACH_THEN = "celery_sharding.each", "celery_sharding.each_then"
"""The tasks behind `sharded`, without and with ``post=``."""
FROM_BEFORE: Any = object()
"""The items are what a chain passes on."""


@Signature.register_type(name=KIND)
class ShardedSignature(Signature):
    """A signature of a sharded task.

    Items in its first argument stay there. Chains, groups and chords freeze their parts
    before they write any into a message: then the items are stored, and it becomes a
    plain signature that names them. Sources are moved to a header when it is made:
    what is read from JSON in an argument's place is never one.
    """

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], app: Any = None) -> Self:
        """Return the signature of a dict."""
        fields: Any = dict(d)
        return cls(fields, app=app)

    def freeze(self, *args: Any, **kwargs: Any) -> Any:
        """Return its result; its items are stored from now on, and named here."""
        result = super().freeze(*args, **kwargs)
        if isinstance(self._sources, ListedSources) and _stores(self.app):
            self._sources.listed()  # what JSON would do, but it hides why it cannot
        if self.args and inline.holds(self.args[0]) and _stores(self.app):
            limit = ShardingSettings.read(self.app.conf).inline_bytes
            ledger = at(self.app, role="caller")
            items, *rest = self.args
            self["args"] = (inline.put(ledger, items, limit=limit), *rest)
            self["subtask_type"] = None
        return result

    _freeze = freeze

    def move_sources(self) -> None:
        """Move Sources from its arguments to its headers, but those among items."""
        args = self.args
        first = 1 if args and inline.holds(args[0]) else 0
        rest, kwargs, sources = split(args[first:], self.kwargs)
        if sources:
            self["args"], self["kwargs"] = (*args[:first], *rest), kwargs
            listed = to_be_listed(self.app, str(self.task), sources)
            self["options"] = with_header(self.options, listed)

    def set(self, immutable: bool | None = None, **options: Any) -> Self:
        """Set options, as Celery's; headers that are set keep the Sources."""
        if "headers" in options:
            options = with_header(options, self._sources)
        made: Any = super().set(immutable, **options)
        return made  # type: ignore[no-any-return]  # itself

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the job here and now; return what it returns."""
        positional, named, options = self._merge(args, kwargs)
        header = (options.get("headers") or {}).get(HEADER)
        sources = sources_of(self.app, str(self.task), header)
        positional, named = join(positional, named, sources)
        return self.type(*positional, **named)

    def _merge(
        self, args: Any = None, kwargs: Any = None, options: Any = None, **more: Any
    ) -> Any:
        if options and "headers" in options:
            options = with_header(options, self._sources)
        celerys: Any = super()
        return celerys._merge(args, kwargs, options, **more)  # noqa: SLF001  # its own

    @property
    def _sources(self) -> Any:
        return (self.options.get("headers") or {}).get(HEADER)


def with_header(options: Mapping[str, Any], sources: Any) -> dict[str, Any]:
    """Return options whose headers have the Sources of a call."""
    if not sources:
        return {**options}
    return {**options, "headers": {**(options.get("headers") or {}), HEADER: sources}}


def _stores(app: Any) -> bool:
    """Return whether items can be stored: a job in the caller needs no database."""
    return not app.conf.task_always_eager and bool(app.conf.get("pecker_dsn"))


def sharded(
    signature: Task[..., Any] | Signature | Mapping[str, Any],
    items: Any = FROM_BEFORE,
    *,
    post: Task[..., Any] | Signature | Mapping[str, Any] | None = None,
    key: str | None = None,
    **options: Any,
) -> Signature:
    """Return the signature of a job that calls a task once for each item.

        sharded(import_one.s(), items, size=(50, 500), post=total.s()).delay()

    The item becomes the first argument, in the process that has it in hand, and what
    the task returns is a result. Without `items` they are what the step before in a
    chain returns. `options` are those of `Sharding.task`: size, concurrency, on_error
    and so on. Queue and priority are the task's: by its signature, the app's routes, or
    its own attributes. ``post`` is called with the list of results, as the body of a
    chord; without it the job returns its counts. If an item fails, so does the job,
    unless ``on_error`` says else.

    Raises:
        Misconfigured: There is no such option, its value is not allowed, what is to be
            called is no task but a chain, group or chord, or has options that cannot
            hold. TypeError: The task does not take these arguments.
    """
    target = _as_signature(signature)
    then = None if post is None else _as_signature(post)
    app = target.app
    if EACH not in app.tasks:
        raise Misconfigured(
            "sharded() needs Sharding(app) first: it registers the tasks behind it"
        )
    refuse_options(target)
    called = app.tasks.get(str(target.task))
    if called is not None:
        refuse_rate_limit(called)
        refuse_arguments(called, target)
    kwargs: dict[str, Any] = {
        "each": {**target, "options": {}},
        "options": changes_as_json(carried(called, target, options)),
    }
    if then is not None:
        refuse_post_options(then)
        kwargs["post"] = {**then}
    if key is not None:
        kwargs["key"] = key
    task: Any = app.tasks[EACH if then is None else EACH_THEN]
    of_job = {
        name: target.options[name] for name in OF_THE_JOB if name in target.options
    }
    if items is FROM_BEFORE:
        open_made: Signature = task.signature((), kwargs, of_job)
        return open_made
    # What a step before returns would come first, and be taken for the items.
    made: Signature = task.signature((items,), kwargs, of_job, immutable=True)
    return made


def _as_signature(candidate: Any) -> Signature:
    if isinstance(candidate, Task):
        candidate = candidate.s()
    if not isinstance(candidate, Mapping):
        raise Misconfigured(
            f"sharded() calls a task, or its signature, not {candidate!r:.80}"
        )
    made = (
        candidate
        if isinstance(candidate, Signature)
        else Signature.from_dict({**candidate})
    )
    check_task(made)
    return made

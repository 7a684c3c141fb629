"""A call becomes a row before its message is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import signature as signature_of
from typing import Any, Protocol

from celery_sharding.canvas import inline
from celery_sharding.errors import Misconfigured
from celery_sharding.ledger import at
from celery_sharding.ledger.submissions import NewJob, Submitted
from celery_sharding.model import Options
from celery_sharding.plan import arguments
from celery_sharding.processor import Processor, nothing
from celery_sharding.settings import ShardingSettings

SUBMITTED = "submitted"
"""Header of a message whose row was written before it was sent: where
there is none, it was withdrawn or purged, and is not to be recreated."""
LONGEST_KEY = 1_000
"""Characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a sharded task."""

    task_id: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    continuation: Mapping[str, Any]
    options: Options
    follow: bool
    """Whether something waits for its own task id: it cannot be another job's."""


class Called(Protocol):
    """What a call needs of the sharded task that is called."""

    name: str
    processor: Processor

    @property
    def app(self) -> Any:
        """The app, by Celery's name."""

    @property
    def request(self) -> Any:
        """The request of the task that runs now, by Celery's name."""

    def options_of(self, kwargs: Mapping[str, Any]) -> Options:
        """Return how a call with those arguments is to run."""
        ...

    def AsyncResult(self, task_id: str, **options: Any) -> Any:  # noqa: N802  # Celery's
        """Return the result of the job of that task id."""
        ...


def check(
    processor: Processor, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Refuse arguments that the job could not begin with."""
    arguments.check(args, kwargs)
    if processor.pre_process is not None:
        try:
            signature_of(processor.pre_process).bind(None, *args, **kwargs)
        except TypeError as error:
            message = f"pre_process of {processor.name}: {error}"
            raise TypeError(message) from error
    elif not args:
        message = (
            f"{processor.name} has no pre_process: its items are to be passed as the"
            " first argument"
        )
        raise Misconfigured(message)
    elif len(args) > 1 and (processor.key is None or processor.calls is not nothing):
        message = (
            f"{processor.name} takes its items as the one positional argument, not"
            f" {len(args)} of them: pass others by name (shard.job.kwargs). In a chain"
            " items of its own need .si(…): what the step before returned comes first"
        )
        raise Misconfigured(message)
    else:
        inline.check(args[0])


def key_of(
    processor: Processor, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str | None:
    """Return the job's key; None: each call is a job of its own."""
    key = processor.key
    if key is None:
        return None
    if isinstance(key, str):
        try:
            value: object = key.format(*args, **kwargs)
        except (LookupError, AttributeError, ValueError) as error:
            message = f"key {key!r} of {processor.name} does not fit this call: {error}"
            raise Misconfigured(message) from error
    else:
        value = key(*args, **kwargs)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_KEY:
        message = (
            f"the key of a call of {processor.name} must be text of 1 to {LONGEST_KEY}"
            f" characters, not {value!r:.80}"
        )
        raise Misconfigured(message)
    return value


def prepared(
    app: Any, processor: Processor, call: Call
) -> tuple[tuple[Any, ...], str | None]:
    """Return the arguments, items by reference, and the key; raise what is wrong."""
    check(processor, call.args, call.kwargs)
    key = key_of(processor, call.args, call.kwargs)
    if processor.pre_process is not None:
        return call.args, key
    items, *rest = call.args
    limit = ShardingSettings.read(app.conf).inline_limit
    return (inline.put(at(app, role="caller"), items, limit=limit), *rest), key


def submit(app: Any, processor: Processor, call: Call) -> tuple[Submitted, Call]:
    """Write the call to the ledger; return it as it is sent, items by reference.

    Raises what is wrong with it: then nothing of it stands there but, at most, its
    items, which the purge takes.
    """
    args, key = prepared(app, processor, call)
    new = NewJob(
        task_id=call.task_id,
        task=processor.name,
        args=args,
        kwargs=call.kwargs,
        continuation=call.continuation,
        options=call.options,
        key=key,
    )
    done = at(app, role="caller").submissions.submit(new, follow=call.follow)
    return done, replace(call, args=args)

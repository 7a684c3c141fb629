"""A call becomes a row before its message is sent."""

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from inspect import signature as signature_of
from typing import Any

from celery import Task
from kombu.exceptions import OperationalError

from celery_pecker import deadline
from celery_sharding import errors
from celery_sharding.canvas import inline
from celery_sharding.canvas.inline import ListedSources, to_be_listed
from celery_sharding.errors import Misconfigured
from celery_sharding.ledger import at
from celery_sharding.ledger.submissions import NewJob, Submitted, unknown
from celery_sharding.messages import OPTIONS, SENT_BY, wait_of
from celery_sharding.model import Options
from celery_sharding.plan import arguments
from celery_sharding.plan.arguments import HEADER, split
from celery_sharding.policies import difference
from celery_sharding.processor import Processor, nothing
from celery_sharding.settings import ShardingSettings

logger = logging.getLogger(__name__)

SUBMITTED = "submitted"
"""Header of a message whose row was written before it was sent: where
there is none, it was withdrawn or purged, and is not to be recreated."""
LONGEST_KEY = 1_000
"""Characters."""


class Called(Task):  # type: ignore[type-arg]  # generic in the stubs only
    """A sharded task, as far as calling it goes."""

    abstract = True
    processor: Processor

    def options_of(self, kwargs: Mapping[str, Any]) -> Options:
        """Return how a call with those arguments is to run."""
        return self.processor.options


def check(
    processor: Processor, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Refuse arguments that the job could not begin with."""
    arguments.check(args, kwargs)
    if processor.pre_process is not None:
        try:
            signature_of(processor.pre_process).bind(None, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"pre_process of {processor.name}: {error}") from error
    elif not args:
        raise Misconfigured(
            f"{processor.name} has no pre_process: its items are to be passed as the"
            " first argument"
        )
    elif len(args) > 1 and (processor.key is None or processor.calls is not nothing):
        raise Misconfigured(
            f"{processor.name} takes its items as the one positional argument, not"
            f" {len(args)} of them: pass others by name (shard.job.kwargs). In a chain"
            " items of its own need .si(…): what the step before returned comes first"
        )
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
            raise Misconfigured(
                f"key {key!r} of {processor.name} does not fit this call: {error}"
            ) from error
    else:
        value = key(*args, **kwargs)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_KEY:
        raise Misconfigured(
            f"the key of a call of {processor.name} must be text of 1 to {LONGEST_KEY}"
            f" characters, not {value!r:.80}"
        )
    return value


def prepared(
    app: Any, processor: Processor, call: NewJob
) -> tuple[tuple[Any, ...], str | None]:
    """Return the arguments, items by reference, and the key; raise what is wrong."""
    check(processor, call.args, call.kwargs)
    key = key_of(processor, call.args, call.kwargs)
    if processor.pre_process is not None:
        return call.args, key
    items, *rest = call.args
    limit = ShardingSettings.read(app.conf).inline_bytes
    return (inline.put(at(app, role="caller"), items, limit=limit), *rest), key


def submit(app: Any, processor: Processor, call: NewJob) -> tuple[Submitted, NewJob]:
    """Write the call to the ledger; return it as it is sent, items by reference.

    Raises what is wrong with it: then nothing of it stands there but, at most, its
    items, which the purge takes.
    """
    args, key = prepared(app, processor, call)
    call = replace(call, args=args, key=key)
    submissions = at(app, role="caller").submissions
    return submissions.submit(call, follow=call.follow), call


REFUSED = "refused"
"""What the header of a message says that brings the reason why its call is refused."""


class Sender:
    """Sends the message of a call, by Celery's own apply_async."""

    def __init__(self, task: Called, apply_async: Callable[..., Any]) -> None:
        self._task = task
        self._apply_async = apply_async

    def send(self, call: NewJob, options: Mapping[str, Any]) -> Any:
        """Return the result of the job, or of the one that has its key already.

        Raises what is wrong with the call, or why it could not be sent: then there is
        no job; or SubmissionUnknown. Where the job stood before this call, or as its
        answer was lost, a broker that is away is the sweeper's to wait for.
        """
        app = self._task.app
        submitted, call = submit(app, self._task.processor, call)
        if submitted.leader is not None and not call.follow:
            return self._task.AsyncResult(submitted.leader)
        result = self._task.AsyncResult(call.task_id)
        if not submitted.fresh:
            return self._publish_stored(call, options)
        with ExitStack() as undo:
            undo.push(partial(self._undone, call))
            result = self._publish(call, options, SUBMITTED)
            undo.pop_all()
        self._note_sent(call, options)
        return result

    def forward(self, call: NewJob, options: Mapping[str, Any]) -> Any:
        """Send as `send` does, for a task that has succeeded: raise no error here.

        A call that is refused becomes a job that fails. Where the ledger does not
        answer, the message brings all of the call, and its worker submits it. Where the
        broker does not take it, the sweeper sends it.
        """
        try:
            _, call = submit(self._task.app, self._task.processor, call)
        except errors.DatabaseUnavailable as error:
            logger.warning(
                "sharding: %s is submitted by the worker that gets it: %s",
                call.task_id,
                error,
            )
            return self._publish(call, options, None)
        except (errors.Misconfigured, errors.ShardingError, TypeError) as error:
            reason = {"type": type(error).__name__, "message": str(error)}
            return self._publish(
                replace(call, args=(), kwargs=reason), options, REFUSED
            )
        return self._publish_stored(call, options)

    def record(self, call: NewJob, options: Mapping[str, Any]) -> Any:
        """Hand the message to the outbox that is in force; submit nothing here.

        Its transaction may be rolled back. The message brings all of the call, and the
        worker that gets it submits the job. Items are stored outside of the
        transaction, and Sources listed: the purge deletes what is never submitted.
        """
        app, name = self._task.app, self._task.name
        args, _ = prepared(app, self._task.processor, call)
        sources = to_be_listed(app, name, split(args, call.kwargs)[2])
        if isinstance(sources, ListedSources):
            sources.listed()
        return self._publish(replace(call, args=args), options, None)

    def _publish_stored(self, call: NewJob, options: Mapping[str, Any]) -> Any:
        """Send the message of a job that stands whether it is sent or not."""
        try:
            result = self._publish(call, options, SUBMITTED)
        except (OperationalError, OSError) as error:
            logger.warning(
                "sharding: %s not sent, the sweeper sends it: %s", call.task_id, error
            )
            return self._task.AsyncResult(call.task_id)
        self._note_sent(call, options)
        return result

    def _undone(self, call: NewJob, _kind: Any, error: Any, _trace: Any) -> bool:
        """Withdraw a job that could not be sent; return whether it runs all the same.

        Then its message was taken, though the broker's answer was lost.
        """
        submissions = at(self._task.app, role="caller").submissions
        try:
            gone = submissions.withdraw(call.task_id)
        except errors.DatabaseUnavailable as away:
            raise unknown(call.task_id, away) from error
        return not gone and isinstance(error, (OperationalError, OSError))

    def _note_sent(self, call: NewJob, options: Mapping[str, Any]) -> None:
        """Record that the message was sent, so that it is not resent too early."""
        submissions = at(self._task.app, role="caller").submissions
        try:
            submissions.sent(call.task_id, after=wait_of(options))
        except errors.DatabaseUnavailable as error:
            logger.debug(
                "sharding: it was not recorded that %s was sent: %s",
                call.task_id,
                error,
            )

    def _publish(
        self, call: NewJob, options: Mapping[str, Any], sent_by: str | None
    ) -> Any:
        headers = {**(options.get("headers") or {})}
        args, kwargs, sources = split(call.args, call.kwargs)
        if sent_by is not None:
            headers[SENT_BY] = sent_by
        else:
            chosen = difference(self._task.options_of(call.kwargs), call.options)
            ours = {HEADER: sources, OPTIONS: chosen}
            headers.update({name: it for name, it in ours.items() if it})
        # A job has a deadline of its own, not that of the run that calls it.
        with deadline.detached():
            return self._apply_async(
                args,
                kwargs,
                call.task_id,
                **{**options, "headers": headers},
            )


def recorded(app: Any, name: str, options: Mapping[str, Any]) -> bool:
    """Return whether an outbox takes the message: see `celery_pecker.outbox.hook`."""
    records = getattr(app.send_task, "records", None)
    return records is not None and bool(records(name, **options))


def as_refused(reason: Mapping[str, Any]) -> Exception:
    """Return the reason why a call is refused, as it was raised where it was made."""
    kind = getattr(errors, reason["type"], None) or TypeError
    error: Exception = kind(reason["message"])
    return error

"""Send the message of a job once its row stands."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from kombu.exceptions import OperationalError

from celery_pecker import deadline
from celery_sharding import errors
from celery_sharding.canvas.listed_sources import ListedSources, to_be_listed
from celery_sharding.canvas.overrides import difference
from celery_sharding.canvas.submission import (
    SUBMITTED,
    Call,
    Called,
    prepared,
    submit,
)
from celery_sharding.ledger import at
from celery_sharding.ledger.submissions import unknown
from celery_sharding.messages import OPTIONS, SENT_BY, wait_of
from celery_sharding.plan.arguments import HEADER, split

logger = logging.getLogger(__name__)

REFUSED = "refused"
"""What the header of a message says that brings the reason why its call is refused."""


class Sender:
    """Sends the message of a call, by Celery's own apply_async."""

    def __init__(self, task: Called, apply_async: Callable[..., Any]) -> None:
        self._task = task
        self._apply_async = apply_async

    def send(self, call: Call, options: Mapping[str, Any]) -> Any:
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

    def forward(self, call: Call, options: Mapping[str, Any]) -> Any:
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

    def record(self, call: Call, options: Mapping[str, Any]) -> Any:
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

    def _publish_stored(self, call: Call, options: Mapping[str, Any]) -> Any:
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

    def _undone(self, call: Call, _kind: Any, error: Any, _trace: Any) -> bool:
        """Withdraw a job that could not be sent; return whether it runs all the same.

        Then its message was taken, though the broker's answer was lost.
        """
        submissions = at(self._task.app, role="caller").submissions
        try:
            gone = submissions.withdraw(call.task_id)
        except errors.DatabaseUnavailable as away:
            raise unknown(call.task_id, away) from error
        return not gone and isinstance(error, (OperationalError, OSError))

    def _note_sent(self, call: Call, options: Mapping[str, Any]) -> None:
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
        self, call: Call, options: Mapping[str, Any], sent_by: str | None
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

"""A Celery task whose run is a whole sharded job.

Its call names what Celery goes on with when the job has ended (`Continuation`).
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NoReturn, TypeVar

from celery import Celery
from celery.canvas import Signature
from celery.exceptions import Ignore
from kombu.utils.json import dumps
from kombu.utils.uuid import uuid

from celery_pecker.kernel.clock import SYSTEM
from celery_sharding import flow, runner, stages
from celery_sharding.canvas import eager, inline
from celery_sharding.canvas.inline import joined, to_be_listed
from celery_sharding.canvas.result import ShardedResult
from celery_sharding.canvas.sending import (
    REFUSED,
    Called,
    Sender,
    as_refused,
    recorded,
    submit,
)
from celery_sharding.canvas.signature import KIND, ShardedSignature
from celery_sharding.codec import REFUSALS
from celery_sharding.errors import DatabaseUnavailable, ItemNotSerializable, PeckerError
from celery_sharding.ledger import at
from celery_sharding.ledger.submissions import NewJob
from celery_sharding.messages import OPTIONS, RUN, SENT_BY, from_request
from celery_sharding.model import Options
from celery_sharding.plan.arguments import HEADER, split
from celery_sharding.policies import applied, difference
from celery_sharding.processor import check_code
from celery_sharding.runner.shard_worker import executor_of

ONE = "pecker"
"""How headers begin that are of one message: the slot of a schedule that it is, and
what its sender had left. Another with such a header would be refused, or struck."""
NOT_KEPT = frozenset(
    {
        "add_to_parent",
        "connection",
        "countdown",
        "producer",
        "publisher",
        "retry",
        "retry_policy",
        "retries",
        "route_name",
        "router",
        "task_id",
    }
)
"""Options that are about the sending of one message, or objects of this process."""


def timed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options whose times are instants: the message may be resent later."""
    fields = dict(options)
    for option, kept in (("countdown", "eta"), ("expires", "expires")):
        seconds = fields.get(option)
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
            fields.pop(option)
            fields[kept] = SYSTEM.now() + timedelta(seconds=seconds)
    return fields


def of_call(app: Celery, task_id: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message's fields, as Celery would fill it in.

    `options` are those of the call, `timed`, and the task's own.
    """
    fields = {
        key: value.isoformat() if isinstance(value, datetime) else value
        for key, value in options.items()
        if key not in NOT_KEPT and value is not None
    }
    if "headers" in fields:
        headers: Any = fields["headers"]
        fields["headers"] = {k: v for k, v in headers.items() if not k.startswith(ONE)}
    for key in ("link", "link_error"):
        if key in fields and not isinstance(fields[key], (list, tuple)):
            fields[key] = [fields[key]]
    for key in ("queue", "exchange"):
        option: Any = fields.get(key)
        if hasattr(option, "name"):
            fields[key] = option.name
    parent: Any = app.current_worker_task
    if parent and not fields.get("parent_id"):
        fields["parent_id"] = parent.request.id
    if parent and not fields.get("root_id"):
        fields["root_id"] = parent.request.root_id or parent.request.id
    fields.setdefault("root_id", task_id)
    try:
        plain: dict[str, Any] = json.loads(dumps(fields))
    except REFUSALS as error:
        raise ItemNotSerializable(
            f"what a sharded job is called with must be JSON, links too: {error}"
        ) from error
    return plain


logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])

CELERYS = ("producer", "link", "link_error", "shadow")
"""What Celery's apply_async takes by position after the task id."""
WHERE = {"queue", "exchange", "routing_key"}
WAITED_FOR = ("chain", "chord", "group_id", "link", "link_error")
"""Options of a call on whose own task id something else waits."""
LATER = 2.0
"""Seconds until a message that found no database is delivered anew."""


class ShardedTask(Called):
    """A task that is called as any other, and runs as a sharded job.

    What `run` does is to look at the ledger for what is next: to plan the job, to run
    Post, or to report its outcome to Celery. So a message of it may come late, twice or
    never.
    """

    abstract = True
    Request = "celery_sharding.canvas.request:JobRequest"
    """Acknowledges a message as it begins, if its job stands in the ledger."""
    acks_late = True
    reject_on_worker_lost = True
    max_retries = None
    """Messages that found no database are sent anew until there is one."""
    delay_on_commit: Callable[..., None]
    """Under Django: `delay`, once the transaction around has been committed."""
    apply_async_on_commit: Callable[..., None]
    """Under Django: `apply_async`, likewise."""

    # What it consists of besides `process`

    def pre_process(self, function: Function) -> Function:
        """Declare ``(job, *args, **kwargs)``, whose return value is the job's items."""
        check_code("pre_process", function)
        self.processor.pre_process = function
        return function

    def post_process(self, function: Function) -> Function:
        """Declare ``(job, results, errors)``, whose return value is the job's."""
        check_code("post_process", function)
        self.processor.post_process = function
        return function

    def notify(self, *, every: float = 0.05) -> Callable[[Function], Function]:
        """Declare ``(job, progress)``, called once for each such part of the items."""
        processor = self.processor
        processor.options = applied(processor.options, {"notify_every": every})

        def decorate(function: Function) -> Function:
            check_code("notify", function)
            processor.notify = function
            return function

        return decorate

    def signature(self, args: Any = None, *rest: Any, **options: Any) -> Any:
        """Return a signature; if its first argument has items, they are kept there."""
        options.setdefault("app", self.app)
        if isinstance(args, dict):
            fields: Any = args
            return Signature(self, fields, *rest, **options)
        made = ShardedSignature(self, args, *rest, **options)
        bare = self.processor.pre_process is None
        if bare and made.args and inline.holds(made.args[0]):
            made["subtask_type"] = KIND
            first, *others = made.args
            if isinstance(first, Iterator):
                made["args"] = (inline.Replay(first), *others)
        made.move_sources()
        return made

    subtask = signature

    def AsyncResult(self, task_id: str, **options: Any) -> ShardedResult:  # noqa: N802  # Celery's
        """Return the result of the job of that task id."""
        options.setdefault("app", self.app)
        options.setdefault("backend", self.backend)
        return ShardedResult(task_id, task_name=self.name, **options)

    def delay(self, *args: Any, **kwargs: Any) -> ShardedResult:
        """Submit the job, and send its message; return its result."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Any = None,
        kwargs: Any = None,
        task_id: str | None = None,
        *rest: Any,
        sharding: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ShardedResult:
        """Submit the job, and send its message; return its result.

        As Celery's. ``sharding``: options of the job that are to be others than the
        task's: ``{"concurrency": 8}``. If its key has a job that has not ended, that
        job's result is returned, unless something else waits for this call's own id.

        Raises:
            Misconfigured: The call cannot be meant; nothing was submitted.
            OperationalError: Its message could not be sent; it was withdrawn.
            DatabaseUnavailable: It was not submitted.
            SubmissionUnknown: A DatabaseUnavailable without an answer: it may run. A
                call with the error's ``task_id`` is the same job.
        """
        args, kwargs = tuple(args or ()), dict(kwargs or {})
        options = {**dict(zip(CELERYS, rest, strict=False)), **options}
        chosen = self._chosen(kwargs, sharding)
        if chosen.queue and not WHERE & options.keys():
            options["queue"] = chosen.queue
        app = self.app
        celerys: Callable[..., Any] = super().apply_async
        if task_id is not None and task_id == self.request.id:
            # Its own message once more, after it found no database.
            return self._typed(celerys(args, kwargs, task_id, **options))
        forwarded = _forwarded(app, options)
        try:
            args, kwargs, options = joined(app, self.name, args, kwargs, options)
        except PeckerError:
            if not forwarded:
                raise
            # The message brings all of the call: its worker looks, and it may fail.
            changed = {OPTIONS: difference(self.options_of(kwargs), chosen)}
            options["headers"] = {**options["headers"], **changed}
            return self._typed(celerys(args, kwargs, task_id, **options))
        if app.conf.task_always_eager:
            args, kwargs, apart = split(eager.carried(self, args, kwargs), kwargs)
            if apart:
                listed = to_be_listed(app, self.name, apart)
                options["headers"] = {**(options.get("headers") or {}), HEADER: listed}
            return self._typed(
                celerys(args, kwargs, task_id, sharding=sharding, **options)
            )
        options = timed(options)
        own = task_id or uuid()
        exec_options: Mapping[str, Any] = self._get_exec_options()  # type: ignore[attr-defined]  # not in the stubs
        call = NewJob(
            task_id=own,
            task=self.name,
            args=args,
            kwargs=kwargs,
            continuation=of_call(app, own, {**exec_options, **options}),
            options=chosen,
            follow=task_id is not None or any(options.get(key) for key in WAITED_FOR),
        )
        sender = Sender(self, celerys)
        if forwarded:
            return self._typed(sender.forward(call, options))
        if recorded(app, self.name, {**options, "task_type": self, "task_id": own}):
            return self._typed(sender.record(call, options))
        return self._typed(sender.send(call, options))

    @staticmethod
    def _typed(result: Any) -> ShardedResult:
        """Return it: of a job in the caller, what stands for one that has ended."""
        typed: ShardedResult = result
        return typed

    def _chosen(
        self, kwargs: Mapping[str, Any], changes: Mapping[str, Any] | None
    ) -> Options:
        options = self.options_of(kwargs)
        return applied(options, changes) if changes else options

    def apply(  # type: ignore[override]  # Celery's, whatever its options
        self, args: Any = None, kwargs: Any = None, **options: Any
    ) -> Any:
        """Run the job here and now; return a result that has ended."""
        args, kwargs, options = joined(
            self.app, self.name, args or (), kwargs or {}, options
        )
        chosen = self._chosen(kwargs, options.pop("sharding", None))
        self.app.finalize(auto=True)  # it knows this task from then on
        with eager.kept(chosen) as kept:
            result = super().apply(args, kwargs, **options)
        return eager.as_result(result, kept)

    # How it runs

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the job returns, once it has ended; Ignore until then."""
        request = self.request
        if request.called_directly or request.is_eager:
            return eager.run(self, args, kwargs)
        app = self.app
        try:
            sent_by = (request.headers or {}).get(SENT_BY)
            if sent_by == REFUSED:
                raise as_refused(kwargs)
            if sent_by is None:
                self._arrived_unknown(args, kwargs)
            unlimited = runner.unlimited(app, self, request)
            begin = partial(runner.begin, app) if unlimited else None
            worker = executor_of(app)
            return stages.run_stage(
                app, self.processor, request, worker=worker, begin=begin
            )
        except DatabaseUnavailable as error:
            raise self.retry(
                exc=error,
                countdown=LATER,
                throw=False,
                headers=stages.headers_of(request.headers or {}, error),
            ) from error

    def _arrived_unknown(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> NoReturn:
        """Submit a call from an app without this task, or from an outbox.

        Another message begins it: this one, which brought all of the call, is held
        until it ends, and must not be held for as long as PreProcess takes.
        """
        headers = self.request.headers or {}
        args, kwargs, _ = joined(
            self.app, self.name, args, kwargs, {"headers": headers}
        )
        call = NewJob(
            task_id=str(self.request.id),
            task=self.name,
            args=args,
            kwargs=kwargs,
            continuation=from_request(self.request),
            options=applied(self.options_of(kwargs), headers.get(OPTIONS) or {}),
            follow=True,
        )
        submitted, _ = submit(self.app, self.processor, call)
        flow.advance_job(self.app, at(self.app), submitted.job)
        raise Ignore

    def on_success(self, *arguments: Any) -> None:
        """Record that Celery has stored the result, and sent what follows."""
        self._delivered(arguments[1], None)

    def on_failure(self, *arguments: Any) -> None:
        """Record that Celery has stored the failure, and called its errbacks."""
        self._delivered(arguments[1], arguments[0])

    def _delivered(self, task_id: str, error: Any) -> None:
        if self.request.called_directly or self.request.is_eager:
            return
        try:
            run = int((self.request.headers or {}).get(RUN, 1))
            stages.delivered(self.app, task_id, error, run=run)
        except PeckerError:
            logger.warning("sharding: %s ended, which was not written down", task_id)


def _forwarded(app: Any, options: Mapping[str, Any]) -> bool:
    """Return whether Celery itself calls, to go on after the task that has just run.

    What goes wrong then is the job's failure: that task has succeeded.
    """
    task = app.current_worker_task
    return task is not None and options.get("parent_id") == task.request.id

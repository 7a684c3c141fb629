"""One line that gives a Celery app sharded jobs.

It also ends a job whose message a worker refused: it was revoked, or had expired.
"""

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, overload

from celery import Celery, _state, signals
from celery.app import base as celerys
from celery.utils.threads import LocalStack
from kombu.utils.imports import symbol_by_name

from celery_pecker import deadline
from celery_sharding import flow, runner, stages, sweeper, worker
from celery_sharding.canvas import each_item
from celery_sharding.canvas.task import ShardedTask
from celery_sharding.errors import Misconfigured, PeckerError
from celery_sharding.ledger import at
from celery_sharding.messages import NOTIFY, PURGE, SWEEP, WORK
from celery_sharding.model import Options
from celery_sharding.policies import NAMES, applied
from celery_sharding.processor import Processor, check_code
from celery_sharding.settings import ShardingSettings

OURS = {"key", "gate", "throttle"}
"""What a processor has besides options."""
CELERYS = {"name", "queue", "exchange", "routing_key", "delivery_mode", "compression"}
CELERYS |= {"immediate", "mandatory"}
"""What Celery asks of a task which has no default of it."""
ON_COMMIT = ("delay_on_commit", "apply_async_on_commit")
"""Methods of `celery.contrib.django.task.DjangoTask`."""
NOTIFY_EVERY = 0.05
"""Of a class with `notify` that does not set how often."""
NOT_ALLOWED: Mapping[str, str] = {
    "bind": "its functions get the shard or the job",
    "autoretry_for": "set on_error=Retry(…): items are retried, not jobs",
    "run": "what it runs is the job",
    "pydantic": "its arguments are the job's",
}


def declared(
    app: Celery, decorated: Callable[..., Any] | type, options: Mapping[str, Any]
) -> ShardedTask:
    """Return the task that a function or class becomes, known to the app.

    Raises:
        Misconfigured: There is no such option, or its value is not allowed; or the
            class has no `process`.
    """
    remaining = dict(options)
    for name, reason in NOT_ALLOWED.items():
        if remaining.pop(name, None):
            raise Misconfigured(f"a sharded task has no {name}: {reason}")
    for name in ("shared", "lazy"):
        remaining.pop(name, None)  # it belongs to its app alone
    ours = {name: remaining.pop(name) for name in OURS & remaining.keys()}
    chosen = {name: remaining.pop(name) for name in NAMES & remaining.keys()}
    base = _base(remaining.pop("base", None) or ShardedTask)
    module = remaining.pop("module", getattr(decorated, "__module__", __name__))
    _refuse_unknown(remaining, base)
    methods = _methods(decorated)
    name = remaining.pop("name", None) or app.gen_task_name(decorated.__name__, module)
    if "notify" in methods:
        chosen.setdefault("notify_every", NOTIFY_EVERY)
    processor = Processor(
        name=name, options=applied(Options(), chosen), **methods, **ours
    )
    return known(app, processor, remaining, base=base, like=decorated, module=module)


def known(  # what a class is made of
    app: Celery,
    processor: Processor,
    options: Mapping[str, Any],
    *,
    base: type[ShardedTask] = ShardedTask,
    like: Callable[..., Any] | type | None = None,
    module: str = __name__,
) -> ShardedTask:
    """Return the task of a processor; the app knows it from when it is finalized.

    Not before: an app reads its configuration when it binds its first task, and
    modules declare tasks before they configure the app.
    """
    shown = like if like is not None else processor.process
    members = {
        "_app": app,
        "name": processor.name,
        "processor": processor,
        "abstract": False,
        # Celery's own comes when it is bound; a plain call may come before.
        "request_stack": LocalStack(),
        "__doc__": shown.__doc__,
        "__module__": module,
        "__qualname__": shown.__qualname__,
        **_on_commit(app),
        **options,
    }
    task: ShardedTask = type(shown.__name__, (base,), members)()
    finalized: Any = app
    if finalized.finalized:
        app.register_task(task)
    else:
        finalized.on_after_finalize.connect(
            lambda **_: app.register_task(task), weak=False
        )
    if getattr(celerys, "USING_EXECV", None):
        _register_everywhere(task)
    return task


def _register_everywhere(task: ShardedTask) -> None:
    """Have every app know the task, as Celery's decorators do in fresh interpreters.

    There the worker's app is unpickled, and another object than that of the module.
    """

    def register(app: Any) -> None:
        if task.name not in app.tasks:
            app.register_task(task)

    state: Any = _state  # its stubs lack half of it
    state.connect_on_app_finalize(register)
    for app in state._get_active_apps():  # noqa: SLF001  # as shared_task does
        if app.finalized:
            register(app)


def _on_commit(app: Any) -> dict[str, Any]:
    """Return what Celery adds to the tasks of an app under Django; else nothing.

    Of the class: `app.Task` is made once and for all when it is first asked for.
    """
    theirs: Any = vars(app).get("Task") or symbol_by_name(app.task_cls)
    return {name: getattr(theirs, name) for name in ON_COMMIT if hasattr(theirs, name)}


def _methods(decorated: Any) -> dict[str, Any]:
    if not inspect.isclass(decorated):
        if not callable(decorated):
            raise Misconfigured(
                f"a sharded task is a function or a class, not {decorated!r:.80}"
            )
        check_code("process", decorated)
        return {"process": decorated}
    made = decorated()
    process = getattr(made, "process", None)
    if not callable(process):
        raise Misconfigured(
            f"{decorated.__qualname__} has no method process(self, shard)"
        )
    names = ("pre_process", "process", "notify", "post_process")
    methods = {name: getattr(made, name, None) for name in names}
    present = {name: method for name, method in methods.items() if method is not None}
    for name, method in present.items():
        check_code(name, method)
    return present


def _refuse_unknown(remaining: Mapping[str, Any], base: type[ShardedTask]) -> None:
    """Refuse what no task has: a word spelt wrong would count for nothing."""
    unknown = [
        one for one in remaining if one not in CELERYS and not hasattr(base, one)
    ]
    if unknown:
        allowed = ", ".join(sorted(NAMES | OURS))
        raise Misconfigured(
            f"a sharded task has no option {unknown[0]!r}; allowed are {allowed}, and"
            f" those of Celery's tasks (attributes of your own: in a class for base=)"
        )


def _base(base: Any) -> type[ShardedTask]:
    if not inspect.isclass(base) or not issubclass(base, ShardedTask):
        raise Misconfigured(
            f"base of a sharded task must be a subclass of ShardedTask, not {base!r}"
        )
    return base


logger = logging.getLogger(__name__)


def connect() -> None:
    """Cancel jobs whose message is refused, from now on."""
    signals.task_revoked.connect(
        _on_revoked, dispatch_uid="celery_sharding.revoked", weak=False
    )


def _on_revoked(
    *, sender: Any = None, request: Any = None, expired: bool = False, **_: object
) -> None:
    if not isinstance(sender, ShardedTask):
        return
    end = flow.expire if expired else flow.cancel
    try:
        end(sender.app, at(sender.app, role="caller"), request.id)
    except PeckerError as error:
        logger.warning("sharding: %s was revoked, not cancelled: %s", request.id, error)


INTERNAL: Mapping[str, Any] = {
    "ignore_result": True,
    # None of these messages is load-bearing: what is lost is sent again.
    "acks_late": False,
    "trail": False,
    "shared": False,
}

YEAR = 366 * 86_400
TICKET: Mapping[str, Any] = {
    **INTERNAL,
    # A limit of the app's for its tasks would kill a ticket in the middle of a shard,
    # and innocent items would be blamed for killing their process. Items and shards
    # have limits of their own: item_timeout, shard_deadline. None would mean the app's.
    "time_limit": YEAR,
    "soft_time_limit": YEAR,
}
"""Of the task that runs shards: it takes as long as they do."""

KNOWN = "_celery_sharding"


class Sharding:
    """Sharded jobs of an app.

        app = Celery("shop", broker="redis://localhost")
        sharding = Sharding(app)

        @sharding.task(size=(50, 2000), concurrency=64)
        def import_rows(shard): ...

    Settings are those of ``sharding_*``, without the prefix; what is passed to it
    overrides the configuration. ``pecker_dsn`` names the ledger's database. No server
    is contacted until a job is called or a worker starts.

    Raises:
        Misconfigured: There is no such setting.
    """

    def __init__(self, app: Celery, **settings: object) -> None:
        self.app = app
        ShardingSettings.put(app.conf, settings, caller="Sharding")
        if app.__dict__.setdefault(KNOWN, self) is not self:
            return  # it has all of it; only settings are new
        _own_tasks(app)
        connect()
        worker.install(app)
        after: Any = app
        if after.finalized:
            self._declare()
        else:
            after.on_after_finalize.connect(self._declare, weak=False)

    @property
    def settings(self) -> ShardingSettings:
        """The settings of the app's configuration as it is now, checked."""
        return ShardingSettings.read(self.app.conf)

    @overload
    def task(self, function: Callable[..., Any], /, **options: Any) -> ShardedTask: ...

    @overload
    def task(
        self, /, **options: Any
    ) -> Callable[[Callable[..., Any]], ShardedTask]: ...

    def task(
        self, function: Callable[..., Any] | None = None, /, **options: Any
    ) -> Any:
        """Return the sharded task that a function, or a class, becomes.

        The function is the processor: it is called with a shard. A class has the method
        `process`, and may have `pre_process`, `notify` and `post_process`.

        ``options``: those of `model.Options` (size, cut, concurrency, lease, deadline,
        shard_deadline, item_timeout, batch, on_error, notify_every, placement,
        database, queue), ``key``, ``gate``; and those of Celery's tasks (name,
        serializer, ignore_result and so on).

        Raises:
            Misconfigured: An option is unknown, or its value not allowed.
        """
        if function is not None:
            return declared(self.app, function, options)
        return lambda decorated: declared(self.app, decorated, options)

    def _declare(self, **_: object) -> None:
        ShardingSettings.read(self.app.conf)  # refuses what cannot be
        sweeper.declare(self.app)


def _own_tasks(app: Celery) -> None:
    """Register the tasks behind every sharded job with the app, once."""

    @app.task(name=WORK, **TICKET)
    def work(job: int, ticket: int, seq: int) -> str:
        return runner.work(app, job, ticket, seq)

    @app.task(name=NOTIFY, **INTERNAL)
    def notify(task_id: str) -> None:
        stages.notify(app, task_id)

    @app.task(name=SWEEP, throws=(deadline.DeadlineExceeded,), **INTERNAL)
    def sweep() -> None:
        sweeper.sweep(app)

    @app.task(name=PURGE, **INTERNAL)
    def purge() -> None:
        sweeper.purge(app)

    for processor in each_item.processors(app):
        known(app, processor, {}, base=each_item.EachTask)

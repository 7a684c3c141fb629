"""How the step comes to a worker, and what `celery inspect` and `control` say to it."""

from typing import TYPE_CHECKING, Any

from celery import Celery, bootsteps, signals
from celery.worker.control import control_command, inspect_command

from celery_pecker.brokers.redis.guard_step import RedisGuardStep
from celery_pecker.kernel import hidden_settings
from throttle.errors import ThrottleError
from throttle.worker import starting

if TYPE_CHECKING:
    from throttle.worker.worker_throttle import WorkerThrottle


class ThrottleStep(bootsteps.StartStopStep):
    """Holds tasks back in workers of an app that has `throttle_limits`.

    Where it has none, settings that begin so are checked all the same, and options of
    tasks that have no effect are warned of.

    Made with the consumer: before the pool forks, and before the strategies of tasks
    keep what they call. Started at each connection, after tasks are consumed; stopped
    when the connection is lost, and when the worker ends.
    """

    label = "throttle"
    requires = ("celery.worker.consumer.tasks:Tasks",)
    obj: "WorkerThrottle | None"

    def include_if(self, parent: Any) -> bool:
        """Return whether the app has limits; what is misspelt ends the start."""
        return starting.wanted(parent.app)

    def create(self, parent: Any) -> "WorkerThrottle":  # type: ignore[override]  # kept as obj
        """Check all that can be checked now: nothing has started yet."""
        # Not before it is known that it is wanted: with it come Redis and the meter.
        from throttle.worker.worker_throttle import hang  # noqa: PLC0415

        return hang(parent)

    def start(self, parent: Any) -> None:
        """Take a new connection."""
        if self.obj is not None:
            self.obj.begin(parent)

    def stop(self, parent: Any) -> None:
        """Return what is held: the connection is lost, or the worker ends."""
        if self.obj is not None:
            self.obj.leave(parent)

    def shutdown(self, parent: Any) -> None:
        """Report the last counts: the worker's tasks have ended."""
        if self.obj is not None:
            self.obj.close()

    def info(self, parent: Any) -> Any:
        """Return what `celery inspect stats` shows."""
        return None if self.obj is None else {"throttle": self.obj.info()}


def install(app: Celery) -> None:
    """Let workers of `app` hold tasks back, if it has limits.

    And they live through a restart of a broker on Redis, as what they hold does. May
    be called more than once.
    """
    hidden_settings.hide()
    app.steps["consumer"].add(ThrottleStep)
    app.steps["worker"].add(RedisGuardStep)


def connect() -> None:
    """Add the step to apps that have limits when their worker starts.

    Celery sends the signal before the worker's steps are put together, and only from
    the `worker` command: workers made in other ways call `install`.
    """
    signals.celeryd_init.connect(
        _on_worker_init, dispatch_uid="throttle.worker", weak=False
    )
    # Its log is there by then.
    signals.celeryd_after_setup.connect(
        _on_worker_setup, dispatch_uid="throttle.worker", weak=False
    )


def _on_worker_setup(**_: object) -> None:
    starting.warn_of_namesakes()


def _on_worker_init(*, instance: Any, conf: Any, **_: object) -> None:
    if conf.get("throttle_limits"):
        install(instance.app)
    else:
        # It says what is misspelt, and which tasks wait for limits that there are not
        instance.app.steps["consumer"].add(ThrottleStep)


@inspect_command()
def throttle(state: Any) -> dict[str, Any]:
    """Return databases as this worker sees them: share, held, admitted, by tenant."""
    info: dict[str, Any] = state.consumer.blueprint.info(state.consumer)
    return info.get("throttle") or {}


@inspect_command(args=[("task_id", str)], signature="<task id>")
def throttle_held(state: Any, task_id: str) -> dict[str, Any]:
    """Return why a task waits in this worker: before what, how long, behind how many.

    Nothing, if it is not held here. Without seconds: it waits for its `rate_limit`.
    """
    mine = _throttle_of(state)
    return mine.hook.held.find(task_id) if mine else {}


def _throttle_of(state: Any) -> "WorkerThrottle | None":
    """Return what the step of this worker made; None: it has no limits."""
    for step in state.consumer.blueprint.order:
        if isinstance(step, ThrottleStep) and step.obj is not None:
            return step.obj
    return None


@control_command(
    args=[("database", str), ("operations", float), ("seconds", float), ("who", str)],
    signature="<database> <operations (0: the settings')> <seconds> <who>",
)
def throttle_limit(
    state: Any, database: str, operations: float, seconds: float = 0.0, who: str = ""
) -> dict[str, str]:
    """Set a database's limit for a while, in the whole fleet.

    Each worker that is asked writes the same to Redis: with `--destination` one does.
    """
    from throttle.store import adjust  # noqa: PLC0415  # no other command needs it

    mine = _throttle_of(state)
    if mine is None:
        return {"error": "this worker has no throttle_limits"}
    runtime = mine.runtime
    limit = runtime.settings.limits.get(database)
    if limit is None:
        allowed = ", ".join(sorted(runtime.settings.limits))
        return {"error": f"{database!r} has no limit; known: {allowed}"}
    try:
        message = adjust(
            runtime.store, limit, operations or None, seconds, who or "a user"
        )
    except ThrottleError as error:
        return {"error": str(error)}
    return {"ok": message}

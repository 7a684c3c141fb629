"""How the step comes to a worker: by settings, or because it was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery import bootsteps

from throttle.worker import starting

if TYPE_CHECKING:
    from throttle.worker.worker_throttle import WorkerThrottle


from celery import Celery, signals

from celery_pecker.brokers.redis.guard_step import RedisGuardStep
from celery_pecker.kernel import hidden_settings


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
    obj: WorkerThrottle | None

    def include_if(self, parent: Any) -> bool:
        """Return whether the app has limits; what is misspelt ends the start."""
        return starting.wanted(parent.app)

    def create(self, parent: Any) -> WorkerThrottle:  # type: ignore[override]  # kept as obj
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

    def shutdown(self, parent: Any) -> None:  # noqa: ARG002  # Celery's
        """Report the last counts: the worker's tasks have ended."""
        if self.obj is not None:
            self.obj.close()

    def info(self, parent: Any) -> Any:  # noqa: ARG002  # Celery's
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

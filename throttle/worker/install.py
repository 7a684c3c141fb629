"""How the step comes to a worker: by settings, or because it was asked for."""

from __future__ import annotations

from typing import Any

from celery import Celery, signals

from celery_pecker.worker.redis_step import RedisGuardStep
from throttle.worker import starting
from throttle.worker.step import ThrottleStep


def install(app: Celery) -> None:
    """Let workers of `app` hold tasks back, if it has limits.

    And they live through a restart of a broker on Redis, as what they hold does. May
    be called more than once.
    """
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

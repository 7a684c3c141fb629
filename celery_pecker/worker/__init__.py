"""What celery-pecker adds to a Celery worker, as bootsteps of the worker.

They are started once in a worker's life, not again when its consumer reconnects to
the broker:

============================  ==========================================================
``RedisGuardStep``            a worker on Redis survives a restart of it, and so does
                              what it holds (see `celery_pecker.brokers.redis.guard`)
``SchedulerStep``             where `pecker_worker` has ``"scheduler"`` it is one, too,
                              on a thread of its own: no beat process is needed
``RunsStep``                  what runs late, or is overtaken, does not start, and what
                              runs obeys its deadline (`celery_pecker.runs`)
``OutboxStep``                where it has ``"outbox"``: runs recorded tasks itself
``ObserversStep``             where it has ``"observers"``: supervises their hosts
``observer_supervisor``       their supervisor
``run_guards``                what stands around its tasks
``spawned``                   the same in a pool's processes that are fresh interpreters
``outbox_runners``            what runs recorded tasks, for each outbox of the app
``replicas``                  its schedulers, put together
``remote_control``            what it answers to `celery inspect` and `celery control`
============================  ==========================================================

They come by themselves where the settings ask for them, in workers that the
``celery worker`` command starts; `install(app)` adds them to any other worker.
"""

from typing import Any

from celery import Celery, signals

from celery_pecker.brokers.redis.guard_step import RedisGuardStep
from celery_pecker.kernel import hidden_settings
from celery_pecker.worker import remote_control
from celery_pecker.worker.steps import (
    ObserversStep,
    OutboxStep,
    RunsStep,
    SchedulerStep,
)

__all__ = [
    "ObserversStep",
    "OutboxStep",
    "RedisGuardStep",
    "RunsStep",
    "SchedulerStep",
    "connect",
    "install",
    "remote_control",
]


STEPS = (RunsStep, SchedulerStep, OutboxStep, ObserversStep)


def install(app: Celery) -> None:
    """Add to workers of `app` that start from now on what its settings ask for.

    And the guard on Redis in any case; may be called again.
    """
    hidden_settings.hide()
    app.steps["worker"].add(RedisGuardStep)
    app.steps["worker"].update(STEPS)


def connect() -> None:
    """Add their steps to the workers of apps that use celery-pecker, as they start.

    Celery sends the signal before the worker's steps are put together, and only from
    the `worker` command: workers made in other ways call `install`.
    """
    signals.celeryd_init.connect(
        _on_worker_init, dispatch_uid="celery_pecker.worker", weak=False
    )


def _on_worker_init(*, instance: Any, conf: Any, **_: object) -> None:
    steps = instance.app.steps["worker"]
    if conf.get("pecker_dsn"):
        steps.add(RedisGuardStep)
    steps.update(STEPS)

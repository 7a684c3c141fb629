"""What celery-pecker adds to a Celery worker.

Today one thing: the guard that lets a worker survive a restart of Redis
(`celery_pecker.redis_guard` says how). It comes by itself where `pecker_dsn` is set
and `pecker_redis_guard` is not False; `install(app)` adds it to any other app.
"""

from __future__ import annotations

from typing import Any

from celery import Celery, bootsteps, signals


class RedisGuardStep(bootsteps.StartStopStep):
    """Watches over the messages that a worker on Redis holds.

    Started once in a worker's life, before its consumer connects, and not again at a
    reconnect. Stopping does nothing: it may happen in a signal handler, tasks that
    still run have yet to acknowledge, and what was hooked ends with the worker.
    """

    label = "pecker redis guard"
    requires = ("celery.worker.components:Pool",)

    def include_if(self, parent: Any) -> bool:
        """Say whether the worker's broker is Redis: redis, rediss or sentinel."""
        connection = parent.app.connection_for_read()
        return bool(connection.get_transport_cls().driver_type == "redis")

    def start(self, parent: Any) -> None:
        """The worker's consumer is watched."""
        # Not before it is known that Redis is the broker: kombu's transport for it is
        # nothing that a worker on RabbitMQ should load.
        from celery_pecker.redis_guard import RedisGuard  # noqa: PLC0415

        RedisGuard(parent).watch()


def install(app: Celery) -> None:
    """Workers of `app` that start from now on are guarded; may be called again."""
    app.steps["worker"].add(RedisGuardStep)


def connect() -> None:
    """Apps that use celery-pecker get their guard when their worker starts.

    Celery sends the signal before the worker's steps are put together, and only from
    the `worker` command: workers made in other ways call `install`.
    """
    signals.celeryd_init.connect(
        _on_worker_init, dispatch_uid="celery_pecker.worker", weak=False
    )


def _on_worker_init(*, instance: Any, conf: Any, **_: object) -> None:
    if conf.get("pecker_dsn") and conf.get("pecker_redis_guard") is not False:
        install(instance.app)

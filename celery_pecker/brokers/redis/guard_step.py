"""The guard on Redis, hung on a worker."""

from typing import Any

from celery import bootsteps


class RedisGuardStep(bootsteps.StartStopStep):
    """Watches over the messages that a worker on Redis holds.

    Started once in a worker's life, before its consumer connects, and not again at a
    reconnect. Stopping does nothing: it may happen in a signal handler, tasks that
    still run have yet to acknowledge, and what was hooked ends with the worker.
    """

    label = "pecker redis guard"
    requires = ("celery.worker.components:Pool",)

    def include_if(self, parent: Any) -> bool:
        """Return whether the worker's broker is Redis: redis, rediss or sentinel."""
        connection = parent.app.connection_for_read()
        return bool(connection.get_transport_cls().driver_type == "redis")

    def start(self, parent: Any) -> None:
        """Watch the worker's consumer."""
        # Not before it is known that Redis is the broker: kombu's transport for it is
        # nothing that a worker on RabbitMQ should load.
        from celery_pecker.brokers.redis.guard import RedisGuard  # noqa: PLC0415

        RedisGuard(parent).watch()

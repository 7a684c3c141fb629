"""One line that gives a Celery app sharded jobs.

It also ends a job whose message a worker refused: it was revoked, or had expired.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, overload

from celery import Celery, signals

from celery_pecker import deadline
from celery_sharding import flow, runner, stages, sweeper, worker
from celery_sharding.canvas import each_item
from celery_sharding.canvas.declaring import declared, known
from celery_sharding.canvas.task import ShardedTask
from celery_sharding.errors import PeckerError
from celery_sharding.ledger import at
from celery_sharding.messages import NOTIFY, PURGE, SWEEP, WORK
from celery_sharding.settings import ShardingSettings

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

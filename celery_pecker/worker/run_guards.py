"""What stands around the tasks of one worker."""

from typing import Any
from weakref import WeakKeyDictionary

from celery import Celery
from celery.signals import worker_shutdown

from celery_pecker.kernel.declared import refuse_misspelt
from celery_pecker.kernel.settings import Settings
from celery_pecker.kernel.workers import kind_of, spawns
from celery_pecker.outbox.app import outboxes
from celery_pecker.outbox.runs.messages import Messages
from celery_pecker.outbox.runs.service import DEFAULT
from celery_pecker.runs.guard import Guard, install
from celery_pecker.schedules import tracing
from celery_pecker.schedules.local.tracer import refuse_retries

SPAWNED = "celery_pecker.worker.spawned"


def guarded(worker: Any) -> Guard:
    """Guard the runs of a worker that is being put together."""
    app, kind = worker.app, kind_of(worker.pool_cls)
    guard = guard_tasks(app, pool_kind=kind, host=worker.hostname)
    if kind == "prefork" and spawns(worker):
        app.conf.include = (*app.conf.include, SPAWNED)
    # After the pool has ended: until then runs end.
    worker_shutdown.connect(lambda **_: guard.flush(), sender=worker, weak=False)
    return guard


def guard_tasks(app: Celery, *, pool_kind: str, host: str = "") -> Guard:
    """Guard the runs of the tasks that an app has by now; raise Misconfigured."""
    refuse_misspelt(app.conf)
    settings = Settings.read(app.conf, main=app.main)
    tracing.install(settings)
    messages = messages_of(app)
    messages.connect()
    return install(
        app, pool_kind=pool_kind, settings=settings, host=host, stored=messages
    )


def messages_of(app: Celery) -> Messages:
    """Return what runs the tasks of an app that rows of its outboxes are for."""
    if app not in _messages:

        def settings(outbox: str) -> Settings | None:
            for one in outboxes(app):
                if one.name == outbox:
                    return one.settings
            if outbox != DEFAULT:
                return None
            return Settings.read(app.conf, main=app.main)

        def names() -> list[str]:
            known = [one.name for one in outboxes(app)]
            default = DEFAULT not in known and app.conf.get("pecker_dsn")
            return [*known, DEFAULT] if default else known

        _messages[app] = Messages(settings, names=names, refuse_retries=refuse_retries)
    return _messages[app]


_messages: WeakKeyDictionary[Celery, Messages] = WeakKeyDictionary()

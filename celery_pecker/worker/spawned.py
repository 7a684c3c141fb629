"""Guard the runs of a pool process that is a fresh interpreter.

With `worker_pool_start_method = "spawn"`, and on macOS by default, nothing that was
wrapped in the worker is wrapped in the processes of its pool. They import what
`include` names: the worker adds this module to it.
"""

from typing import Any

from celery import current_app, signals
from celery.app.trace import build_tracer

from celery_pecker.worker.run_guards import guard_tasks


def _guard(sender: Any, **_: object) -> None:
    app: Any = current_app._get_current_object()  # type: ignore[attr-defined]  # noqa: SLF001  # Celery's way
    guard_tasks(app, pool_kind="prefork")
    # Celery has built these from the tasks as they were.
    for name, task in app.tasks.items():
        task.__trace__ = build_tracer(name, task, app.loader, sender, app=app)


signals.worker_process_init.connect(
    _guard, dispatch_uid="celery_pecker.worker.spawned", weak=False
)

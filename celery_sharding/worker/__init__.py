"""What celery_sharding adds to a worker, as a bootstep of it.

``step``      the worker is known as an executor; its processes know when it stops
``children``  what a process of the pool held when it died is free at once
``spawned``   the same in a pool's processes that are fresh interpreters

`install(app)` adds it; `Sharding(app)` does so by itself.
"""

from typing import Any

from celery_pecker.kernel import hidden_settings
from celery_sharding.worker.step import ShardingStep

__all__ = ["ShardingStep", "install"]


def install(app: Any) -> None:
    """Let workers of the app that start from now on run shards; may be repeated."""
    hidden_settings.hide()
    app.steps["worker"].add(ShardingStep)

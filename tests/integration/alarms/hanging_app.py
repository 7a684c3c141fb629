"""An app whose sharded job hangs where it is told to.

A scheduler looks and runs no task; a worker has the jobs, and the sweeps. `FOLDER` is
where they meet: an item that hangs makes the file `hangs`, and goes on with `go`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from celery import Celery

from celery_pecker.kernel.clock import pause
from celery_sharding import Shard, Sharding
from celery_sharding.runner.shard_worker import executor_of

CONF = "PECKER_TEST_HANGING"
HANGS = 12
"""The item that hangs. Shards of one item each are claimed 1, 4, 16 at a time: others
wait behind it, and none is ready."""
ITEMS = 21


def make(conf: dict[str, Any]) -> Celery:
    """Return the app, its job under `app.tasks["hangs"]`."""
    app = Celery("hanging", broker="memory://", set_as_current=False)
    app.conf.update(
        pecker_alarms={"job_hangs": {"after": 6.0}, "job_late": {"after": 2.0}},
        sharding_lease=2.0,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
        broker_connection_retry_on_startup=True,
        **conf,
    )
    folder = Path(conf["hanging_folder"])
    sharding = Sharding(app)

    @sharding.task(name="hangs", size=(1, 1), concurrency=1)
    def hangs(shard: Shard) -> None:
        """Hang at one item until a file, or the end of the worker, ends that."""
        go = folder / "go"
        for item in shard:
            if item == HANGS:
                (folder / "hangs").touch()
                while not go.exists() and not executor_of(app).stopping:
                    pause(0.02)
            elif item > HANGS and not go.exists():
                pause(0.2)  # else all end before the runner sees that its worker ends
            shard.ok(item)

    return app


if CONF in os.environ:
    app = make(json.loads(os.environ[CONF]))
    app.set_current()

"""An app whose tickets are run in the test's own process, on a real ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery

from celery_pecker.kernel.clock import new_tag
from celery_sharding import pace
from celery_sharding.ledger import Ledger, at
from celery_sharding.model import Options
from celery_sharding.processor import Processor
from celery_sharding.runner import shard_worker

TASK = "proj.import_rows"
Register = Callable[..., Processor]


@pytest.fixture
def app(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    """Give an app that has no broker to speak of; its worker is never to stop."""
    monkeypatch.setattr(shard_worker, "SOON", 0.0)
    monkeypatch.setattr(pace, "SLICE", 5.0)
    monkeypatch.setattr(pace, "FLUSH", 0.05)
    app = Celery("runner-tests", broker="memory://", set_as_current=False)
    app.conf.update(
        pecker_dsn=dsn,
        task_default_queue=new_tag(),  # brokers in memory are the process' own
    )
    yield app
    at(app).close()
    app.close()


@pytest.fixture
def ledger(app: Celery) -> Ledger:
    """Give this thread's ledger of the app: by the database's own time."""
    return at(app)


@pytest.fixture
def register(app: Celery) -> Register:
    """Give a function that makes another the processor of the tests' task."""

    def registered(process: Callable[..., Any], **given: Any) -> Processor:
        app.tasks.pop(TASK, None)
        declared: Any = app.task
        task = declared(process, name=TASK, shared=False)
        options = given.pop("options", Options())
        task.processor = Processor(name=TASK, process=process, options=options, **given)
        found: Processor = task.processor
        return found

    return registered

"""An app with an outbox in a database of the test's own, and what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from celery import Celery
from psycopg.rows import dict_row

from celery_pecker.outbox import Outbox
from tests.integration.outbox.runners import Hall

NOWHERE = "redis://127.0.0.1:1/0"
"""Nobody answers there: what would go to the broker fails."""


def _nothing(*args: object, **kwargs: object) -> None:
    """What is run does not matter."""


@dataclass
class Desk:
    """An app whose broker is away, its outbox, and a look at the table."""

    dsn: str
    app: Celery
    outbox: Outbox
    tasks: dict[str, Any] = field(default_factory=dict)

    def task(self, name: str = "note", **options: Any) -> Any:
        """Return a task of this app alone that does nothing."""
        if name not in self.tasks:
            decorate: Any = self.app.task(name=name, shared=False, **options)
            self.tasks[name] = decorate(_nothing)
        return self.tasks[name]

    def rows(self) -> list[dict[str, Any]]:
        """Return what is recorded and committed, in order."""
        with psycopg.connect(self.dsn, row_factory=dict_row) as connection:
            return connection.execute(
                "select * from pecker_outbox order by id"
            ).fetchall()

    def ids(self) -> list[str]:
        """Return the ids of the tasks that are recorded and committed."""
        return [row["task_id"] for row in self.rows()]


def make_app(dsn: str, broker: str = NOWHERE, **settings: Any) -> Celery:
    """Return an app that is nobody's current one."""
    app = Celery("desk", broker=broker, set_as_current=False)
    app.conf.update(
        pecker_dsn=dsn,
        task_publish_retry=False,
        broker_transport_options={"max_retries": 1, "interval_start": 0},
    )
    app.conf.update(settings)
    return app


@pytest.fixture
def desk(dsn: str) -> Iterator[Desk]:
    """Give an app with an outbox, whose broker is away."""
    app = make_app(dsn)
    outbox = Outbox(app)
    yield Desk(dsn, app, outbox)
    outbox.close()


@pytest.fixture
def halls(dsn: str) -> Iterator[Callable[..., Hall]]:
    """Give a function that makes a hall; the database outlives it."""
    del dsn
    made: list[Hall] = []

    def make(dsn: str, **settings: Any) -> Hall:
        made.append(Hall(dsn, **settings))
        return made[-1]

    yield make
    for hall in made:
        hall.close()


@pytest.fixture
def hall(halls: Callable[..., Hall], dsn: str) -> Hall:
    """Give one on a database of the test's own."""
    return halls(dsn)

"""An app with stored schedules in a database of the test's own; nobody runs them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from celery import Celery

from celery_pecker.schedules import ScheduleRow, Schedules

EVERY = {"every": 3600}


@dataclass
class Desk:
    """Stored schedules of an app, and a look at the tables."""

    dsn: str
    app: Celery
    schedules: Schedules

    def set(self, name: str = "report", **fields: Any) -> ScheduleRow:
        """Store a schedule with fields that do not matter to the test."""
        fields = {"task": "proj.report", "schedule": EVERY, **fields}
        return self.schedules.set(name, **fields)

    def sql(self, text: str, *params: Any) -> list[tuple[Any, ...]]:
        """Run a statement of the test's own; return its rows."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(text.encode(), params)
            return cursor.fetchall() if cursor.description else []

    def hot(self, name: str = "report") -> tuple[datetime, int, bool, int | None]:
        """Return when it was executed last, its epoch, pause and version."""
        [row] = self.sql(
            "select executed_at, epoch, paused, version from pecker_tasks"
            " where name = %s",
            name,
        )
        return row[0], row[1], row[2], row[3]

    def won(self, name: str, ago: timedelta) -> datetime:
        """Let the last slot of an entry be so long ago; return it."""
        [(at,)] = self.sql(
            "update pecker_tasks set executed_at = clock_timestamp() - %s,"
            " epoch = 7, holder = gen_random_uuid() where name = %s"
            " returning executed_at",
            ago,
            name,
        )
        found: datetime = at
        return found

    def asked(self, name: str = "report") -> list[datetime]:
        """Return the instants of runs that are asked for."""
        rows = self.sql(
            "select due_at from pecker_pending where name = %s and asked"
            " order by due_at",
            name,
        )
        return [due_at for (due_at,) in rows]


def make_app(dsn: str, **settings: Any) -> Celery:
    """Return an app that is nobody's current one."""
    app = Celery("desk", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn=dsn, **settings)
    return app


@pytest.fixture
def desk(dsn: str) -> Iterator[Desk]:
    """Give the stored schedules of an app of this test's own."""
    app = make_app(dsn)
    schedules = Schedules(app)
    yield Desk(dsn, app, schedules)
    schedules.close()

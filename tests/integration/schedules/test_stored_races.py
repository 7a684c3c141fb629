"""Edits that are open while replicas start, die, and ask."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from celery import Celery

from celery_pecker.schedules import Schedules
from celery_pecker.schedules.engine.upkeep import TERM, UpkeepPace
from celery_pecker.schedules.stored.edit_plan import Edit
from celery_pecker.schedules.stored.edits import Edits
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualClock
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import due
from tests.integration.schedules.stored import follower, store

SHORT = UpkeepPace(follow_every=10.0)
WAITING = """
select count(*) from pg_stat_activity
where wait_event_type = 'Lock' and datname = current_database()
"""


def declared_by_code(dsn: str) -> tuple[Any, ...]:
    """Return whether the declaration is a stored one's, and the row's version."""
    with psycopg.connect(dsn) as connection:
        [row] = connection.execute(
            "select stored, version from pecker_declarations join pecker_tasks"
            " using (name)"
        )
        return row


def test_a_start_of_code_goes_behind_an_edit_of_the_name(
    dsn: str, start: Starter
) -> None:
    """Both lock the row of the entry first: no deadlock, and the edit is whole."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into pecker_tasks (name, executed_at)"
            " values ('sweep', now() - interval '1 day')"
        )
        connection.execute(
            "insert into pecker_declarations (name, task, schedule, delivery,"
            " declared_until) values ('sweep', 't', 's', 'd', now() - interval '1 day')"
        )
    app = Celery("test", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn=dsn, pecker_database_timeout=60)
    schedules = Schedules(app)
    edits = Edits("public", app_name="test", timings=schedules.timings)
    flow = edits.set([(schedules.check("sweep", task="t", schedule=60), Edit())])
    code = threading.Thread(target=lambda: start({"sweep": 7.0}).turn())
    with psycopg.connect(dsn) as connection:
        statement = next(flow)
        try:
            while True:
                rows = connection.execute(
                    statement.text.encode(), statement.params
                ).fetchall()
                if statement.label == "lock_entries":
                    code.start()
                    with psycopg.connect(dsn, autocommit=True) as look:

                        def waits(look: Any = look) -> bool:
                            return bool(look.execute(WAITING).fetchone()[0])

                        eventually(waits, 60.0, "the start waits")
                statement = flow.send(rows)
        except StopIteration:
            connection.commit()
    code.join()
    found = schedules.get("sweep")
    assert found is not None
    assert found.version == 1
    schedules.close()


def test_code_that_died_before_it_took_a_name_gives_it_back(
    dsn: str, start: Starter
) -> None:
    """An edit held the row while the code lived, and was rolled back."""
    clock = ManualClock()
    store(dsn, "sweep", {"every": 10}, clock=clock)
    with follower(dsn, clock, pace=SHORT) as (older, _):
        older.pass_time(12)
        with psycopg.connect(dsn) as connection:
            connection.execute("select from pecker_tasks for update")
            start({"sweep": 7.0}, clock)
            connection.rollback()
        assert declared_by_code(dsn) == (False, 1)
        sent = len(due(older))
        older.pass_time(3 * TERM)
        assert declared_by_code(dsn) == (True, 1)
        assert len(due(older)) - sent == 3 * TERM // 10


@pytest.mark.parametrize("schedule", [{"crontab": "* * * * *"}, {"every": 30}], ids=str)
def test_a_row_that_an_open_edit_holds_is_asked_for_seldom(
    dsn: str, schedule: dict[str, object]
) -> None:
    """Once a second at last; its slot runs after the rollback."""
    clock = ManualClock()
    store(dsn, "sweep", schedule, clock=clock)
    with follower(dsn, clock) as (pecker, _), psycopg.connect(dsn) as connection:
        pecker.pass_time(130)
        sent = len(pecker.publisher.sent)
        connection.execute("select from pecker_tasks for update")
        claims = []
        claim = pecker.repository.claim

        def counted(*args: Any, **options: Any) -> Any:
            claims.append(args)
            return claim(*args, **options)

        pecker.repository.claim = counted  # type: ignore[method-assign]
        pecker.pass_time(100)
        assert len(claims) < 110
        assert len(pecker.publisher.sent) == sent
        connection.rollback()
        pecker.pass_time(2)
        assert len(pecker.publisher.sent) == sent + 1

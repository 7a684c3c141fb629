"""How far a real replica trusts clocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
import redis
from celery import Celery
from dateutil.parser import isoparse

from celery_pecker.kernel.lease import SKEW, SLACK
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.schedules.replica import Claimant, Replica
from celery_pecker.testing import eventually

Begin = Callable[..., Replica]


@pytest.fixture
def begin(dsn: str, redis_url: str, queue_name: str) -> Iterator[Begin]:
    """Give a function that starts a replica of one entry, every half second."""
    with ExitStack() as stack:

        def start(**conf: object) -> Replica:
            app = Celery("proj", broker=redis_url, set_as_current=False)

            @app.task(name="proj.note", shared=False)
            def note() -> None: ...

            app.conf.update(
                pecker_dsn=dsn,
                task_default_queue=queue_name,
                beat_schedule={
                    "note": {
                        "task": "proj.note",
                        "schedule": 0.5,
                        "pecker": {"timeout": 0.4},
                    }
                },
                **conf,
            )
            settings = Settings.read(app.conf, main=app.main)
            replica = Replica(
                Claimant(app, BeatSchedule(app), settings, kind="beat"),
                freeze_heap=False,
            )
            stack.callback(app.close)
            stack.callback(replica.close_history, 5.0)
            stack.callback(replica.join, 5.0)
            stack.callback(replica.stop)
            replica.start()
            return replica

        yield start


def test_the_skew_lies_between_deadline_and_expiry(
    begin: Begin, redis_url: str, queue_name: str
) -> None:
    """Celery compares the expiry with the worker's clock, which may be that wrong."""
    begin()
    with redis.Redis.from_url(redis_url) as client:
        eventually(lambda: client.llen(queue_name), 30.0, "a message")
        message: Any = json.loads(client.lindex(queue_name, 0))
    headers = message["headers"]
    deadline = isoparse(headers["pecker"]["deadline"])
    gap = isoparse(headers["expires"]) - deadline
    assert gap.total_seconds() == pytest.approx(SKEW, abs=0.001)


def test_the_slack_is_waited_out_and_no_more(begin: Begin, dsn: str) -> None:
    """A row further ahead than it means that the clock stepped back: a new era."""
    begin()
    with psycopg.connect(dsn, autocommit=True) as connection:

        def era() -> Any:
            [row] = connection.execute(
                "select era, executed_at is not null from pecker_tasks"
                " where name = 'note'"
            ).fetchall() or [(0, False)]
            return row

        eventually(lambda: era()[1], 30.0, "a slot was won")
        ahead = (
            "update pecker_tasks set executed_at = executed_at + %s * interval '1 s'"
            " where name = 'note' returning executed_at"
        )
        [moved] = connection.execute(ahead, [SLACK - 2]).fetchall()
        later = "select 1 from pecker_tasks where name = 'note' and executed_at > %s"
        eventually(lambda: connection.execute(later, moved).fetchone(), 30.0, "a slot")
        assert era()[0] == 0
        connection.execute(ahead, [SLACK + 2])
        eventually(lambda: era()[0] == 1, 30.0, "a new era")

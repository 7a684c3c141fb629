"""What a message of a job says of what follows, and where the next ones go."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery
from celery.app.task import Context
from kombu import Queue

from celery_pecker.kernel.clock import SYSTEM
from celery_sharding.canvas.each_item import _seconds
from celery_sharding.messages import from_request, route_of, wait_of, without_links


@pytest.fixture
def app() -> Celery:
    """Give an app with two queues and a route."""
    made = Celery("route", broker="memory://", set_as_current=False)
    made.conf.task_queues = [Queue("celery"), Queue("known", routing_key="k")]
    made.conf.task_routes = {"proj.routed": {"queue": "known"}}
    return made


def request(**told: Any) -> Context:
    """Return a request as a worker makes it of a message."""
    return Context({"id": "the-job", "task": "proj.import_rows", **told})


def test_all_that_follows_is_kept() -> None:
    """Under the names by which `apply_async` knows it."""
    link = [{"task": "linked"}]
    found = from_request(
        request(
            callbacks=link,
            errbacks=link,
            chain=[{"task": "next"}],
            chord={"task": "body"},
            group="g",
            group_index=2,
            root_id="root",
            parent_id="parent",
            timelimit=[60, 50],
            reply_to="caller",
            ignore_result=True,
            stamped_headers=["mine"],
            stamps={"mine": ["stamp"]},
            delivery_info={"exchange": "", "routing_key": "q", "priority": 3},
        )
    )
    assert found == {
        "link": link,
        "link_error": link,
        "chain": [{"task": "next"}],
        "chord": {"task": "body"},
        "group_id": "g",
        "group_index": 2,
        "root_id": "root",
        "parent_id": "parent",
        "time_limit": 60,
        "soft_time_limit": 50,
        "reply_to": "caller",
        "ignore_result": True,
        "stamped_headers": ["mine"],
        "mine": ["stamp"],
        "queue": "q",
        "priority": 3,
    }
    assert without_links(found).keys() & {"link", "chain", "chord", "group_id"} == set()


def test_headers_of_one_message_are_not_of_the_next() -> None:
    """The scheduler's would have it dropped as a second run of its slot."""
    headers = {
        "mine": 1,
        "pecker": {"name": "entry"},
        "pecker_deadline": {"left": 1.0},
        "x-death": [],
        "x-delivery-count": 4,
    }
    assert from_request(request(headers=headers)) == {"headers": {"mine": 1}}
    assert from_request(request(headers={"pecker": {}})) == {}


@pytest.mark.parametrize(
    ("continuation", "queue", "expected"),
    [
        ({"queue": "known"}, None, {"queue": "known"}),
        ({"queue": "known", "priority": 4}, None, {"queue": "known", "priority": 4}),
        (
            {"exchange": "x", "routing_key": "k"},
            None,
            {"exchange": "x", "routing_key": "k"},
        ),
        ({"exchange": "x", "routing_key": "k"}, "known", {"queue": "known"}),
    ],
)
def test_messages_go_where_the_jobs_own_came_from(
    app: Celery,
    continuation: dict[str, Any],
    queue: str | None,
    expected: dict[str, Any],
) -> None:
    """Or to the queue of the job's options."""
    assert route_of(app, "proj.import_rows", continuation, queue) == expected


def test_a_queue_that_the_app_does_not_know_is_not_declared(app: Celery) -> None:
    """It is there, perhaps with arguments of its own."""
    found = route_of(app, "proj.import_rows", {"queue": "foreign"})
    assert (found["queue"].name, found["declare"]) == ("foreign", [])


def test_where_nothing_is_known_the_apps_routes_decide(app: Celery) -> None:
    """As for the job's own message."""
    assert route_of(app, "proj.routed", {})["queue"].name == "known"


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_an_eta_without_a_zone_is_utc(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So workers read it: the sweeper waited hours more, or sent a copy a minute."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", zone)
        time.tzset()
        eta = (SYSTEM.now() + timedelta(hours=1)).replace(tzinfo=None)
        waits = [
            wait_of({"eta": eta}),
            wait_of({"eta": eta.isoformat()}),
            _seconds(eta),
        ]
    time.tzset()
    assert waits == [pytest.approx(3_600, abs=60)] * 3

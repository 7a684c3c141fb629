"""Why a message waits, why an observer does not run: each verdict, the root first."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from celery_pecker.observers.model import NodeRow, ObserverRow, Place, Status
from celery_pecker.outbox.overview import MessageRow, RelayRow
from celery_pecker.schedules.overview.model import LockingSession
from celery_pecker.surfaces.views import observers, outbox
from celery_pecker.surfaces.views.outbox import Takers

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOCK = LockingSession(
    pid=7,
    user="ana",
    application="report",
    state="idle in transaction",
    query="select 1",
    since_us=0,
    age=9.0,
    key="k",
)
MESSAGE = MessageRow(
    id=1,
    task="proj.bill",
    task_id="t",
    mode="until_done",
    attempt=0,
    state="waiting",
    due_at=NOW,
    created_at=NOW,
    parked_at=None,
    exchange="",
    routing_key="mail",
    size=1,
    dedupe_key=None,
    last_error=None,
)
RELAY = RelayRow("one", 1, 0, 0, 0, None, {}, 0.0)
ALL = Takers({"mail"}, local=True)


@pytest.mark.parametrize(
    ("verdict", "row", "known"),
    [
        ("parked", {"state": "parked"}, {"locks": [LOCK]}),
        ("to_come", {"state": "later"}, {}),
        ("held", {"state": "held"}, {"locks": [LOCK]}),
        ("locked", {}, {"locks": [LOCK], "relays": []}),
        ("no_relay", {}, {"relays": []}),
        ("broker_away", {}, {"relays": [replace(RELAY, broker="refused")]}),
        ("waiting", {}, {"relays": [replace(RELAY, broker="refused"), RELAY]}),
        ("no_worker", {}, {"takers": Takers({"other"}, local=True)}),
        ("waiting", {"exchange": "fanout"}, {"takers": Takers(set(), local=True)}),
        ("waiting", {}, {"takers": None}),
        ("no_worker", {"mode": "local"}, {"takers": Takers({"mail"}, local=False)}),
        ("waiting", {"mode": "local"}, {"relays": []}),
    ],
)
def test_a_message(verdict: str, row: dict[str, Any], known: dict[str, Any]) -> None:
    """What is nearest to the root is the verdict; another answer is no trouble."""
    asked: dict[str, Any] = {"relays": [RELAY], "takers": ALL, **known}
    reply = next(outbox.explained(replace(MESSAGE, **row), **asked))
    assert reply.verdict == verdict
    assert reply.trouble == (verdict not in {"to_come", "held", "waiting"})
    if verdict == "locked":
        assert "locks of pecker_outbox are held by process 7" in reply.why
        assert reply.advice is not None
        assert "select pg_terminate_backend(7)" in reply.advice


OBSERVER = ObserverRow(
    id=1,
    name="btc",
    kind="watch",
    args={},
    weight=2,
    status=Status.PROCESSING,
    place=Place.RUNNING,
    node="n",
    node_name="one-0",
    epoch=1,
    failures=0,
    moves=0,
    last_error=None,
    state=None,
    not_before=NOW,
    parked_at=None,
    created_at=NOW,
    modified_at=NOW,
)
HOST = NodeRow(
    node="n",
    name="one-0",
    pid=1,
    state="up",
    capacity=5,
    load=1,
    observers=1,
    kinds=["watch"],
    lease=4.0,
    started_at=NOW,
    left_at=None,
)


@pytest.mark.parametrize(
    ("verdict", "place", "host", "known"),
    [
        ("parked", Place.PARKED, {}, {"locks": [LOCK]}),
        ("gone", Place.GONE, {}, {}),
        ("running", Place.RUNNING, {}, {"locks": [LOCK]}),
        ("lapsed", Place.RUNNING, {"lease": -1.0}, {}),
        ("lapsed", Place.RUNNING, {"node": "another"}, {}),
        ("stopping", Place.STOPPING, {}, {}),
        ("locked", Place.STOPPING, {}, {"locks": [LOCK]}),
        ("retrying", Place.RETRYING, {}, {"left": 3.0}),
        ("waiting", Place.WAITING, {}, {}),
        ("locked", Place.WAITING, {"state": "draining"}, {"locks": [LOCK]}),
        ("to_come", Place.WAITING, {}, {"left": 3.0}),
        ("no_host", Place.WAITING, {"state": "draining"}, {}),
        ("no_host", Place.WAITING, {"lease": -1.0}, {}),
        ("no_host", Place.WAITING, {"kinds": ["other"]}, {}),
        ("no_room", Place.WAITING, {"load": 4}, {}),
    ],
)
def test_an_observer(
    verdict: str, place: Place, host: dict[str, Any], known: dict[str, Any]
) -> None:
    """By where it is, by its host and by those that live."""
    row = replace(OBSERVER, place=place)
    reply = next(observers.explained(row, [replace(HOST, **host)], **known))
    assert reply.verdict == verdict

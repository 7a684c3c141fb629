"""The intake as its clients see it: real HTTP, real PostgreSQL."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPException
from typing import Any

import psycopg
import pytest
from celery import Celery

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.outbox import Outbox
from celery_pecker.surfaces.intake import server
from celery_pecker.surfaces.intake.server import KEPT, IntakeService
from celery_pecker.surfaces.service import listener
from celery_pecker.surfaces.service.listener import Listener
from celery_pecker.testing import eventually
from tests.served import Served

TOKEN = "s3same"  # noqa: S105  # a test's own
LIMIT = 10_000


def make_outbox(dsn: str, **settings: Any) -> Outbox:
    """Return the outbox of an app whose broker is away."""
    app = Celery("billing", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.update(
        {
            "pecker_dsn": dsn,
            "pecker_outbox_message_bytes": LIMIT,
            "pecker_intake_tasks": ["billing.*"],
            **settings,
        }
    )
    return Outbox(app)


@pytest.fixture
def intake(dsn: str) -> Iterator[Served]:
    """Give the intake of a database of this test's own."""
    outbox = make_outbox(dsn)
    with Served(IntakeService(outbox, Listener(), TOKEN), token=TOKEN) as served:
        yield served
    outbox.close()


def rows(dsn: str) -> list[tuple[str, str]]:
    """Return task and id of all that is committed, in order."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "select task, task_id from pecker_outbox order by id"
        ).fetchall()


def post(
    intake: Served, body: dict[str, Any] | bytes, key: str | None = None
) -> tuple[int, dict[str, Any]]:
    """Return the answer to a request."""
    headers = {} if key is None else {"Idempotency-Key": key}
    return intake.ask("POST", "/v1/tasks", body, headers=headers)


def test_a_task_is_committed_when_the_answer_comes(intake: Served, dsn: str) -> None:
    """Under the id of the answer, whoever runs it later; no broker is there."""
    body = {"task": "billing.charge", "args": [7], "kwargs": {"net": 1.5}}
    status, answer = post(intake, body)
    assert status == 201
    assert rows(dsn) == [("billing.charge", *answer["ids"])]
    assert not answer["repeated"]


def test_the_tasks_of_a_request_are_recorded_together(intake: Served, dsn: str) -> None:
    """In their order; if one cannot be recorded, none is."""
    tasks = [{"task": "billing.charge", "args": [n]} for n in range(3)]
    status, answer = post(intake, {"tasks": tasks})
    assert status == 201
    assert rows(dsn) == [("billing.charge", one) for one in answer["ids"]]
    large = {"task": "billing.charge", "args": ["x" * LIMIT]}
    status, answer = post(intake, {"tasks": [*tasks, large]})
    assert status == 400
    assert "pecker_outbox_message_bytes" in answer["error"]
    assert len(rows(dsn)) == 3


def test_a_request_that_comes_again_records_nothing(intake: Served, dsn: str) -> None:
    """The answer is that of the first; another body under its key is refused."""
    body = {"task": "billing.charge", "args": [7]}
    first = post(intake, body, "call 7")
    assert first[0] == 201
    status, answer = post(intake, body, "call 7")
    assert (status, answer["repeated"]) == (200, True)
    assert answer["ids"] == first[1]["ids"]
    assert post(intake, {**body, "args": [8]}, "call 7")[0] == 422
    assert len(rows(dsn)) == 1


def test_requests_of_one_key_at_once_are_recorded_once(
    intake: Served, dsn: str
) -> None:
    """While the first holds its transaction open the others wait for its end."""
    answers: list[tuple[int, dict[str, Any]]] = []
    body = {"task": "billing.charge", "args": [7]}
    threads = [
        threading.Thread(target=lambda: answers.append(post(intake, body, "call 7")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(status for status, _ in answers) == [200] * 7 + [201]
    assert len({one for _, answer in answers for one in answer["ids"]}) == 1
    assert len(rows(dsn)) == 1


def test_a_key_is_forgotten_after_a_day(dsn: str) -> None:
    """The table of keys stays as small as a day's requests."""
    outbox = make_outbox(dsn)
    service = IntakeService(outbox, Listener(), TOKEN)
    with Served(service, token=TOKEN) as served:
        assert post(served, {"task": "billing.charge"}, "old")[0] == 201
        assert post(served, {"task": "billing.charge"}, "new")[0] == 201
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "update pecker_intake_keys set created_at = created_at"
                " - %s * interval '1 second' where key = 'old'",
                [KEPT + 60],
            )
        service.intake.prune()
        with psycopg.connect(dsn) as connection:
            keys = connection.execute("select key from pecker_intake_keys").fetchall()
    outbox.close()
    assert keys == [("new",)]


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"{", 400, "the body is no JSON"),
        (b"[]", 400, "the body must be an object"),
        ({"task": ""}, 400, "task must be the name of a task, not ''"),
        ({"task": "billing.a", "args": 1}, 400, "args must be a list, not 1"),
        ({"task": "billing.a", "kwargs": []}, 400, "kwargs must be an object"),
        ({"task": "billing.a", "id": "x"}, 400, "args, kwargs, options, task"),
        ({"tasks": []}, 400, "tasks must be a list of 1 to 1000 tasks"),
        ({"tasks": [{}], "x": 1}, 400, "only 'tasks'"),
        (
            {"task": "billing.a", "options": {"countdown": -1}},
            400,
            "options.countdown must be seconds from 0",
        ),
        (
            {"task": "billing.a", "options": {"eta": "2026-01-01T00:00:00"}},
            400,
            "an instant with its offset",
        ),
        ({"task": "billing.a", "options": {"priority": 10}}, 400, "from 0 to 9"),
        ({"task": "billing.a", "options": {"shadow": "x"}}, 400, "countdown, eta"),
        (b'{"task": "billing.a", "args": [1e999]}', 400, "a number must be finite"),
        (
            {"task": "billing.a", "args": [{"__type__": "uuid", "__value__": "x"}]},
            400,
            "an object must be without '__type__'",
        ),
        ({"task": "billing.a\ud800"}, 400, "the body must be text"),
        ({"task": "billing.a", "args": ["\ud800"]}, 400, "the body must be text"),
        (
            {"task": "billing.a", "options": {"eta": "9999-12-31T23:59:59-23:59"}},
            400,
            "an instant with its offset",
        ),
        *(
            ({"task": "billing.a", "options": {"queue": queue}}, 400, "of a queue")
            for queue in ("a\r\nb", "x" * 256, "unacked", "_kombu.x", "pecker:x", "a b")
        ),
        ({"task": "os.system"}, 403, "'os.system' is not in pecker_intake_tasks"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_recorded(
    intake: Served, dsn: str, body: Any, status: int, error: str
) -> None:
    """With the field, its value and what is allowed."""
    answer = post(intake, body)
    assert answer[0] == status
    assert error in answer[1]["error"]
    assert rows(dsn) == []


def test_no_body_is_read_without_the_token(intake: Served) -> None:
    """The answer comes when the headers are there; a body of megabytes need not."""
    for path in ("/v1/tasks", "/nowhere"):
        with socket.create_connection(("127.0.0.1", intake.port), timeout=10) as wire:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n"
            wire.sendall(head.encode())
            assert wire.recv(4_096).startswith(b"HTTP/1.1 401")


def test_half_a_body_is_no_request_in_flight(dsn: str) -> None:
    """Its client went away: the end of the service does not wait for it."""
    outbox = make_outbox(dsn)
    service = IntakeService(outbox, Listener(), TOKEN)
    with Served(service, token=TOKEN) as served:
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as wire:
            wire.sendall(
                f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}"
                "\r\nContent-Length: 900\r\n\r\n{".encode()
            )
            eventually(lambda: service.in_flight.count == 1)
        eventually(lambda: service.in_flight.count == 0)
    outbox.close()


def test_connections_are_limited(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is closed at once, and accepted when another one has gone."""
    monkeypatch.setattr(listener, "CONNECTIONS", 2)
    outbox = make_outbox(dsn)
    served = Served(IntakeService(outbox, Listener(), TOKEN), token=TOKEN)
    with served, ExitStack() as stack:

        def opened() -> socket.socket:
            place = ("127.0.0.1", served.port)
            return stack.enter_context(socket.create_connection(place, timeout=10))

        first, _ = opened(), opened()
        assert opened().recv(1) == b""
        first.close()
        eventually(
            lambda: served.ask("GET", "/live", token=None)[0] == 200,
            ignoring=(OSError, HTTPException),
        )
    outbox.close()


def test_health_is_asked_for_once_an_interval(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many want to know: no token is needed, and no database is asked."""
    monkeypatch.setattr(server, "HEALTH_INTERVAL", 3_600.0)
    outbox = make_outbox(dsn)
    with Served(IntakeService(outbox, Listener(), TOKEN), token=TOKEN) as served:
        asked = {path: served.ask("GET", path) for path in ("/health", "/outboxes")}
        assert {status for status, _ in asked.values()} == {200}
        with psycopg.connect(dsn) as connection:
            connection.execute("drop table pecker_intake_keys")
        assert post(served, {"task": "billing.charge"}, "a key")[0] == 503
        assert {path: served.ask("GET", path) for path in asked} == asked
    outbox.close()


def test_without_the_token_nothing_is_recorded(intake: Served, dsn: str) -> None:
    """Nor is anything said of what there is."""
    for token in (None, "wrong"):
        status, answer = intake.ask(
            "POST", "/v1/tasks", {"task": "billing.a"}, token=token
        )
        assert (status, answer["error"]) == (401, "this needs the token")
    assert rows(dsn) == []
    assert intake.ask("GET", "/health", token=None)[0] == 200
    assert intake.ask("GET", "/live", token=None)[0] == 200


def test_without_token_or_tasks_it_does_not_start(dsn: str) -> None:
    """One line says what is missing."""
    with pytest.raises(Misconfigured, match="the intake needs a token"):
        IntakeService(make_outbox(dsn), Listener(), "")
    outbox = make_outbox(dsn, pecker_intake_tasks=())
    with pytest.raises(Misconfigured, match="pecker_intake_tasks is not set"):
        IntakeService(outbox, Listener(), TOKEN)


def test_options_reach_the_row(intake: Served, dsn: str) -> None:
    """A countdown waits in the table; queue and priority are the message's."""
    options = {"countdown": 3600, "queue": "slow", "priority": 3}
    status, _ = post(intake, {"task": "billing.charge", "options": options})
    assert status == 201
    with psycopg.connect(dsn) as connection:
        [row] = connection.execute(
            "select routing_key, priority, due_at > now() + interval '50 minutes'"
            " from pecker_outbox"
        ).fetchall()
    assert row == ("slow", 3, True)

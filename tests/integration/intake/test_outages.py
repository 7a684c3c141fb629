"""The intake while PostgreSQL restarts, and a commit whose answer is lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg
import pytest
from psycopg import conninfo

from celery_pecker.kernel.migrations import migrate
from celery_pecker.outbox import Outbox
from celery_pecker.surfaces.intake.server import RETRY_AFTER, IntakeService
from celery_pecker.surfaces.service.listener import Listener
from celery_pecker.testing import EmbeddedPostgres, ServerMissing, eventually
from tests.integration.intake.test_intake import TOKEN, make_outbox, post, rows
from tests.proxy import Proxy
from tests.served import Served
from tests.services import absent

CLIENTS, EACH = 4, 20
AMPLE = 60.0
BODY = {"task": "billing.charge", "args": [7]}
HELD_AT_COMMIT = """
create function held() returns trigger language plpgsql as
$$ begin perform pg_advisory_xact_lock_shared(7); return null; end $$;
create constraint trigger held after insert on pecker_intake_keys
deferrable initially deferred for each row execute function held()
"""


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """Give a PostgreSQL that may be restarted."""
    try:
        with EmbeddedPostgres(fast=True) as server:
            migrate(server.dsn, schema="public")
            yield server
    except ServerMissing as error:
        absent("PostgreSQL", error, required=True)


def answer(url: str, key: str) -> tuple[int, str | None]:
    """Return the status of a request, and when it may be sent once more."""
    request = Request(  # noqa: S310  # of our own service
        f"{url}/v1/tasks",
        data=json.dumps(BODY).encode(),
        headers={"Authorization": f"Bearer {TOKEN}", "Idempotency-Key": key},
    )
    try:
        with urlopen(request, timeout=AMPLE) as reply:  # noqa: S310
            return reply.status, None
    except HTTPError as error:
        with error:
            return error.code, error.headers["Retry-After"]


def test_while_postgresql_is_away_requests_are_told_to_come_again(
    own_postgres: EmbeddedPostgres,
) -> None:
    """With Retry-After; the same process goes on when the server is back."""
    outbox = make_outbox(own_postgres.dsn)
    with Served(IntakeService(outbox, Listener(), TOKEN), token=TOKEN) as served:
        assert answer(served.url, "before") == (201, None)
        own_postgres.stop()
        try:
            assert answer(served.url, "while") == (503, RETRY_AFTER)
            status, health = served.ask("GET", "/health", token=None)
            assert (status, health["database"]) == (503, "away")
            assert served.ask("GET", "/live", token=None)[0] == 200
        finally:
            own_postgres.start()
        assert answer(served.url, "while")[0] == 201
        # What it said while the server was away holds for a second
        eventually(lambda: served.ask("GET", "/health", token=None)[0] == 200)
    outbox.close()


def test_each_request_of_a_restart_is_recorded_once(
    own_postgres: EmbeddedPostgres,
) -> None:
    """Clients send it under one key until it is answered."""
    with psycopg.connect(own_postgres.dsn) as connection:
        connection.execute("truncate pecker_outbox, pecker_intake_keys")
    outbox = make_outbox(own_postgres.dsn)
    begun = threading.Semaphore(0)
    pause = threading.Event()

    def send(url: str, client: int) -> None:
        for number in range(EACH):
            while answer(url, f"{client} {number}")[0] not in {200, 201}:
                pause.wait(0.05)
            begun.release()

    with (
        Served(IntakeService(outbox, Listener(), TOKEN), token=TOKEN) as served,
        ThreadPoolExecutor(CLIENTS) as clients,
    ):
        sent = [clients.submit(send, served.url, client) for client in range(CLIENTS)]
        for _ in range(CLIENTS):
            assert begun.acquire(timeout=AMPLE)
        own_postgres.restart()
        for one in sent:
            one.result(AMPLE)
    outbox.close()
    assert len(rows(own_postgres.dsn)) == CLIENTS * EACH


def test_a_commit_whose_answer_is_lost_is_recorded_once(dsn: str) -> None:
    """The client is told that nobody can say, and sends it again under its key."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(HELD_AT_COMMIT)
    given = conninfo.conninfo_to_dict(dsn)
    with (
        Proxy(str(given["host"]), int(str(given["port"]))) as proxy,
        psycopg.connect(dsn, autocommit=True) as holder,
        ThreadPoolExecutor(1) as client,
    ):
        there = conninfo.make_conninfo(dsn, host="127.0.0.1", port=proxy.port)
        outbox = make_outbox(there, pecker_database_timeout=5.0)
        with Served(IntakeService(outbox, Listener(), TOKEN), token=TOKEN) as served:
            holder.execute("select pg_advisory_lock(7)")
            first = client.submit(answer, served.url, "call 7")
            eventually(
                lambda: _waits_in_commit(holder), AMPLE, "the commit waits for the lock"
            )
            proxy.mute()
            holder.execute("select pg_advisory_unlock(7)")
            eventually(lambda: rows(dsn), AMPLE, "the server has committed")
            proxy.cut()
            assert first.result(AMPLE) == (503, RETRY_AFTER)
            proxy.open()
            status, again = post(served, BODY, "call 7")
            assert (status, again["repeated"]) == (200, True)
            assert rows(dsn) == [("billing.charge", *again["ids"])]
        outbox.close()


def test_each_outbox_of_the_app_is_said_to_answer_or_not(dsn: str) -> None:
    """One that is away is no reason to restart an intake that records in another."""
    outbox = make_outbox(dsn)
    Outbox(outbox.app, dsn="postgresql://127.0.0.1:1/nowhere", name="eu")
    with Served(IntakeService(outbox, Listener(), TOKEN), token=TOKEN) as served:
        status, told = served.ask("GET", "/outboxes", token=None)
        assert status == 200
        assert told["outboxes"] == {"default": "answers", "eu": "away"}
        assert served.ask("GET", "/health", token=None)[0] == 200
    outbox.close()


def _waits_in_commit(connection: psycopg.Connection) -> bool:
    found = connection.execute(
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and wait_event = 'advisory'"
    ).fetchone()
    return found == (1,)

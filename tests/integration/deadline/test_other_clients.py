"""Waits of the clients that are not for an answer: pools, pauses, bodies, commits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import psycopg
import pytest
import redis
import requests
import sqlalchemy
from psycopg import conninfo
from urllib3 import Retry

from celery_pecker import deadline
from celery_pecker.deadline import DeadlineExceeded
from celery_pecker.deadline.clients import httpx as httpx_client
from celery_pecker.deadline.clients import redis as redis_client
from celery_pecker.deadline.clients import requests as requests_client
from celery_pecker.deadline.clients import sqlalchemy as sqlalchemy_client
from celery_pecker.kernel.clock import monotonic
from celery_pecker.kernel.errors import Misconfigured
from tests.integration.deadline import exchanges
from tests.integration.deadline.conftest import Ways

BUDGET = 0.1
GENEROUS = 10.0
"""Seconds: far above what is promised, half of what each exchange would wait."""


def ends_in_time(exchange: Callable[[], object]) -> None:
    """The exchange ends with its deadline, for which it would wait much longer."""
    began = monotonic()
    with deadline.within(BUDGET), pytest.raises(DeadlineExceeded):
        exchange()
    assert BUDGET / 2 < monotonic() - began < GENEROUS


# Redis


def test_a_blocking_command_ends(redis_url: str) -> None:
    """The server would answer after its own time; its late answer is not mistaken."""
    with redis.Redis.from_url(redis_url) as client:
        redis_client.install(client)
        ends_in_time(lambda: client.blpop(["empty"], timeout=20))
        client.rpush("empty", "late")
        assert client.lpop("empty") == b"late"


def test_the_wait_for_a_free_redis_connection_ends(redis_url: str) -> None:
    """Of a pool that blocks."""
    pool: Any = redis.BlockingConnectionPool.from_url(
        redis_url, max_connections=1, timeout=20
    )
    redis_client.install(pool)
    redis_client.install(pool)
    taken = pool.get_connection()
    with redis.Redis(connection_pool=pool) as client:
        ends_in_time(client.ping)
        pool.release(taken)
        with deadline.within(20):
            assert client.ping()
    pool.disconnect()


def test_pipelines_and_subscriptions_end(redis_url: str, way: Ways) -> None:
    """They read by themselves."""
    proxy, address = way("redis")
    with redis.Redis.from_url(address) as client:
        redis_client.install(client)
        with client.pipeline() as pipeline, client.pubsub() as listener:
            listener.subscribe("news")
            assert listener.get_message(timeout=5)
            proxy.hang()
            ends_in_time(pipeline.set("a", 1).get("a").execute)
            ends_in_time(lambda: next(listener.listen()))


def test_an_error_of_redis_stays_its_own(redis_url: str) -> None:
    """Only the deadline's end is DeadlineExceeded; retries are as they were asked."""
    with redis.Redis.from_url(redis_url) as client:
        redis_client.install(client)
        with deadline.within(20):
            client.set("text", "a")
            with pytest.raises(redis.ResponseError):
                client.lpush("text", "b")
    with pytest.raises(Misconfigured, match=r"install\(str\)"):
        redis_client.install("redis://")  # type: ignore[arg-type]


# HTTP


@contextmanager
def server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Give the address of a web server that answers so."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as listening:
        listening.daemon_threads = True
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}/"
        listening.shutdown()


def test_the_pauses_of_retries_end() -> None:
    """A server that asks for patience does not get more than there is."""

    def busy(page: BaseHTTPRequestHandler) -> None:
        page.send_response(503)
        page.send_header("Retry-After", "20")
        page.end_headers()

    with server(busy) as url, requests.Session() as session:
        retries = Retry(5, status_forcelist=[503])
        session.mount("http://", requests_client.Adapter(max_retries=retries))
        ends_in_time(lambda: session.get(url))


@pytest.mark.parametrize("client", ["requests", "httpx"])
def test_a_streamed_body_ends(client: str, way: Ways) -> None:
    """With the same error as the rest, though the request itself went well."""
    proxy, address = way(client)

    def slow() -> None:
        proxy.drip(0.03)

    if client == "requests":
        with requests.Session() as session:
            requests_client.install(session)
            with session.get(address, stream=True) as response:
                slow()
                again = session.get
                ends_in_time(lambda: list(again(address).iter_content(10)))
                response.close()
    else:
        with httpx.Client(transport=httpx_client.Transport()) as session_:
            slow()
            with session_.stream("GET", f"{address}") as answer:
                ends_in_time(lambda: list(answer.iter_bytes(10)))


def test_the_wait_for_a_free_http_connection_ends(way: Ways) -> None:
    """Httpx has a pool that blocks."""
    _, address = way("httpx")
    limits = httpx.Limits(max_connections=1)
    with httpx.Client(transport=httpx_client.Transport(limits=limits)) as client:
        with client.stream("GET", address):
            ends_in_time(lambda: client.get(address))
        with deadline.within(20):
            assert client.get(address).status_code == 200


def test_errors_of_http_stay_their_own(way: Ways) -> None:
    """A server that is not there, long before the deadline."""
    proxy, address = way("requests")
    proxy.refuse()
    with requests.Session() as session, httpx.Client() as client:
        requests_client.install(session)
        httpx_client.install(client)
        with deadline.within(20):
            with pytest.raises(requests.ConnectionError):
                session.get(address)
            with pytest.raises(requests.ConnectionError):
                session.get("http://name.invalid/")
            with pytest.raises(httpx.ConnectError):
                client.get(address)


# SQLAlchemy and Django


def test_the_wait_for_a_free_database_connection_ends(dsn: str) -> None:
    """Also of a pool that was made anew."""
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://",
        connect_args=conninfo.conninfo_to_dict(dsn),
        pool_size=1,
        max_overflow=0,
    )
    sqlalchemy_client.install(engine)
    sqlalchemy_client.install(engine)
    for _ in range(2):
        with engine.connect():
            ends_in_time(engine.connect)
        engine.dispose()


def test_an_engine_s_slow_statement_leaves_its_connection(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And one that is given up is replaced without a word."""
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), pool_size=1
    )
    sqlalchemy_client.install(engine)
    asks = sqlalchemy.text("select pg_backend_pid()")

    def slow(text: str) -> None:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(text))

    with engine.begin() as connection:
        before = connection.execute(asks).scalar_one()
    ends_in_time(lambda: slow("select pg_sleep(20)"))
    with engine.begin() as connection:
        assert connection.execute(asks).scalar_one() == before

    def lifted() -> None:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("set local statement_timeout = 0"))
            connection.execute(sqlalchemy.text("select pg_sleep(20)"))

    ends_in_time(lifted)
    with engine.begin() as connection:
        assert connection.execute(asks).scalar_one() != before
    engine.dispose()
    assert not caplog.records


def test_another_driver_is_refused_by_name() -> None:
    """What is not bounded must not look as if it were."""
    with pytest.raises(Misconfigured, match=r"sqlite\+pysqlite\): allowed is"):
        sqlalchemy_client.install(sqlalchemy.create_engine("sqlite://"))


def test_django_commits_nothing_after_the_deadline(dsn: str) -> None:
    """And its connection can go on."""
    with psycopg.connect(dsn, autocommit=True) as watcher:
        watcher.execute("create table written (by text)")
        with exchanges.django_backend(dsn) as backend:
            atomic: Any = exchanges.Atomic(backend)

            def writes() -> None:
                with atomic, backend.cursor() as cursor:
                    cursor.execute("insert into written values ('django')")
                    with deadline.detached():
                        threading.Event().wait(2 * BUDGET)

            ends_in_time(writes)
            with backend.cursor() as cursor:
                cursor.execute("select count(*) from written")
                assert cursor.fetchone() == (0,)

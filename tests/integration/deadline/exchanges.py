"""One exchange with a server for each client; also run under gevent, as a program.

As a program it is told the addresses, says `ready` once each client has had an answer,
waits for a line, and then says in JSON how each exchange under a deadline ended.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import django
import httpx
import psycopg
import psycopg.conninfo
import redis
import requests
import sqlalchemy
from django.conf import settings
from django.db import transaction
from django.db.utils import ConnectionHandler
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from celery_pecker import deadline
from celery_pecker.deadline.clients import httpx as httpx_client
from celery_pecker.deadline.clients import psycopg as psycopg_client
from celery_pecker.deadline.clients import redis as redis_client
from celery_pecker.deadline.clients import requests as requests_client
from celery_pecker.deadline.clients import sqlalchemy as sqlalchemy_client
from celery_pecker.kernel.clock import monotonic
from tests.told import told

Exchange = Callable[[], object]
BUDGET = 0.1
LONG_QUERY = "select repeat('x', 200000)"


@contextmanager
def through_psycopg(address: str) -> Iterator[Exchange]:
    """One connection, made anew when the last one was given up."""
    held: list[psycopg.Connection[Any]] = []

    def exchange() -> object:
        if not held or held[0].closed:
            held[:] = [psycopg_client.Connection.connect(address)]
        with held[0].transaction():
            return held[0].execute(LONG_QUERY).fetchone()

    yield exchange
    for connection in held:
        connection.close()


@contextmanager
def through_psycopg_autocommit(address: str) -> Iterator[Exchange]:
    """The same, each statement a transaction of its own."""
    held: list[psycopg.Connection[Any]] = []

    def exchange() -> object:
        if not held or held[0].closed:
            held[:] = [psycopg_client.Connection.connect(address, autocommit=True)]
        return held[0].execute(LONG_QUERY).fetchone()

    yield exchange
    for connection in held:
        connection.close()


@contextmanager
def through_redis(address: str) -> Iterator[Exchange]:
    """A client that would retry for long."""
    with redis.Redis.from_url(
        address, retry=Retry(ConstantBackoff(1.0), 5), socket_timeout=20
    ) as client:
        redis_client.install(client)
        yield lambda: client.echo("x" * 1000)


@contextmanager
def through_requests(address: str) -> Iterator[Exchange]:
    """A session, and the whole body."""
    with requests.Session() as session:
        requests_client.install(session)
        yield lambda: session.get(address, timeout=20).content


@contextmanager
def through_httpx(address: str) -> Iterator[Exchange]:
    """A client that was there already, and the whole body."""
    with httpx.Client(timeout=20, trust_env=False) as client:
        httpx_client.install(client)
        yield lambda: client.get(address).content


@contextmanager
def through_sqlalchemy(address: str) -> Iterator[Exchange]:
    """An engine, a transaction each time."""
    given = psycopg.conninfo.conninfo_to_dict(address)
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", connect_args=given, pool_size=1, max_overflow=0
    )
    sqlalchemy_client.install(engine)
    query = sqlalchemy.text(LONG_QUERY)

    def exchange() -> object:
        with engine.begin() as connection:
            return connection.execute(query).scalar_one()

    yield exchange
    engine.dispose()


@contextmanager
def through_django(address: str) -> Iterator[Exchange]:
    """Django's connection, in a transaction."""
    yield from _through_django(address, atomic=True)


@contextmanager
def through_django_autocommit(address: str) -> Iterator[Exchange]:
    """Django's connection as it is by default."""
    yield from _through_django(address, atomic=False)


@contextmanager
def django_backend(address: str) -> Iterator[Any]:
    """Give Django's connection, as `django.db.connections` would."""
    if not settings.configured:
        settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
        django.setup()
    given = psycopg.conninfo.conninfo_to_dict(address)
    there = {
        "ENGINE": "celery_pecker.deadline.clients.django",
        "NAME": given["dbname"],
        "USER": given.get("user", ""),
        "PASSWORD": given.get("password", ""),
        "HOST": given["host"],
        "PORT": str(given["port"]),
    }
    backend = ConnectionHandler({"default": there})["default"]
    backend.inc_thread_sharing()
    yield backend
    backend.close()


def _through_django(address: str, *, atomic: bool) -> Iterator[Exchange]:
    with django_backend(address) as backend:

        def exchange() -> object:
            whole = Atomic(backend) if atomic else nullcontext()
            with whole, backend.cursor() as cursor:
                cursor.execute(LONG_QUERY)
                return cursor.fetchone()

        yield exchange


class Atomic(transaction.Atomic):
    """django.db.transaction.atomic, of a connection that has no global name."""

    def __init__(self, backend: Any) -> None:
        super().__init__("default", savepoint=True, durable=False)
        self.backend = backend

    def __enter__(self) -> None:
        with mock.patch.object(
            transaction, "get_connection", return_value=self.backend
        ):
            super().__enter__()

    def __exit__(self, *error: object) -> None:
        with mock.patch.object(
            transaction, "get_connection", return_value=self.backend
        ):
            super().__exit__(*error)


CLIENTS = {
    "psycopg": through_psycopg,
    "psycopg-autocommit": through_psycopg_autocommit,
    "sqlalchemy": through_sqlalchemy,
    "django": through_django,
    "django-autocommit": through_django_autocommit,
    "redis": through_redis,
    "requests": through_requests,
    "httpx": through_httpx,
}


def overrun(exchange: Exchange) -> float:
    """Return how long after its deadline an exchange ended with DeadlineExceeded."""
    began = monotonic()
    try:
        with deadline.within(BUDGET):
            exchange()
    except deadline.DeadlineExceeded:
        return monotonic() - began - BUDGET
    message = "the exchange ended well, which it could not"
    raise AssertionError(message)


def main(addresses: dict[str, str]) -> None:
    """Make all exchanges at the same time, a greenlet each."""
    import gevent  # noqa: PLC0415 — only where everything is patched

    with ExitStack() as stack:
        exchanges = {
            name: stack.enter_context(CLIENTS[name](address))
            for name, address in addresses.items()
        }
        for exchange in exchanges.values():
            exchange()
        print("ready", flush=True)  # noqa: T201
        sys.stdin.readline()
        jobs = {
            name: gevent.spawn(overrun, exchange)
            for name, exchange in exchanges.items()
        }
        gevent.joinall(list(jobs.values()))
        print(json.dumps({name: job.value for name, job in jobs.items()}))  # noqa: T201


if __name__ == "__main__":
    main(*told())

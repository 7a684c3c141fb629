"""Tasks that would never end by themselves: where do they end under a deadline?

Each tells, in the file that it is given, how long after its deadline the error reached
its own code. Their servers are behind proxies that stop answering while they ask.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from typing import NoReturn

import httpx
import redis
import requests
from celery import Celery

from benchmarks.peers.environment import given
from celery_pecker import deadline
from celery_pecker.deadline.clients import httpx as httpx_client
from celery_pecker.deadline.clients import psycopg as psycopg_client
from celery_pecker.deadline.clients import redis as redis_client
from celery_pecker.deadline.clients import requests as requests_client

TASK, BEGIN = "bench.endless", "bench.begin"
PAUSE = 0.005
"""Seconds between two questions to a server: the machine is not to be the bound."""
PATIENT = 30.0
"""Seconds that a client would wait by itself."""

app = Celery("endless", broker=given("BROKER", "memory://"))
app.conf.update(
    task_default_queue=given("QUEUE", "bench"),
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
    pecker_dsn=given("DSN"),
    pecker_schema=given("SCHEMA", "public"),
)


def _again(ask: Callable[[], object]) -> NoReturn:
    while True:
        ask()
        time.sleep(PAUSE)


def _sleep() -> None:
    time.sleep(60)


def _loop() -> None:
    while True:
        pass


def _checking_loop() -> None:
    while True:
        for _ in range(1000):
            pass
        deadline.check()


def _psycopg() -> None:
    address = given("PROXY_POSTGRESQL")
    with psycopg_client.Connection.connect(address, autocommit=True) as connection:
        _again(lambda: connection.execute("select 1"))


def _redis() -> None:
    with redis.Redis.from_url(given("PROXY_REDIS"), socket_timeout=PATIENT) as client:
        redis_client.install(client)
        _again(client.ping)


def _requests() -> None:
    with requests.Session() as session:
        requests_client.install(session)
        _again(lambda: session.get(given("PROXY_HTTP"), timeout=PATIENT))


def _httpx() -> None:
    # to load certificates is a tenth of a second in C that nobody interrupts
    transport = httpx_client.Transport(verify=False)
    with httpx.Client(transport=transport, timeout=PATIENT) as client:
        _again(lambda: client.get(given("PROXY_HTTP")))


def _asyncio_sleep() -> None:
    deadline.run(asyncio.sleep(60))


def _asyncio_httpx() -> None:
    async def ask() -> None:
        transport = httpx.AsyncHTTPTransport(verify=False)  # as above
        async with httpx.AsyncClient(transport=transport, timeout=PATIENT) as client:
            while True:
                await client.get(given("PROXY_HTTP"))
                await asyncio.sleep(PAUSE)

    deadline.run(ask())


CASES: dict[str, Callable[[], None]] = {
    "time.sleep": _sleep,
    "a loop": _loop,
    "a loop with check()": _checking_loop,
    "psycopg": _psycopg,
    "redis": _redis,
    "requests": _requests,
    "httpx": _httpx,
    "asyncio.sleep": _asyncio_sleep,
    "httpx.AsyncClient": _asyncio_httpx,
}


@app.task(name=TASK, ignore_result=True)
def endless(case: str) -> None:
    """Tell how late the end came."""
    ends = deadline.at()
    _tell({"case": case, "began": True})
    try:
        CASES[case]()
    except deadline.DeadlineExceeded:
        now = time.monotonic()
        with deadline.shield(1.0):
            _tell({"case": case, "over_s": None if ends is None else now - ends})
        raise


@app.task(name=BEGIN, ignore_result=True)
def begin() -> None:
    """The worker is there."""
    _tell({"case": BEGIN})


def _tell(line: dict[str, object]) -> None:
    path = os.open(given("TOLD"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(path, json.dumps(line).encode() + b"\n")
    os.close(path)

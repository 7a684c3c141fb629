"""What the deadline costs a call that has enough time: µs of the caller's CPU time.

Each client asks as it is, and as it is after `install`, in turns of a few calls; what
counts is the middle one of the differences. Time of the caller's thread alone: what the
server and the wire take is in neither.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import httpx
import psycopg
import redis
import requests

from benchmarks.cputime import cpu_us, no_collection
from benchmarks.deadlines.web import answering
from benchmarks.results import Sample
from benchmarks.run import Run
from benchmarks.servers import Servers
from celery_pecker import deadline
from celery_pecker.deadline.clients import httpx as httpx_client
from celery_pecker.deadline.clients import psycopg as psycopg_client
from celery_pecker.deadline.clients import redis as redis_client
from celery_pecker.deadline.clients import requests as requests_client

ROW = "deadline_cost"
FAR = 600.0
"""Seconds: enough is left."""
TURN = 20
"""Calls before it is the other one's turn."""
Ask = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same question, asked by a client as it is, and by one that is bounded."""

    plain: Ask
    bounded: Ask


def run(run: Run) -> None:
    """Measure the questions themselves, then each client."""
    run.trial(ROW, "questions", 3, questions, what="questions")
    for what, client in CLIENTS.items():
        run.trial(
            ROW,
            what,
            run.plan.calls * 5e-4 + 1,
            partial(measure, run, client),
            what=what,
        )


def questions() -> Sample:
    """Return what each question of `deadline` costs, by a million of them."""
    asked: dict[str, Ask] = {
        "timeout(5)": lambda: deadline.timeout(5.0),
        "check()": deadline.check,
        "remaining()": deadline.remaining,
    }
    found: Sample = {}
    for name, ask in asked.items():
        for said, scope in _scopes().items():
            with scope():
                empty = cpu_us(lambda: None, 100_000)
                found[f"{name}, {said}"] = round(cpu_us(ask, 100_000) - empty, 3)

    def enter() -> None:
        with deadline.within(FAR):
            pass

    found["with within(…)"] = round(cpu_us(enter, 50_000), 3)
    return {"us": found}


def _scopes() -> dict[str, Callable[[], Any]]:
    return {
        "no deadline": nullcontext,
        "enough left": partial(deadline.within, FAR),
    }


def measure(run: Run, client: Callable[[ExitStack, Servers], Pair]) -> Sample:
    """Return what a wrapped call costs more, without a deadline and with enough."""
    found: Sample = {}
    with ExitStack() as stack:
        pair = client(stack, run.servers)
        turns = max(run.plan.calls // TURN, 5)
        for said, scope in _scopes().items():
            plain, more = [], []
            with scope(), no_collection():
                for one in (pair.plain, pair.bounded):
                    cpu_us(one, TURN)
                for _ in range(turns):
                    plain.append(cpu_us(pair.plain, TURN))
                    more.append(cpu_us(pair.bounded, TURN) - plain[-1])
                    run.tell()
            found[said] = round(median(more), 2)
            found[f"plain, {said}"] = round(median(plain), 1)
    return {"us": found}


def _redis(stack: ExitStack, servers: Servers) -> Pair:
    plain = stack.enter_context(redis.Redis.from_url(servers.redis))
    bounded = stack.enter_context(redis.Redis.from_url(servers.redis))
    redis_client.install(bounded)
    return Pair(plain.ping, bounded.ping)


def _psycopg(stack: ExitStack, servers: Servers) -> Pair:
    plain = stack.enter_context(psycopg.connect(servers.dsn))
    bounded = stack.enter_context(psycopg_client.Connection.connect(servers.dsn))
    # within a transaction that has begun: its statement_timeout is on its way
    return Pair(lambda: plain.execute("select 1"), lambda: bounded.execute("select 1"))


def _requests(stack: ExitStack, _servers: Servers) -> Pair:
    url = f"http://127.0.0.1:{stack.enter_context(answering())}/"
    plain, bounded = (stack.enter_context(requests.Session()) for _ in range(2))
    requests_client.install(bounded)
    return Pair(lambda: plain.get(url), lambda: bounded.get(url))


def _httpx(stack: ExitStack, _servers: Servers) -> Pair:
    url = f"http://127.0.0.1:{stack.enter_context(answering())}/"
    plain, bounded = (stack.enter_context(httpx.Client()) for _ in range(2))
    httpx_client.install(bounded)
    return Pair(lambda: plain.get(url), lambda: bounded.get(url))


CLIENTS = {
    "redis": _redis,
    "psycopg": _psycopg,
    "requests": _requests,
    "httpx": _httpx,
}

"""A worker that is a scheduler ends as any other, whatever hangs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis
from tests.integration.worker.crew import Crew

pytestmark = pytest.mark.cluster

Crews = Callable[..., Crew]

SOON = 60.0
"""Seconds; what hangs does so until the test is over, and who waits for it, too."""
WAYS = {
    "a": ("prefork", signal.SIGTERM),
    "b": ("prefork", signal.SIGQUIT),
    "c": ("threads", signal.SIGINT),
    "d": ("gevent", signal.SIGTERM),
    "e": ("solo", signal.SIGQUIT),
}


def test_it_ends_while_postgresql_hangs(
    crews: Crews, own_postgres: Callable[..., EmbeddedPostgres], redis_url: str
) -> None:
    """Warm, cold and by the keyboard: the scheduler holds nothing up."""
    server = own_postgres(fast=True)
    all_of_them = {name: crews(name, dsn=server.dsn, broker=redis_url) for name in WAYS}
    for name, crew in all_of_them.items():
        crew.worker(WAYS[name][0], wait=False)
    for crew in all_of_them.values():
        crew.until(lambda crew=crew: crew.ran(1, "sent", "here"), "it runs")
    server.freeze()
    for crew in all_of_them.values():
        log = crew.all[0].life_log
        crew.until(lambda log=log: "step failed" in log(), "it noticed")
    for name, crew in all_of_them.items():
        os.kill(crew.all[0].pid, WAYS[name][1])
    for name, crew in all_of_them.items():
        process = crew.all[0]
        crew.until(lambda p=process: p.exit_code is not None, f"{WAYS[name]}", SOON)
        assert "Traceback" not in process.life_log()
        if WAYS[name][1] is signal.SIGTERM:
            assert process.exit_code == 0


def test_its_scheduler_leaves_while_the_broker_hangs(
    crews: Crews, dsn: str, own_redis: Callable[..., EmbeddedRedis]
) -> None:
    """Celery's own end waits for a silent broker; slots are left to others at once."""
    server = own_redis(fast=True)
    both = [crews(p, dsn=dsn, broker=server.url) for p in ("prefork", "gevent")]
    for crew in both:
        crew.worker(crew.name, wait=False)
    for crew in both:
        crew.until(lambda crew=crew: crew.ran(1, "sent", "here"), "it runs")
    server.freeze()
    during = [len(crew.slots["here"]) for crew in both]
    for crew, count in zip(both, during, strict=True):
        crew.until(lambda c=crew, n=count + 2: c.ran(n, "here"), "local runs go on")
        os.kill(crew.all[0].pid, signal.SIGTERM)
    for crew in both:
        crew.until(lambda crew=crew: crew.alive == [], "its schedulers left", SOON)
    done = [crew.slots["here"] for crew in both]
    server.thaw()
    for crew, here in zip(both, done, strict=True):
        worker = crew.all[0]
        crew.until(lambda w=worker: w.exit_code is not None, "so has the worker", SOON)
        assert worker.exit_code == 0
        assert crew.slots["here"] == here
        assert "Traceback" not in worker.life_log()

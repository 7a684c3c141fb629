"""Workers keep the schedule by themselves: no beat process runs, or one among them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil
import psycopg
import pytest
from celery import Celery

from celery_pecker.testing import EmbeddedRedis
from tests.integration.worker.crew import Crew

pytestmark = pytest.mark.cluster

POOLS = ("prefork", "threads", "gevent", "solo")
SENT = ("sent", "sent too")

Crews = Callable[..., Crew]


def test_every_pool_keeps_the_schedule(crews: Crews, dsn: str, redis_url: str) -> None:
    """Each slot runs once, sent or local; `inspect stats` tells; TERM ends it all."""
    all_of_them = [crews(pool, dsn=dsn, broker=redis_url) for pool in POOLS]
    for crew in all_of_them:
        crew.worker(crew.name, wait=False)
    for crew in all_of_them:
        crew.until(lambda crew=crew: crew.ran(3, *SENT, "here"), "three slots ran")

    with Celery(broker=redis_url) as app:
        found: Any = app.control.inspect(timeout=30.0, limit=len(POOLS)).stats()
    told = {
        name.partition("-")[0]: stats["celery_pecker"] for name, stats in found.items()
    }
    assert set(told) == set(POOLS)
    for sends, runs in told.values():
        assert (sends["kind"], runs["kind"]) == ("worker", "local")
        assert (sends["entries"], runs["entries"]) == (2, 1)
        assert sends["won"] >= 6
        assert runs["won"] >= runs["runs"]["succeeded"] >= 3
        assert sends["last_turn"] < 5
        assert runs["runs"]["events_dropped"] == 0

    for crew in all_of_them:
        assert [one.rpartition("-")[2] for one in crew.alive] == ["local", "worker"]
        crew.all[0].kill("SIGTERM")
    for crew in all_of_them:
        crew.until(lambda crew=crew: crew.all[0].exit_code is not None, "it ended")
        assert crew.all[0].exit_code == 0
        assert crew.alive == []
        # billiard logs one of its own if a child takes a task while the pool ends
        assert not re.search(r'File ".*/celery_pecker/', crew.all[0].life_log())
        crew.see_each_once(gaps=1)


def test_workers_and_beat_share_a_schedule(
    crews: Crews, dsn: str, redis_url: str
) -> None:
    """Each slot is won once; who leaves in good order takes none along."""
    crew = crews("mixed", dsn=dsn, broker=redis_url)
    first = crew.worker("solo", wait=False)
    beat = crew.beat(wait=False)
    crew.worker("threads")
    crew.until(lambda: crew.ran(2, *SENT, "here"), "they run")
    assert "1 entries are run in workers" in beat.life_log()
    for process in (beat, first):
        now = {name: len(seconds) for name, seconds in crew.slots.items()}
        process.kill("SIGTERM")
        crew.until(
            lambda now=now: crew.ran(max(now.values()) + 2, *SENT, "here"), "go on"
        )
        assert process.wait(30.0) == 0
    crew.see_each_once()
    with psycopg.connect(dsn) as connection:
        [(holders, kinds)] = connection.execute(
            "select count(*), array_agg(distinct kind order by kind)"
            " from mixed.pecker_replicas"
        ).fetchall()
    assert (holders, kinds) == (5, ["beat", "local", "worker"])


def test_the_broker_comes_and_goes(
    crews: Crews, dsn: str, own_redis: Callable[..., EmbeddedRedis]
) -> None:
    """Local slots do not notice, the others go on; the scheduler is the same one."""
    server = own_redis(fast=True)
    crew = crews("restarted", dsn=dsn, broker=server.url)
    worker = crew.worker("prefork")
    crew.until(lambda: crew.ran(2, *SENT, "here"), "they run")
    server.kill()
    during = len(crew.slots["here"])
    crew.until(lambda: crew.ran(during + 3, "here"), "local runs go on")
    server.start()
    before = {name: len(seconds) for name, seconds in crew.slots.items()}
    crew.until(lambda: crew.ran(before["sent"] + 2, *SENT), "all goes on")

    assert worker.life_log().count("pecker: ready") == 2  # one of each kind
    here = crew.slots["here"]
    assert here == [float(second) for second in range(len(here))]
    for name in SENT:
        assert len(crew.slots[name]) == len({*crew.slots[name]})


def test_processes_of_a_pool_hold_nothing_of_the_scheduler(
    crews: Crews, dsn: str, redis_url: str
) -> None:
    """Each task gets a new process, forked while the scheduler is at work."""
    crew = crews("forked", dsn=dsn, broker=redis_url)
    worker = crew.worker("prefork", "--max-tasks-per-child=1")
    first = {child.pid for child in psutil.Process(worker.pid).children()}
    port = int(str(psycopg.conninfo.conninfo_to_dict(dsn)["port"]))

    def ends(process: psutil.Process) -> list[int]:
        return [
            one.raddr.port for one in process.net_connections("tcp") if len(one.raddr)
        ]

    seen: dict[int, list[int]] = {}

    def look() -> int:
        """Count the connections of new processes; a dead one seems to have none."""
        for child in psutil.Process(worker.pid).children():
            with suppress(psutil.Error):
                mine = ends(child).count(port)
                if child.pid not in first and child.status() != psutil.STATUS_ZOMBIE:
                    seen.setdefault(child.pid, []).append(mine)
        return sum(len(looks) > 1 for looks in seen.values())

    crew.until(lambda: crew.ran(3, *SENT, "here"), "processes were replaced")
    crew.until(lambda: look() > 3, "new processes were seen")
    inherited = 4  # two that claim, one for the history, one for how runs ended
    main = psutil.Process(worker.pid)
    crew.until(lambda: ends(main).count(port) == inherited, "all are open")
    # The first look may come in the very moment of the fork.
    later = [count for looks in seen.values() for count in looks[1:]]
    assert max(later) < inherited, "at most what its own run asks"
    # Celery gives what was sent to a process that is leaving to another one seconds
    # later: with a deadline of less, that run is refused, and rightly so.
    crew.see_each_once("sent", "here")
    assert worker.life_log().count("pecker: ready") == 2

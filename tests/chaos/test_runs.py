"""Runs on every kind of pool, while their messages come twice and workers stand still.

Never two runs of one name inside their deadlines, and nothing stale is written: read
from tables that the runs themselves wrote, by the clock of the database.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from kombu import Connection

from celery_pecker.kernel.clock import SYSTEM, pause
from celery_pecker.testing import eventually
from tests.nodes import start, worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_celery import CeleryTestWorker

    from tests.chaos.conftest import OwnServers

pytestmark = pytest.mark.chaos

ROOT = Path(__file__).parents[2]
POOLS = {
    "prefork": ["-P", "prefork", "-c", "3"],
    "threads": ["-P", "threads", "-c", "4"],
    "gevent": ["-P", "gevent", "-c", "10"],
    "solo": ["-P", "solo"],
}
FAST = {f"fast{number}": (1.0, 0.9, 0.08) for number in range(3)}
SLOW = {f"slow{number}": (5.0, 4.5, 0.2) for number in range(4)}
VISIBLE = 1.0
"""Seconds after which Redis hands a message out again: within the slow deadlines."""
SECONDS = 20.0

TABLES = """
create table chaos_runs (
    id bigserial primary key, worker text, name text, due timestamptz, era int,
    epoch bigint, attempt int, deadline timestamptz,
    began timestamptz default clock_timestamp(), ended timestamptz
);
create table chaos_writes (
    id bigserial primary key, name text, epoch bigint, attempt int, after_end boolean,
    at timestamptz default clock_timestamp()
);
create table chaos_refusals (name text, epoch bigint)
"""
OVERLAPS = """
select one.name, one.worker, one.due, one.epoch, one.attempt,
       other.worker, other.due, other.epoch, other.attempt
from chaos_runs as one join chaos_runs as other
    on one.name = other.name and one.id < other.id
where tstzrange(one.began, least(coalesce(one.ended, 'infinity'), one.deadline))
    && tstzrange(other.began, least(coalesce(other.ended, 'infinity'), other.deadline))
    and one.began < one.deadline and other.began < other.deadline
"""
STALE = """
select * from (
    select name, (epoch, attempt) as mine,
           lag((epoch, attempt)) over (partition by name order by id) as before
    from chaos_writes
) as written
where mine < before
"""
TWICE = """
select name, due, era, attempt, count(*) from chaos_runs
group by name, due, era, attempt having count(*) > 1
"""


class Stand:
    """One worker of each pool, on one Redis that hands messages out again."""

    def __init__(self, servers: OwnServers, queue: str) -> None:
        self.dsn = servers.postgres.dsn
        self.broker = servers.redis.url
        self.queue = queue
        self._over = Event()
        self._impatient = Thread(target=self._hand_out_again, daemon=True)
        with psycopg.connect(self.dsn) as connection:
            connection.execute(TABLES.encode())
        self.workers = {
            pool: worker(
                "tests.chaos.runs_app",
                name=pool,
                queue=queue,
                cwd=ROOT,
                env={"PECKER_CHAOS_CONF": json.dumps(self._conf())},
                options=[*options, "--without-gossip", "--without-mingle"],
            )
            for pool, options in POOLS.items()
        }

    def _conf(self) -> dict[str, Any]:
        return {
            "broker_url": self.broker,
            "broker_transport_options": {"visibility_timeout": VISIBLE},
            "broker_connection_retry_on_startup": True,
            "task_default_queue": self.queue,
            "task_acks_late": True,
            "task_reject_on_worker_lost": True,
            "task_ignore_result": True,
            "result_expires": None,
            "worker_prefetch_multiplier": 2,
            "pecker_dsn": self.dsn,
            "pecker_worker": ["scheduler"],
            "beat_schedule": {
                name: {
                    "task": "chaos.run",
                    "schedule": period,
                    "args": [pace],
                    "pecker": {"timeout": timeout},
                }
                for name, (period, timeout, pace) in {**FAST, **SLOW}.items()
            },
        }

    def begin(self) -> None:
        """Every worker is ready, and each pool has begun a run."""
        start(
            [*self.workers.values()], lambda node: node.container.await_words("ready.")
        )
        self._impatient.start()
        eventually(lambda: self.pools() == set(POOLS), 30.0, "each pool runs")

    def pools(self) -> set[str]:
        """Return the pools that have begun runs."""
        rows = self.ask("select distinct split_part(worker, '@', 1) from chaos_runs")
        return {row[0] for row in rows}

    def began(self, pool: str) -> int:
        """Return how many runs the pool has begun."""
        query = "select count(*) from chaos_runs where worker like %s"
        return int(self.ask(query, [f"{pool}@%"])[0][0])

    def ask(self, query: str, params: list[str] | None = None) -> list[Any]:
        """Return the rows."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return connection.execute(query.encode(), params).fetchall()

    def _hand_out_again(self) -> None:
        """Do what kombu does every so often, often: messages out too long come back."""
        options = {"visibility_timeout": VISIBLE}
        with Connection(self.broker, transport_options=options) as connection:
            channel: Any = connection.default_channel
            while not self._over.wait(0.2):
                channel.qos.restore_visible(num=100, interval=1)

    def close(self) -> None:
        """All has ended."""
        self._over.set()
        if self._impatient.is_alive():
            self._impatient.join()
        for node in self.workers.values():
            node.teardown()


@pytest.fixture
def stand(own_servers: OwnServers, queue: str) -> Iterator[Stand]:
    """Give the workers, not yet started."""
    made = Stand(own_servers, queue)
    yield made
    made.close()


def strike(stand: Stand, chance: random.Random, *, aimed: bool) -> str:
    """Freeze a worker for a while, or kill it; aimed: right after it began a run."""
    pool = chance.choice([*stand.workers])
    node = stand.workers[pool]
    if aimed:
        before = stand.began(pool)
        until = SYSTEM.monotonic() + 3.0
        while stand.began(pool) == before and SYSTEM.monotonic() < until:
            pause(0.002)
    process: Any = node.container.process
    process.kill("SIGSTOP")
    pause(chance.choice((0.3, 1.2, 2.5)))
    process.kill("SIGCONT")
    return pool


def kill(stand: Stand, pool: str) -> CeleryTestWorker:
    """End a worker without a word, and start another in its place."""
    node = stand.workers[pool]
    process: Any = node.container.process
    process.kill("SIGKILL")
    process.wait()
    process.start()
    return node


def test_never_two_runs_at_a_time_and_no_stale_write(
    stand: Stand, seed: int, tell: Callable[[str, str], None]
) -> None:
    """Half of the blows are aimed at the moment after a start."""
    stand.begin()
    chance = random.Random(seed)
    until = SYSTEM.monotonic() + SECONDS
    kill(stand, chance.choice([*stand.workers]))
    blows = 0
    while SYSTEM.monotonic() < until:
        blows += 1
        strike(stand, chance, aimed=blows % 2 == 0)
        if blows == 3:
            kill(stand, chance.choice([*stand.workers]))
    ((refused,),) = stand.ask("select count(*) from chaos_refusals")
    ((runs, late),) = stand.ask(
        "select count(*), count(*) filter (where ended > deadline) from chaos_runs"
    )
    ((writes,),) = stand.ask("select count(*) from chaos_writes")
    logs = "".join(str(node.logs()) for node in stand.workers.values())
    repeated = logs.count("is not started: repeated")
    tell(
        f"runs, seed {seed}",
        f"{blows} freezes, {runs} runs ({late} past their deadline), {writes} guarded"
        f" writes, {refused} refused as stale, {repeated} redelivered runs refused",
    )
    assert stand.ask(OVERLAPS) == [], seed
    assert stand.ask(STALE) == [], seed
    assert stand.ask(TWICE) == [], seed
    assert repeated, "no message came twice: nothing was tried"

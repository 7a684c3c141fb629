"""Two workers import the airports; one is killed midway, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from os import environ
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg import sql
from rich.console import Console

from celery_pecker.kernel.clock import SYSTEM, new_id
from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import eventually
from celery_sharding import Progress, Stage
from example_project.airports.records import LAYERS
from example_project.demo.bars import Bars
from example_project.demo.stage import await_word, started
from example_project.pace import LOST_AFTER
from example_project.processes import ProcessContainer
from example_project.store import statements

WORKERS = ("importer-1", "importer-2")
MIDWAY = 0.4
"""Of the items: then one of the workers is killed."""
GLANCE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the import is played."""

    dsn: str
    redis: str
    key_prefix: str = ""


@dataclass(slots=True, kw_only=True)
class Import:
    """What was seen of it."""

    told: dict[str, Any] = field(default_factory=dict)
    """What the job returned."""
    rows: Sequence[int] = ()
    """In the tables, by layer of parents: countries, subdivisions, cities, airports."""
    done: int = 0
    failed: int = 0
    total: int = 0
    lasted: float = 0.0
    killed_at: float | None = None
    """Fraction of the items at which a worker was killed."""
    gap: float = 0.0
    """Seconds from the kill until the job was further."""


def play(place: Place, console: Console, tell: Callable[[str], None]) -> Import:
    """Return what was seen; tables and keys are those of this act alone."""
    schema = f"airports_{new_id().hex[:8]}"
    seen = Import()
    with ExitStack() as kept:
        folder = kept.enter_context(TemporaryDirectory(prefix="airports-"))
        _prepare(place, schema)
        env = {
            "AIRPORTS_DSN": place.dsn,
            "AIRPORTS_REDIS_URL": place.redis,
            "AIRPORTS_KEY_PREFIX": f"{place.key_prefix}{schema}:",
            "AIRPORTS_SCHEMA": schema,
            "AIRPORTS_HEARTBEATS": folder,
        }
        # What a killed worker leaves is removed with the folder: its pool's shared
        # memory (billiard) lies in a temporary folder of its own.
        theirs = {**env, "TMPDIR": folder}
        workers = [_worker(kept, name, theirs) for name in WORKERS]
        for worker in workers:
            await_word(worker, " ready.")
        environ.update(env)  # this process calls the task: it reads them too
        from example_project.airports.tasks import import_airports  # noqa: PLC0415

        tell("the airports of the world: dependencies become layers, layers shards")
        began = SYSTEM.monotonic()
        result = import_airports.delay()
        with Bars(console) as bars:
            _watch(result, seen, workers[-1], bars)
        seen.told = result.get(timeout=LOST_AFTER)
        seen.lasted = SYSTEM.monotonic() - began
        with psycopg.connect(place.dsn, autocommit=True) as connection:
            row = connection.execute(statements()["airports_counted"].encode())
            seen.rows = row.fetchone() or ()
            connection.execute(
                sql.SQL("drop schema {} cascade").format(sql.Identifier(schema))
            )
    return seen


def _watch(
    result: Any,
    seen: Import,
    victim: ProcessContainer,
    bars: Bars,
) -> None:
    """Look until the job has ended; kill a worker midway."""
    killed, behind = 0.0, 0

    def ended() -> bool:
        nonlocal killed, behind
        progress = result.progress
        _draw(bars, progress)
        ended_items = progress.done + progress.failed
        if not killed and progress.fraction >= MIDWAY:
            victim.kill()
            killed, behind = SYSTEM.monotonic(), ended_items
            seen.killed_at = progress.fraction
        elif killed and not seen.gap and ended_items > behind:
            seen.gap = SYSTEM.monotonic() - killed
        seen.done, seen.failed = progress.done, progress.failed
        seen.total = progress.total
        return bool(progress.stage is Stage.ENDED)

    eventually(ended, LOST_AFTER, "the airports are imported", interval=GLANCE)


def _draw(bars: Bars, progress: Progress) -> None:
    """Draw a bar for each layer."""
    for layer in progress.layers:
        bars.draw(
            f"layer {layer.layer + 1}",
            layer.done + layer.failed,
            layer.total,
            f"{layer.failed} bad" if layer.failed else "",
        )


def _prepare(place: Place, schema: str) -> None:
    migrate(place.dsn, schema=schema)
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        for table in reversed(LAYERS):
            connection.execute(
                sql.SQL("drop table if exists {}").format(sql.Identifier(table))
            )
        connection.execute(statements()["airports_schema"].encode())


def _worker(kept: ExitStack, name: str, env: dict[str, str]) -> ProcessContainer:
    command = (
        *("-m", "celery", "-A", "example_project.airports.app"),
        *("worker", "-n", f"{name}@%h", "-c", "2", "-l", "INFO"),
        *("--without-gossip", "--without-mingle"),
    )
    return started(kept, name, command, env)

"""People edit while schedulers are killed and frozen, and the database restarts.

What a scheduler sent tells what it knew: its messages in the order of their epochs are
the order of the claims, and no claim may know less than one before it. Two write at
once: of what both have written the version says which came later.
"""

from __future__ import annotations

import base64
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from celery import Celery

from celery_pecker.kernel.clock import pause
from celery_pecker.kernel.errors import (
    DatabaseUnavailable,
    SlotUnderway,
    VersionConflict,
)
from celery_pecker.schedules import Schedules
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, eventually
from tests.nodes import READY, BeatNode, beat

pytestmark = pytest.mark.chaos

ROOT = Path(__file__).parents[2]
NAMES = ("a", "b", "c")
EACH_SECOND = {"cron": "* * * * * *", "zone": "Europe/Paris"}
SCHEDULES = (0.2, 0.3, 0.5, 1, EACH_SECOND, {"every": 0.5, "jitter": 0.2})
"""Of several kinds: a grid, a calendar, instants that are moved."""
CALM = 8
"""Slots of each name that are looked at when all is over."""
Message = dict[str, Any]


class Stage:
    """Two schedulers, the servers they need, and who edits."""

    def __init__(
        self, postgres: EmbeddedPostgres, broker: EmbeddedRedis, seed: int
    ) -> None:
        self.postgres = postgres
        self.client = redis.Redis.from_url(broker.url, decode_responses=True)
        self.dice = random.Random(seed)
        self.app = Celery("tasks", broker="memory://", set_as_current=False)
        self.app.conf.update(pecker_dsn=postgres.dsn)
        self.schedules = Schedules(self.app)
        env = {
            "PECKER_TEST_QUEUE": "edits",
            "PECKER_TEST_BROKER": broker.url,
            "PECKER_TEST_BEAT_DSN": postgres.dsn,
        }
        self.beats: list[BeatNode] = [
            beat("tests.integration.beat.app", name=f"beat-{n}", cwd=ROOT, env=env)
            for n in range(2)
        ]
        for one in self.beats:
            one.process.start()
        for one in self.beats:
            one.container.await_words(READY)
        self.numbers, self.renamed = count(1), 0
        self.versions: dict[int, int] = {}
        """Of each edit that is known to be stored: the version that it made."""
        self.second = Writer(self)
        self.called = {name: name for name in NAMES}
        """What each is called by now."""

    def close(self) -> None:
        """Leave nothing."""
        self.second.stop()
        for one in self.beats:
            one.teardown()
        self.schedules.close()
        self.client.close()

    def edit(self, name: str, schedule: Any) -> None:
        """Store a definition, whoever else has edited it."""
        eventually(
            lambda: self.store(self.schedules, name, schedule),
            30,
            ignoring=(DatabaseUnavailable,),
        )

    def store(
        self, schedules: Schedules, name: str, schedule: Any, **fields: Any
    ) -> bool:
        """Store a definition with a number that no other try has.

        One without an answer may be stored: its version is not known.
        """
        number = next(self.numbers)
        row = schedules.set(
            self.called[name],
            task="tasks.test",
            schedule=schedule,
            args=[number],
            paused=False,
            **fields,
        )
        self.versions[number] = row.version
        return True

    def rename(self, name: str) -> None:
        """Give it a name that it never had, or its first one; no other is its own."""
        old = self.called[name]
        new = f"{name}-{self.renamed}" if old == name else name

        def renamed() -> bool:
            if self.schedules.get(old) is not None:
                self.schedules.rename(old, new)
            return True

        eventually(renamed, 60, ignoring=(DatabaseUnavailable, SlotUnderway))
        if self.schedules.get(new) is not None:  # else it was removed before
            self.called[name] = new
            self.renamed += 1

    def missed(self) -> int:
        """Return how many slots passed as the misfire policy names it."""
        with psycopg.connect(self.postgres.dsn) as connection:
            [(count,)] = connection.execute("select sum(missed) from pecker_tasks")
        return int(count)

    def act(self) -> None:
        """Edit, and now and then break something; one scheduler always lives."""
        name = self.dice.choice(NAMES)
        what = self.dice.random()
        if what < 0.4:
            self.edit(name, self.dice.choice(SCHEDULES))
        elif what < 0.55:
            self.rename(name)
        elif what < 0.62:
            self.schedules.remove(self.called[name])
        elif what < 0.7:
            self.edit(name, 0.3)
            self.schedules.pause(self.called[name])
        elif what < 0.8:
            victim = self.dice.choice(self.beats).process
            victim.kill()
            victim.restart()
        elif what < 0.9:
            victim = self.dice.choice(self.beats).process
            victim.kill("SIGSTOP")
            self.edit(name, 0.2)
            pause(self.dice.random())
            victim.kill("SIGCONT")
        elif what > 0.95:
            self.postgres.restart()
        pause(self.dice.random() / 2)

    def messages(self) -> list[Message]:
        """Return what was sent of stored schedules, in the order of the claims."""
        found = []
        for text in self.client.lrange("edits", 0, -1):
            message = json.loads(text)
            header = message["headers"].get("pecker") or {}
            [name, *_] = str(header.get("name")).split("-")
            if name in NAMES:
                [args, *_] = json.loads(base64.b64decode(message["body"]))
                found.append({**header, "name": name, "number": args[0]})
        return sorted(found, key=lambda one: one["epoch"])


class Writer(threading.Thread):
    """Edits the same schedules all the while, each for the version that it has read."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(name="second writer", daemon=True)
        self._stage = stage
        self._dice = random.Random(stage.dice.random())
        self._stopped = threading.Event()
        self.stored = 0
        self.failed: Exception | None = None

    def run(self) -> None:
        """Edit until the end."""
        schedules = Schedules(self._stage.app)
        try:
            while not self._stopped.wait(self._dice.random() / 4):
                with suppress(DatabaseUnavailable, VersionConflict):
                    self._edit(schedules)
        except Exception as error:  # noqa: BLE001  # the test says what it was
            self.failed = error
        finally:
            schedules.close()

    def _edit(self, schedules: Schedules) -> None:
        name, when = self._dice.choice(NAMES), self._dice.choice(SCHEDULES)
        row = schedules.get(self._stage.called[name])
        if row is not None:  # else it is removed, or has another name by now
            pause(self._dice.random() / 20)
            self._stage.store(schedules, name, when, version=row.version)
            self.stored += 1

    def stop(self) -> None:
        """Leave off, after the edit in hand."""
        self._stopped.set()
        if self.is_alive():
            self.join(60.0)


@pytest.fixture
def stage(
    own_postgres: Callable[..., EmbeddedPostgres],
    own_redis: Callable[..., EmbeddedRedis],
) -> Iterator[Callable[[int], Stage]]:
    """Give a function that sets the stage for a seed."""
    made: list[Stage] = []

    def make(seed: int) -> Stage:
        made.append(Stage(own_postgres(migrated=True), own_redis(fast=True), seed))
        return made[-1]

    yield make
    for one in made:
        one.close()


def _lacking(sent: list[Message], name: str) -> int:
    """Return how many slots of a grid of half a second lie between those sent."""
    dues = sorted(
        datetime.fromisoformat(m["due_at"])
        for m in sent
        if m["name"] == name and not m.get("asked")
    )
    grid = (dues[-1] - dues[0]).total_seconds() / 0.5
    assert grid == round(grid), "slots beside the grid"
    return round(grid) + 1 - len(dues)


@pytest.mark.parametrize(
    ("actions", "seed"),
    [(25, 1), *(pytest.param(120, n, marks=pytest.mark.soak) for n in range(2, 6))],
)
def test_no_slot_doubles_and_no_claim_knows_less_than_one_before(
    stage: Callable[[int], Stage], actions: int, seed: int
) -> None:
    """And when all is over, each slot of what was stored last comes."""
    one = stage(seed)
    for name in NAMES:
        one.edit(name, 0.3)
    one.second.start()
    for _ in range(actions):
        one.act()
    one.second.stop()
    assert one.second.failed is None
    assert one.renamed
    assert one.second.stored
    last, missed = next(one.numbers), one.missed()
    for name in NAMES:
        one.edit(name, 0.5)

    def calm() -> bool:
        found = [m["name"] for m in one.messages() if m["number"] > last]
        return all(found.count(name) >= CALM for name in NAMES)

    eventually(calm, 60)
    sent = one.messages()
    slots = [(m["name"], m["due_at"]) for m in sent if not m.get("asked")]
    assert len(slots) == len({*slots}), "a slot was sent twice, by whatever name"
    lacking = sum(_lacking([m for m in sent if m["number"] > last], n) for n in NAMES)
    assert lacking <= one.missed() - missed, "a slot that nobody ran or counted"
    for name in NAMES:
        versions = [
            one.versions[m["number"]]
            for m in sent
            if m["name"] == name and m["number"] in one.versions
        ]
        assert versions == sorted(versions), "an older definition after a newer one"
        assert len({*versions}) > 1

"""Celery's documented schedules run unchanged, and send what Celery's beat sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from celery.beat import PersistentScheduler

from celery_pecker.kernel.clock import new_id
from celery_pecker.schedules.engine.model import task_id
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import entries_of
from tests.integration.beat.app import LONG_AGO, app
from tests.nodes import READY, BeatNode, beat
from tests.services import PostgresStand, RedisStand

pytestmark = pytest.mark.cluster

APP = "tests.integration.beat.app"
ROOT = Path(__file__).parents[3]
Message = dict[str, Any]


def names_in_beat(folder: Path) -> set[str]:
    """Return what Celery's own scheduler has after it was set up."""
    app.finalize()
    scheduler = PersistentScheduler(app, schedule_filename=str(folder / "beat"))
    try:
        return {*scheduler.schedule}
    finally:
        scheduler.close()


class Sent:
    """What one scheduler put on the wire."""

    def __init__(self, client: redis.Redis, queue: str) -> None:
        self._redis = client
        self.queue = queue
        self.messages: list[Message] = []
        """One of each entry, where the entry can be told by our header."""
        self._slots: set[str] = set()

    def complete(self, count: int) -> bool:
        """Whether so many came; what comes after them is left alone."""
        return len(self.messages) >= count or self._look() >= count

    def _look(self) -> int:
        for key in self._redis.scan_iter(f"{self.queue}*"):
            while (text := self._redis.rpop(key)) is not None:
                message = json.loads(text)  # type: ignore[arg-type]
                message["key"] = key.decode()
                if self._is_first(message):
                    self.messages.append(message)
        return len(self.messages)

    def _is_first(self, message: Message) -> bool:
        # A minute may end meanwhile, and what runs each minute is sent twice
        slot = message["headers"].get("pecker")
        if slot is None:
            return True
        first = slot["name"] not in self._slots
        self._slots.add(slot["name"])
        return first

    def alike(self) -> list[str]:
        """Return the messages without what differs from send to send, in order."""
        return sorted(
            json.dumps(self._plain(message), sort_keys=True).replace(
                self.queue, "QUEUE"
            )
            for message in self.messages
        )

    def _plain(self, message: Message) -> Message:
        found: Message = json.loads(json.dumps(message))
        for key in ("id", "root_id", "origin"):
            assert found["headers"].pop(key)
        found["headers"].pop("pecker", None)
        found["headers"]["expires"] = bool(found["headers"]["expires"])
        for key in ("correlation_id", "delivery_tag", "reply_to"):
            assert found["properties"].pop(key)
        return found


@pytest.fixture(scope="module")
def sent(
    postgres_server: PostgresStand,
    redis_server: RedisStand,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Sent, Sent, str]]:
    """Both schedulers ran the app, all of whose entries last ran long ago."""
    names = names_in_beat(tmp_path_factory.mktemp("beat"))
    nodes: list[BeatNode] = []
    queue = f"pecker-test-{new_id().hex[:8]}"
    with (
        postgres_server.fresh(migrated=True) as dsn,
        redis.Redis.from_url(redis_server.url) as client,
    ):
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "insert into pecker_tasks (name, executed_at)"
                " select name, now() - %s from unnest(%s::text[]) as name",
                [LONG_AGO, [*names]],
            )
        ours, theirs = Sent(client, f"{queue}-a"), Sent(client, f"{queue}-b")
        for one, scheduler in ((ours, "pecker"), (theirs, f"{APP}:LongAgo")):
            env = {
                "PECKER_TEST_QUEUE": one.queue,
                "PECKER_TEST_BROKER": redis_server.url,
                "PECKER_TEST_BEAT_DSN": dsn,
            }
            node = beat(APP, name=scheduler[:6], cwd=ROOT, env=env, scheduler=scheduler)
            node.process.start()
            nodes.append(node)
        try:
            nodes[0].container.await_words(READY)
            count = len(names)
            eventually(
                lambda: (
                    all([one.complete(count) for one in (ours, theirs)])  # noqa: C419  # both look
                    or any(node.process.exit_code is not None for node in nodes)
                ),
                30,
            )
            yield ours, theirs, dsn
        except AssertionError as error:
            for node in nodes:
                error.add_note(node.process.life_log()[-4000:])
            raise
        finally:
            for node in nodes:
                node.teardown()


def test_the_same_messages_are_sent_for_every_documented_schedule(
    sent: tuple[Sent, Sent, str],
) -> None:
    """Task, arguments, options, queue, priority, headers: byte for byte but for ids."""
    ours, theirs, _ = sent
    assert ours.alike() == theirs.alike()
    assert len({*ours.alike()}) > 30


def test_the_entries_have_the_names_that_they_have_in_beat(
    sent: tuple[Sent, Sent, str], tmp_path: Path
) -> None:
    """Also those that Celery names: by their signature, and its own clean-up."""
    ours, _, dsn = sent
    names = names_in_beat(tmp_path)
    assert {
        "celery.backend_cleanup",
        "tasks.test('world')",
    } <= names
    assert {message["headers"]["pecker"]["name"] for message in ours.messages} == names
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "select name, missed > 0 from pecker_tasks"
        ).fetchall()
    assert {name for name, _ in rows} == names


def test_each_message_names_its_slot(sent: tuple[Sent, Sent, str]) -> None:
    """Protocol 2, plus one header; the id is the slot's, whoever sends it (I5)."""
    ours, theirs, dsn = sent
    with psycopg.connect(dsn) as connection:
        rows = {
            name: rest
            for name, *rest in connection.execute(
                "select name, (extract(epoch from executed_at) * 1000000)::bigint, era"
                " from pecker_tasks"
            )
        }
    first = [message["headers"] for message in ours.messages]
    told = 0
    for header in first:
        slot = header["pecker"]
        name = slot["name"]
        assert {*slot} == {"name", "due_at", "era", "epoch", "deadline"}
        due_us, era = rows[name]
        if header["id"] == task_id("public", name, due_us, era):
            told += 1
    assert told > len(first) / 2, "most have not come due again since"
    assert all("pecker" not in message["headers"] for message in theirs.messages)


def test_lazy_arguments_are_evaluated(sent: tuple[Sent, Sent, str]) -> None:
    """When the message is sent, not when the schedule is read."""
    bodies = [
        message["headers"]["argsrepr"] + message["headers"]["kwargsrepr"]
        for message in sent[0].messages
    ]
    assert "('ARGUMENT', 'plain'){'current': {'evaluated': True}}" in [
        body.replace("[", "(").replace("]", ")") for body in bodies
    ]


def test_the_documented_schedules_are_read_as_they_are(tmp_path: Path) -> None:
    """Those that are intervals lie on a grid; the rest is asked in the app's zone."""
    names_in_beat(tmp_path)
    found = {entry.name: entry for entry in entries_of(app)}
    grids = {name: entry.period_us for name, entry in found.items() if entry.period_us}
    assert grids["add every 10"] == 10_000_000
    assert grids["timedelta"] == grids["add-every-30-seconds"] == 30_000_000
    assert "relative" not in grids
    assert "add-at-melbourne-sunset" not in grids
    assert not any(name.startswith("crontab") for name in grids)

"""Two scheduler processes run what people store, change and remove meanwhile."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery

from celery_pecker.schedules import Schedules
from celery_pecker.testing import eventually
from tests.nodes import READY, BeatNode, beat

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]


@pytest.fixture
def nodes(redis_url: str, queue_name: str, dsn: str) -> Iterator[list[BeatNode]]:
    """Give two schedulers that are ready."""
    env = {
        "PECKER_TEST_QUEUE": queue_name,
        "PECKER_TEST_BROKER": redis_url,
        "PECKER_TEST_BEAT_DSN": dsn,
    }
    found = [
        beat("tests.integration.beat.app", name=f"beat-{n}", cwd=ROOT, env=env)
        for n in range(2)
    ]
    for node in found:
        node.process.start()
    for node in found:
        node.container.await_words(READY)
    yield found
    for node in found:
        node.teardown()


def test_edits_act_on_running_schedulers(
    nodes: list[BeatNode], redis_url: str, queue_name: str, dsn: str
) -> None:
    """A new one, other arguments, another queue, removed; each slot came once."""
    app = Celery("tasks", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn=dsn)
    schedules = Schedules(app)
    slots: list[str] = []
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:

        def take(queue: str) -> list[list[Any]]:
            """Return the arguments of what came."""
            found = []
            while text := client.rpop(queue):
                message = json.loads(str(text))
                header = message["headers"]["pecker"]
                if header["name"] == "stored":
                    slots.append(header["due_at"])
                    found.append(json.loads(base64.b64decode(message["body"]))[0])
            return found

        schedules.set("stored", task="tasks.test", schedule=0.5, args=[1])
        eventually(lambda: [1] in take(queue_name), 30)
        schedules.set("stored", task="tasks.test", schedule=0.5, args=[2])
        eventually(lambda: [2] in take(queue_name), 30)
        assert [1] not in take(queue_name)
        other = f"{queue_name}-own"
        schedules.set(
            "stored", task="tasks.test", schedule=0.2, options={"queue": other}
        )
        eventually(lambda: len(take(other)) > 0, 30)
        for node in nodes[:1]:
            node.process.kill()
        eventually(lambda: len(take(other)) > 0, 30)
        assert schedules.remove("stored")
        row = schedules.set("next", task="tasks.test", schedule=0.2)
        eventually(lambda: client.llen(queue_name) > 0, 30)
        assert row.version == 1
        take(queue_name)
        take(other)
        assert len(slots) == len({*slots})
    schedules.close()

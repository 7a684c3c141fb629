"""Sharded jobs that hang ring by their codes: in real processes, not by rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from celery_pecker.testing import eventually
from celery_sharding.ledger import at
from example_project.processes import ProcessContainer
from tests.integration.alarms import hanging_app as hanging
from tests.integration.alarms.scene import WITHIN, Scene
from tests.integration.sharding.disconnect import disconnect
from tests.nodes import READY

pytestmark = pytest.mark.cluster
WORKS = "ready."


class Hanging:
    """A scheduler that looks, a worker, and a job that hangs in it."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self.scene = scene
        self._folder = folder
        beat = scene.start("beat", "beat", "-S", "pecker", "--pidfile=", "-lINFO")
        scene.ready(beat, READY)
        self.worker = self.work()
        app = hanging.make(scene.conf)
        self.job = app.tasks["hangs"].delay([*range(hanging.ITEMS)])
        at(app).close()
        disconnect(app)
        eventually((folder / "hangs").exists, WITHIN, "an item hangs")

    def work(self) -> ProcessContainer:
        """Start a worker."""
        queue = self.scene.queue
        options = ("-P", "threads", "-c", "1", "-Q", queue, "-n", "w@{id}")
        worker = self.scene.start("worker", "worker", *options, "-l", "INFO")
        self.scene.ready(worker, WORKS)
        return worker

    def go_on(self) -> None:
        """Let the item end."""
        (self._folder / "go").touch()

    def rings(self, *words: str) -> None:
        """Wait until it rings by these words."""
        self.scene.until("job_hangs", f"hangs {self.job.id}", *words)

    def ends(self) -> None:
        """Let it go on; wait until all has recovered."""
        self.go_on()
        for rule in ("job_hangs", "job_late"):
            self.scene.until(rule, self.job.id, event="recovered")


@pytest.fixture
def hung(
    postgres_server: Any, redis_server: Any, queue_name: str, tmp_path: Path
) -> Iterator[Hanging]:
    """Give a job that hangs in the middle."""
    with ExitStack() as stack:
        conf: dict[str, Any] = {
            "broker_url": redis_server.url,
            "result_backend": redis_server.url,
            "task_default_queue": queue_name,
            "pecker_dsn": stack.enter_context(postgres_server.fresh(migrated=True)),
            "hanging_folder": str(tmp_path),
        }
        scene = Scene(hanging, conf)
        stack.callback(scene.close)
        yield Hanging(scene, tmp_path)


def test_shards_that_wait_behind_an_item_that_hangs(hung: Hanging) -> None:
    """402: they were claimed with it, and are not begun. The job is late by then."""
    hung.rings("of its shards are claimed, and not begun (402)")
    hung.scene.until("job_late", hung.job.id, "it has not ended: it is sharding")
    hung.ends()


def test_shards_whose_worker_was_killed(hung: Hanging) -> None:
    """403: nobody sweeps either, as the only worker is gone."""
    hung.worker.kill("SIGKILL")
    hung.rings("of its shards are claimed by a worker that is gone (403)")
    hung.go_on()
    hung.work()
    hung.ends()


def test_shards_whose_worker_was_stopped(hung: Hanging) -> None:
    """401: it gave back what it had not begun, and nobody consumes the queue."""
    hung.worker.kill("SIGTERM")
    hung.worker.wait(WITHIN)
    hung.rings("of its shards are ready, and no worker claims them (401)")
    hung.work()
    hung.ends()

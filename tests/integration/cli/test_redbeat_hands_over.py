"""A RedBeat that runs is imported, stopped, followed: no slot twice, none missing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from celery_pecker.kernel.clock import from_us
from celery_pecker.surfaces.cli.other_schedulers.redbeat import redbeat
from celery_pecker.testing import eventually
from celery_pecker.testing.manual import ManualClock
from tests.command_line import Line
from tests.integration.cli.other_schedulers_stores import play, scene
from tests.integration.cli.test_change_over import due
from tests.integration.cli.test_import_schedules import BEGUN
from tests.integration.cli.test_other_schedulers_read import need
from tests.integration.schedules.stored import follower

HALF, HOUR = 500_000, 3_600_000_000
PROJ = """
from celery import Celery
app = Celery("proj", broker={url!r})
app.conf.update(task_default_queue={queue!r}, redbeat_redis_url={url!r},
    beat_max_loop_interval=0.1, redbeat_lock_timeout=5)
"""
STORE = """
store("quick", c.schedule(0.5), task="proj.work")
store("each hour", c.schedule(3600), ago=1800, task="proj.work")
"""
NOTE = "note: RedBeat runs"


def ran_last(url: str) -> dict[str, int]:
    """Return when RedBeat ran each of its schedules last."""
    return {one.name: one.last_us or 0 for one in redbeat(url)}


@pytest.mark.slow
def test_what_a_running_redbeat_sends_is_not_sent_again_and_nothing_is_missed(
    tmp_path: Path, dsn: str, redis_url: str, queue_name: str, line: Line
) -> None:
    """Imported while it runs, and once more when it has stopped."""
    need("redbeat")
    (tmp_path / "proj.py").write_text(PROJ.format(url=redis_url, queue=queue_name))
    play(tmp_path, scene("redbeat", dsn=dsn, redis_url=redis_url), BEGUN, STORE)
    words = ("import", "--schedules", "redbeat", redis_url)
    beat = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.lean", "-A", "proj", "beat", "--pidfile="),
            *("-S", "redbeat.RedBeatScheduler"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    broker = redis.Redis.from_url(redis_url)
    try:
        eventually(lambda: broker.llen(queue_name) >= 3, 60.0, "RedBeat sends")
        early = line(*words)
        assert (early.exit_code, NOTE in early.stderr) == (0, True)
        before = ran_last(redis_url)["quick"]
        eventually(lambda: ran_last(redis_url)["quick"] > before, 60.0, "it goes on")
    finally:
        beat.send_signal(signal.SIGTERM)
        beat.wait(60.0)
        broker.close()
    last = ran_last(redis_url)
    late = line(*words)
    assert NOTE not in late.stderr
    assert "0 new, 0 changed, 2 same, 1 code" in late.stdout
    start = from_us(last["quick"]) + timedelta(seconds=2.2)
    with follower(dsn, ManualClock(start)) as (replica, _):
        sent = due([*replica.publisher.sent, *replica.pass_time(3)])
    almost = from_us(last["each hour"] + HOUR) - timedelta(seconds=1)
    with follower(dsn, ManualClock(almost)) as (replica, _):
        rest = due(replica.pass_time(2))["each hour"]
    assert {*sent} == {"quick"}, "the hour is not over"
    assert sent["quick"][0] - last["quick"] == 4 * HALF, "of what passed the latest"
    assert {b - a for a, b in pairwise(sent["quick"])} == {HALF}
    assert rest == [last["each hour"] + HOUR]

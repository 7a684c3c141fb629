"""A process that becomes instrumented takes the slow lane at once, and is seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.contract.publisher.instrumented import WAYS
from tests.told import telling

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("instrumented.py")


@pytest.mark.parametrize("what", WAYS)
def test_whoever_looks_at_messages_sees_the_next_batch(
    what: str, redis_url: str
) -> None:
    """The lane changes between two batches, and all messages of both arrive."""
    said = subprocess.run(
        [sys.executable, PROGRAM],
        env={**telling(redis_url, what), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    before, after, reason, seen = said.stdout.split("|")

    assert (before, after) == ("fast", "slow"), reason
    if what == "task_send_sent_event":
        assert what in reason
    else:
        assert int(seen) == 2, "each of the two entries was seen"
    with redis.Redis.from_url(redis_url) as client:
        assert client.llen("celery") == 4

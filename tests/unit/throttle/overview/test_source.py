"""Where traffic is counted, as people may read it."""

from __future__ import annotations

import pytest

from throttle.overview import where
from throttle.settings import Settings


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://redis:6379/1", "redis://redis:6379/1"),
        ("redis://:secret@redis:6379/1", "redis://redis:6379/1"),
        ("rediss://anna:secret@redis/1?password=secret", "rediss://redis/1"),
        ("redis://anna:sec@ret@redis/1", "redis://redis/1"),
        ("unix://:secret@/run/redis.sock?db=2", "unix:///run/redis.sock"),
    ],
)
def test_no_password_is_shown(url: str, shown: str) -> None:
    """On a terminal that somebody shares, on a page that many may see."""
    conf = {"throttle_redis_url": url, "throttle_limits": {"main": 1}}
    assert where(Settings.read(conf)) == shown

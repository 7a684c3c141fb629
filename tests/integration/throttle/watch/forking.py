"""A process that watches, forks a child as a pool does, and is killed.

For test_watching. The child lives until its standard input ends.
"""

from __future__ import annotations

import os
import signal
import sys

from tests.told import told
from throttle.settings import Settings
from throttle.store.redis import RedisStore
from throttle.watch import Watcher

if __name__ == "__main__":
    redis_url, dsn = told()
    limit = {"operations": 1_000, "watch": {"dsn": dsn, "active": 50}}
    settings = Settings.read(
        {"throttle_redis_url": redis_url, "throttle_limits": {"main": limit}}
    )
    store = RedisStore(redis_url, timeout=2.0)
    watcher = Watcher(settings, settings.limits["main"], store, "parent")
    watcher.round()
    if os.fork():
        print("forked" if watcher.elected else "not elected", flush=True)  # noqa: T201
        signal.pause()
    sys.stdin.read()
    os._exit(0)

"""A process that watches one PostgreSQL, until it is ended: for test_throttle_watch."""

from __future__ import annotations

import signal

from tests.told import told
from throttle.settings import Settings
from throttle.store.redis import RedisStore
from throttle.watch import start

if __name__ == "__main__":
    ending = {signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)  # in its threads too
    redis_url, dsn, name = told()
    limit = {"operations": 1_000, "watch": {"dsn": dsn, "active": 0.5}}
    settings = Settings.read(
        {
            "throttle_redis_url": redis_url,
            "throttle_estimator": "fast",
            "throttle_limits": {"main": limit},
        }
    )
    store = RedisStore(redis_url)
    watching = start(settings, store, name)
    print("ready", flush=True)  # noqa: T201 — the test waits for it
    signal.sigwait(ending)
    watching.stop()
    store.close()

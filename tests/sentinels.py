"""A Redis with a replica, and the Sentinel that names the primary."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from celery_pecker.testing import EmbeddedRedis, eventually, free_port
from celery_pecker.testing.binaries import redis_server as program

MASTER = "main"
"""The name by which a Sentinel knows the primary."""


def follow(replica: EmbeddedRedis, primary: EmbeddedRedis) -> None:
    """Have a server copy another one, and wait until it does."""
    with redis.Redis.from_url(replica.url) as client:
        client.config_set("masterauth", primary.password)
        client.config_set("requirepass", primary.password)
        replica.password = primary.password
    with redis.Redis.from_url(replica.url) as client:
        client.replicaof("127.0.0.1", primary.port)
        eventually(lambda: client.info("replication")["master_link_status"] == "up")


@contextmanager
def sentinel(primary: EmbeddedRedis, folder: Path) -> Iterator[int]:
    """Give the port of a Sentinel of a primary with one replica; it decides quickly."""
    port = free_port()
    settings = folder / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor {MASTER} 127.0.0.1 {primary.port} 1\n"
        f"sentinel auth-pass {MASTER} {primary.password}\n"
        f"sentinel down-after-milliseconds {MASTER} 300\n"
        f"sentinel failover-timeout {MASTER} 3000\n"
    )
    process = subprocess.Popen(
        [program(), settings, "--sentinel"], stdout=subprocess.DEVNULL
    )
    client = redis.Redis(port=port)
    try:
        eventually(
            lambda: len(client.sentinel_slaves(MASTER)) == 1,
            ignoring=(redis.RedisError,),
        )
        yield port
    finally:
        client.close()
        process.kill()
        process.wait()

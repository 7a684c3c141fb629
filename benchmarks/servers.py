"""The servers that everything is measured on: real ones, with fsync on.

Embedded by default; those of PECKER_TEST_DSN, PECKER_TEST_REDIS_URL and
PECKER_TEST_AMQP_URL where they are given. RabbitMQ is measured if it is given or
answers on this machine.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil
import psycopg
import redis
from kombu import Connection

from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis

LOCAL_AMQP = "amqp://guest:guest@127.0.0.1:5672//"


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Where the servers are, and what there is to say of them."""

    dsn: str
    redis: str
    amqp: str | None
    facts: dict[str, str] = field(default_factory=dict)
    server_pids: dict[str, int] = field(default_factory=dict)
    """Of servers that are our children: their CPU time can be told from others'."""
    postgres_log: Path | None = None

    def broker(self, name: str) -> str | None:
        """Return the URL of `redis` or `rabbitmq`, if it is there."""
        return {"redis": self.redis, "rabbitmq": self.amqp}[name]


@contextmanager
def start_servers() -> Iterator[Servers]:
    """Give the servers; embedded ones are gone at the end."""
    with ExitStack() as stack:
        pids: dict[str, int] = {}
        log: Path | None = None
        dsn = os.environ.get("PECKER_TEST_DSN", "")
        url = os.environ.get("PECKER_TEST_REDIS_URL", "")
        if not dsn:
            postgres = stack.enter_context(EmbeddedPostgres())
            dsn, pids["postgresql"] = postgres.dsn, postgres.pid
            log = postgres.directory / "log"
        if not url:
            cache = stack.enter_context(EmbeddedRedis())
            url, pids["redis"] = cache.url, cache.pid
        amqp = _amqp()
        yield Servers(
            dsn=dsn,
            redis=url,
            amqp=amqp,
            facts=_facts(dsn, url, amqp),
            server_pids=pids,
            postgres_log=log,
        )


def _amqp() -> str | None:
    url = os.environ.get("PECKER_TEST_AMQP_URL", "") or LOCAL_AMQP
    with suppress(OSError), Connection(url, connect_timeout=2) as connection:
        connection.connect()
        return url
    return None


def _facts(dsn: str, url: str, amqp: str | None) -> dict[str, str]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        shown = {
            name: str(connection.execute(f"show {name}").fetchone()[0])  # type: ignore[index]
            for name in ("server_version", "fsync", "synchronous_commit")
        }
    with redis.Redis.from_url(url) as client:
        server = client.info("server")
        kept = client.config_get("append*")
    facts = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {psutil.cpu_count()} cores,"
        f" {psutil.virtual_memory().total / 2**30:.0f} GB, {platform.system()}",
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": ", ".join(
            f"{name} {version(name)}"
            for name in ("celery-pecker", "celery", "kombu", "redis", "psycopg")
        ),
        "postgresql": f"{shown['server_version']}, fsync {shown['fsync']},"
        f" synchronous_commit {shown['synchronous_commit']}",
        "redis": f"{server['redis_version']}, appendonly {kept.get('appendonly')}"
        f" ({kept.get('appendfsync')})",
    }
    if amqp is not None:
        with Connection(amqp) as connection:
            connection.connect()
            said = connection.connection.server_properties.get("version", "?")
        facts["rabbitmq"] = f"{said}, classic queue, persistent messages"
    return facts


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return "?"
    done = subprocess.run(
        [git, "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "?"


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

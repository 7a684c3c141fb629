"""The servers under the demo: its own, or those that the environment names."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Protocol, Self

import psycopg
import redis
from psycopg import conninfo, sql

from celery_pecker.kernel.clock import SYSTEM, new_id, pause
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis
from example_project.demo.report import Cause

BETWEEN_CUTS = 0.05


class Postgres(Protocol):
    """A database for the time of a demo."""

    dsn: str
    restarting: str
    """What `restart` does, in words."""
    cause: Cause

    def restart(self, outage: float) -> None:
        """Every connection is cut; after so many seconds the server answers again."""
        ...

    def close(self) -> None:
        """Nothing is left of the demo."""
        ...


class Redis(Protocol):
    """A broker for the time of a demo."""

    url: str
    key_prefix: str
    ours: bool
    """Whether it may be stopped."""

    def stop(self) -> None:
        """It does not answer."""
        ...

    def start(self) -> None:
        """It answers again."""
        ...

    def close(self) -> None:
        """Nothing is left of the demo."""
        ...


class Servers:
    """A PostgreSQL database and a Redis; gone when the block is left."""

    postgres: Postgres
    redis: Redis

    def __enter__(self) -> Self:
        """Both answer."""
        dsn = os.environ.get("PECKER_TEST_DSN")
        url = os.environ.get("PECKER_TEST_REDIS_URL")
        with ExitStack() as kept:
            self.redis = GivenRedis(url) if url else OwnRedis()
            kept.callback(self.redis.close)
            self.postgres = GivenPostgres(dsn) if dsn else OwnPostgres()
            kept.callback(self.postgres.close)
            self._kept = kept.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left."""
        self._kept.close()


class OwnPostgres:
    """A child of this process."""

    restarting = "PostgreSQL restarts"
    cause = Cause.RESTART

    def __init__(self) -> None:
        self._server = EmbeddedPostgres().start()
        self.dsn = self._server.dsn

    def restart(self, outage: float) -> None:
        """PostgreSQL was stopped in good order and started again."""
        self._server.stop()
        pause(outage)
        self._server.start()

    def close(self) -> None:
        """The server ended and its folder is removed."""
        self._server.close()


class OwnRedis:
    """A child of this process."""

    key_prefix = ""
    ours = True

    def __init__(self) -> None:
        self._server = EmbeddedRedis().start()
        self.url = self._server.url

    def stop(self) -> None:
        """The server was stopped in good order."""
        self._server.stop()

    def start(self) -> None:
        """The server runs, with what it held."""
        self._server.start()

    def close(self) -> None:
        """The server ended and its folder is removed."""
        self._server.close()


class GivenPostgres:
    """A database of the demo's own on somebody's server.

    Others use that server, so it is not restarted: all connections of the demo are cut.
    """

    restarting = "all connections to PostgreSQL are cut (the server is not the demo's)"
    cause = Cause.CUT

    def __init__(self, dsn: str) -> None:
        self._admin = dsn
        self._database = f"meetings_{new_id().hex[:12]}"
        self._execute(sql.SQL("create database {}").format(self._name))
        self.dsn = conninfo.make_conninfo(dsn, dbname=self._database)

    def restart(self, outage: float) -> None:
        """Every connection to the demo's database was cut, again and again."""
        until = SYSTEM.monotonic() + outage
        self._cut()
        while SYSTEM.monotonic() < until:
            pause(BETWEEN_CUTS)
            self._cut()

    def _cut(self) -> None:
        self._execute(
            sql.SQL(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = {}"
            ).format(sql.Literal(self._database))
        )

    def close(self) -> None:
        """The demo's database is gone."""
        self._execute(
            sql.SQL("drop database if exists {} with (force)").format(self._name)
        )

    @property
    def _name(self) -> sql.Identifier:
        return sql.Identifier(self._database)

    def _execute(self, query: sql.Composed) -> None:
        with psycopg.connect(self._admin, autocommit=True) as connection:
            connection.execute(query)


class GivenRedis:
    """Keys of the demo's own on somebody's Redis, which is not stopped."""

    ours = False

    def __init__(self, url: str) -> None:
        self.url = url
        self.key_prefix = f"meetings-{new_id().hex[:12]}:"

    def stop(self) -> None:
        """It is not the demo's to stop."""

    def start(self) -> None:
        """It was not stopped."""

    def close(self) -> None:
        """The demo's keys are gone."""
        with redis.Redis.from_url(self.url) as client:
            for key in client.scan_iter(match=f"{self.key_prefix}*", count=1_000):
                client.delete(key)

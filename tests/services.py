"""Where the tests find their servers, and what they do when one is not there.

A service that nobody can bring (embedded servers have no wheel for this machine, a
URL was given and nothing answers) fails on CI, where it would hide tests, and skips on
a laptop. The machine's own servers are a bonus: they are skipped by name.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn
from urllib.parse import quote, urlencode, urlsplit

import psycopg
import pytest
import redis
from kombu import Connection
from psycopg import conninfo, sql

from celery_pecker.kernel.migrations import migrate

ABSENT = "service not there: "
"""Begins the reason of each skip that the summary lists."""

LOCAL_DSN = "postgresql://postgres@127.0.0.1:5432/postgres"
LOCAL_REDIS = "redis://127.0.0.1:6379"
LOCAL_AMQP = "amqp://guest:guest@127.0.0.1:5672//"

GIVEN_DSN = os.environ.get("PECKER_TEST_DSN", "")
GIVEN_REDIS = os.environ.get("PECKER_TEST_REDIS_URL", "")
GIVEN_AMQP = os.environ.get("PECKER_TEST_AMQP_URL", "")

OURS = "pecker_test_"
ORPHANED = """
select d.datname from pg_database d
 where starts_with(d.datname, %(ours)s)
   and not exists (
       select from pg_stat_activity a
        where starts_with(a.application_name, %(ours)s)
          and starts_with(d.datname, a.application_name))
"""

ON_CI = os.environ.get("CI", "").lower() == "true"

MARK, HELD = "pecker:tests", 3600
"""The key by which a run holds a database of a shared Redis, and for how long."""


def absent(service: str, reason: object, *, required: bool) -> NoReturn:
    """Skip the test and name the service; on CI fail if it was to be there."""
    text = f"{ABSENT}{service} ({' '.join(str(reason).split())})"
    if required and ON_CI:
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


def url_of(dsn: str, database: str) -> str:
    """Return the address of another database of the same server, as a URL."""
    parts = {k: str(v) for k, v in conninfo.conninfo_to_dict(dsn).items()}
    parts.pop("dbname", None)
    user, password = parts.pop("user", ""), parts.pop("password", "")
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    host, port = parts.pop("host", ""), parts.pop("port", "")
    place = (f"{login}@" if login else "") + host + (f":{port}" if port else "")
    return f"postgresql://{place}/{database}" + (
        f"?{urlencode(parts)}" if parts else ""
    )


class PostgresStand:
    """A PostgreSQL on which each test gets a database of its own.

    The databases of a run bear its name, and so does one connection that lives as long
    as the run. A name without its connection belongs to a run that was killed.
    """

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        """The address of the database `postgres`, or of the one that was given."""
        self._run = f"{OURS}{secrets.token_hex(6)}"
        self._keeper = psycopg.connect(
            dsn, autocommit=True, application_name=self._run, connect_timeout=5
        )
        self._made = 0
        # Six times as fast, where the checkpoints that it takes cost no sync to disk.
        unsynced = self._keeper.execute("show fsync").fetchone() == ("off",)
        copying = unsynced and self._keeper.info.server_version >= 150000
        self._strategy = " strategy file_copy" if copying else ""
        for (name,) in self._keeper.execute(ORPHANED, {"ours": OURS}).fetchall():
            self.drop(name)

    def _do(self, statement: str, **names: str) -> None:
        quoted = {key: sql.Identifier(name) for key, name in names.items()}
        self._keeper.execute(sql.SQL(statement).format(**quoted))

    def create(self, *, template: str = "template1") -> str:
        """Return the name of a new database."""
        self._made += 1
        name = f"{self._run}_{self._made}"
        self._do(
            "create database {name} template {template}" + self._strategy,
            name=name,
            template=template,
        )
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self._do("drop database if exists {name} with (force)", name=name)

    @cached_property
    def template(self) -> str:
        """A migrated database that nobody connects to: others are made from it."""
        name = self.create()
        migrate(url_of(self.dsn, name), schema="public")
        return name

    @contextmanager
    def fresh(self, *, migrated: bool) -> Iterator[str]:
        """Give the address of a new database, which is dropped at the end."""
        name = self.create(template=self.template) if migrated else self.create()
        try:
            yield url_of(self.dsn, name)
        finally:
            self.drop(name)

    def close(self) -> None:
        """Drop the template; the name is free."""
        if "template" in vars(self):
            self.drop(self.template)
        self._keeper.close()


@dataclass
class RedisStand:
    """A Redis of which each test gets one empty database."""

    url: str
    shared: bool
    """Others use the same Redis: only our own database is emptied."""

    def flush(self) -> None:
        """Empty what is ours."""
        with redis.Redis.from_url(self.url) as client:
            if self.shared:
                client.pipeline(transaction=True).flushdb().set(
                    MARK, 1, ex=HELD
                ).execute()
            else:
                client.flushall()

    def close(self) -> None:
        """Give the database back."""
        with redis.Redis.from_url(self.url) as client:
            client.flushdb()


def hold_database(url: str) -> str:
    """Return the address of an empty database of a shared Redis, now marked as ours.

    If the URL names a database other than 0 it is that one or none.
    """
    wanted = urlsplit(url).path.strip("/")
    base = urlsplit(url)._replace(path="").geturl()
    numbers = [int(wanted)] if wanted not in {"", "0"} else range(15, 0, -1)
    for number in numbers:
        with redis.Redis.from_url(f"{base}/{number}", socket_timeout=5) as client:
            if client.set(MARK, 1, nx=True, ex=HELD):
                if client.dbsize() == 1:
                    return f"{base}/{number}"
                client.delete(MARK)
    text = f"the tests empty their database of a Redis, and none is free on {url}"
    raise redis.RedisError(text)


def ask_postgres(dsn: str) -> None:
    """Raise psycopg.Error unless PostgreSQL lets us make databases."""
    with psycopg.connect(dsn, connect_timeout=3) as connection:
        connection.execute("select 1")


def ask_amqp(url: str) -> None:
    """Raise an OSError unless a broker answers there."""
    with Connection(url, connect_timeout=3) as connection:
        try:
            connection.connect()
        except connection.connection_errors as error:
            raise OSError(str(error) or type(error).__name__) from error


@contextmanager
def own_vhost(url: str) -> Iterator[str]:
    """Give a virtual host of our own on the RabbitMQ of this machine.

    Celery's exchanges outlive their users, and only the whole host can be removed. Who
    may not ask `rabbitmqctl` (it is root's) works beside the others, on the one that
    the URL names.
    """
    name = f"pecker-test-{secrets.token_hex(6)}"
    user = urlsplit(url).username or "guest"
    if not _rabbitmqctl("add_vhost", name):
        yield url
        return
    try:
        mine = urlsplit(url)._replace(path=f"/{name}").geturl()
        granted = _rabbitmqctl("set_permissions", "-p", name, user, ".*", ".*", ".*")
        yield mine if granted else url
    finally:
        _rabbitmqctl("delete_vhost", name)


def _rabbitmqctl(*words: str) -> bool:
    program = shutil.which("rabbitmqctl")
    if program is None:
        return False
    try:
        asked = subprocess.run(
            [program, "-q", *words], check=False, capture_output=True, timeout=30
        )
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0

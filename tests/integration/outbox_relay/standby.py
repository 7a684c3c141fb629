"""A server and its standby."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import EmbeddedPostgres, eventually
from celery_pecker.testing.servers import HOST, STARTS_WITHIN

SETTINGS = {"wal_level": "replica", "max_wal_senders": "5", "hot_standby": "on"}
BEHIND = (
    "select count(*) from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()"
)
"""1 once the standby has all."""
PROMOTE = "select pg_promote(true, 60)"
SYNCHRONOUS = "alter system set synchronous_standby_names = '*'"
IN_STEP = "select count(*) from pg_stat_replication where sync_state = 'sync'"


class Standby(EmbeddedPostgres):
    """Follows another server, as pg_basebackup has set it up."""

    def __init__(
        self,
        primary: EmbeddedPostgres,
        *,
        port: int | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            fast=True, settings={**SETTINGS, **(settings or {})}, port=port
        )
        self._primary = primary
        self.password = primary.password

    def _install(self) -> None:
        found = self._write("pgpass", f"*:*:*:*:{self.password}")
        place = f"host={HOST} port={self._primary.port} user=postgres passfile={found}"
        copying = self._popen(
            [
                *(self._program / "bin" / "pg_basebackup", "-R", "-X", "stream"),
                *("-D", self.data, "-d", place, "-c", "fast", "--no-sync"),
            ]
        )
        assert copying.wait(STARTS_WITHIN) == 0


def either(*servers: EmbeddedPostgres) -> str:
    """Return the address of whichever of these takes writes."""
    hosts = ",".join(f"{HOST}:{one.port}" for one in servers)
    login = f"postgres:{servers[0].password}"
    return f"postgresql://{login}@{hosts}/postgres?target_session_attrs=read-write"


@contextmanager
def replicated() -> Iterator[tuple[EmbeddedPostgres, Standby]]:
    """Give a migrated server and its standby."""
    with EmbeddedPostgres(fast=True, settings=SETTINGS) as primary:
        migrate(primary.dsn, schema="public")
        with Standby(primary) as standby:
            yield primary, standby


def answer_what_is_replicated(primary: EmbeddedPostgres) -> None:
    """Have commits answered once the standby has them: a failover loses none."""
    with psycopg.connect(primary.dsn, autocommit=True) as connection:
        connection.execute(SYNCHRONOUS)
        connection.execute("select pg_reload_conf()")
        eventually(
            lambda: connection.execute(IN_STEP).fetchone() == (1,), 60.0, "in step"
        )


def promote(standby: EmbeddedPostgres) -> None:
    """Make the standby the server that takes writes."""
    with psycopg.connect(standby.dsn, autocommit=True) as connection:
        assert connection.execute(PROMOTE).fetchone() == (True,)

"""A server and its standby."""

from __future__ import annotations

from celery_pecker.testing import EmbeddedPostgres
from celery_pecker.testing.servers import STARTS_WITHIN

SETTINGS = {"wal_level": "replica", "max_wal_senders": "5", "hot_standby": "on"}
BEHIND = (
    "select count(*) from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()"
)
"""1 once the standby has all."""
PROMOTE = "select pg_promote(true, 60)"


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

    def _install(self) -> None:
        copying = self._popen(
            [
                *(self._home / "bin" / "pg_basebackup", "-R", "-X", "stream"),
                *("-D", self.data, "-d", self._primary.dsn, "-c", "fast", "--no-sync"),
            ]
        )
        assert copying.wait(STARTS_WITHIN) == 0


def either(*servers: EmbeddedPostgres) -> str:
    """Return the address of whichever of these takes writes."""
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in servers)
    return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

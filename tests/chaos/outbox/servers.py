"""The database and the broker of a run, and what happens to them."""

from __future__ import annotations

from contextlib import ExitStack

import psycopg

from celery_pecker.kernel.clock import pause
from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, eventually
from tests.integration.outbox_relay.standby import (
    BEHIND,
    PROMOTE,
    SETTINGS,
    Standby,
    either,
)
from tests.integration.outbox_relay.wires import RabbitWire, RedisWire
from tests.proxy import Proxy

SYNCHRONOUS = {"synchronous_standby_names": "*"}
"""A commit that was answered is on both."""
WITHIN = 60.0


class Databases:
    """A PostgreSQL, with a synchronous standby where failovers happen."""

    def __init__(self, *, standby: bool = False) -> None:
        self.primary = EmbeddedPostgres(fast=standby, settings=SETTINGS).start()
        migrate(self.primary.dsn, schema="public")
        self._standby: Standby | None = None
        self.dsn = self.primary.dsn
        if standby:
            self._standby = Standby(self.primary, settings=SYNCHRONOUS).start()
            self.dsn = either(self.primary, self._standby)
            self._ask("alter system set synchronous_standby_names = '*'")
            self._ask("select pg_reload_conf()")

    def fail_over(self) -> None:
        """Kill the server; its standby takes over, and a new one follows that."""
        assert self._standby is not None
        eventually(lambda: self._ask(BEHIND) == [(1,)], WITHIN, "the standby has it")
        lost, self.primary = self.primary, self._standby
        lost.kill()
        assert self._ask(PROMOTE) == [(True,)]
        lost.close()
        self._standby = Standby(self.primary, port=lost.port, settings=SYNCHRONOUS)
        self._standby.start()

    def close(self) -> None:
        """End both."""
        if self._standby is not None:
            self._standby.close()
        self.primary.close()

    def _ask(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.primary.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


class OwnRedis:
    """A Redis that is killed and frozen; `wire` is the way past all that."""

    def __init__(self, queue: str) -> None:
        self._redis = EmbeddedRedis(settings={"appendfsync": "always"}).start()
        self.url = self._redis.url
        self.wire = RedisWire(self.url, queue)

    def cut(self, seconds: float) -> None:
        """Kill it; it comes back with its data."""
        self._redis.kill()
        pause(seconds)
        self._redis.start()

    def freeze(self, seconds: float) -> None:
        """Freeze it."""
        self._redis.freeze()
        pause(seconds)
        self._redis.thaw()

    def close(self) -> None:
        """End it."""
        self.wire.close()
        self._redis.close()


class ProxiedRabbit:
    """A RabbitMQ that others use too: what happens, happens to the way there."""

    def __init__(self, url: str, queue: str) -> None:
        with ExitStack() as stack:
            self._proxy = stack.enter_context(Proxy.before(url))
            self.url = self._proxy.url
            self.wire = RabbitWire(url, queue)
            self.wire.make()
            stack.pop_all()

    def cut(self, seconds: float) -> None:
        """Reset all connections, and refuse others for a while."""
        self._proxy.refuse()
        pause(seconds)
        self._proxy.open()

    def freeze(self, seconds: float) -> None:
        """Keep all bytes for a while; half of the time answers only."""
        self._proxy.mute()
        pause(seconds / 2)
        self._proxy.hang()
        pause(seconds / 2)
        self._proxy.open()

    def close(self) -> None:
        """Remove what was made there."""
        self.wire.close()
        self._proxy.close()

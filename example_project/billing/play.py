"""Calls are ended and billed while callers die, a relay dies and the broker is away."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from rich.console import Console

from celery_pecker.kernel.clock import SYSTEM, new_id
from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import eventually
from example_project.billing.caller import READY
from example_project.billing.tasks import execute
from example_project.billing.trouble import Killed, kill_between
from example_project.billing.watch import Count, Sight, Watch
from example_project.demo.bars import Bars
from example_project.demo.interrupts import undisturbed
from example_project.demo.servers import Servers
from example_project.demo.stage import await_word, started
from example_project.pace import LOST_AFTER
from example_project.processes import ProcessContainer

APP = ("-m", "celery", "-A", "example_project.billing.app")
MORTAL = ("caller-1", "caller-2")
CALLER = "caller-3"
EACH = 20
"""Calls of each caller that dies: it does so after the commit of its last one."""
MEANWHILE = 60
"""Calls that end while a relay is killed."""
AWAY_CALLS = 180
"""Calls that end from the moment on at which the broker goes."""
AWAY = 10.0
"""Seconds for which the broker is away."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """What was seen of the act."""

    begun: int = 0
    """Calls that there were."""
    callers: list[int | None] = field(default_factory=list)
    """How the callers ended that were to die after a commit."""
    killed: Killed | None = None
    """The relay that died between push and delete."""
    taken_over: float | None = None
    """Seconds from its death until another relay had finished its batch."""
    away: bool = False
    """Whether the broker was taken away; a Redis of somebody else is not."""
    waited: int = 0
    """The most messages in the outbox at once while it was away."""
    drained: float | None = None
    """Seconds from its return until all was billed."""
    last: Count | None = None
    sights: list[Sight] = field(default_factory=list)
    marks: list[tuple[str, float, float]] = field(default_factory=list)
    """What was done, and from when until when it had an effect."""


def play(servers: Servers, console: Console, tell: Callable[[str], None]) -> Seen:
    """Play the act and return what was seen; tables and keys are its own."""
    schema = f"billing_{new_id().hex[:8]}"
    seen = Seen()
    with ExitStack() as kept:
        folder = kept.enter_context(TemporaryDirectory(prefix="billing-"))
        dsn = servers.postgres.dsn
        migrate(dsn, schema=schema)
        service = make_conninfo(dsn, options=f"-c search_path={schema}")
        connection = kept.enter_context(psycopg.connect(service, autocommit=True))
        kept.callback(
            connection.execute,
            sql.SQL("drop schema {} cascade").format(sql.Identifier(schema)),
        )
        execute(connection, "billing_schema")
        env = {
            "BILLING_DSN": dsn,
            "BILLING_REDIS_URL": servers.redis.url,
            "BILLING_KEY_PREFIX": f"{servers.redis.key_prefix}{schema}:",
            "BILLING_SCHEMA": schema,
            "BILLING_HEARTBEATS": folder,
        }
        bars = Bars(console)

        def show(count: Count) -> None:
            waiting = f"{count.waiting} wait in the outbox"
            bars.draw("hung up", count.hung_up, seen.begun)
            bars.draw("billed", count.billed, seen.begun, waiting)

        act = _Act(connection, service, seen, tell, Watch(connection, show))
        act.start(kept, env)
        with bars:
            act.callers_die()
            act.relay_dies()
            act.broker_goes(servers)
            seen.last = act.watch.look()
        seen.sights = act.watch.sights
    return seen


class _Act:
    """The processes of the act, and what is done to them."""

    def __init__(
        self,
        connection: psycopg.Connection[tuple[object, ...]],
        dsn: str,
        seen: Seen,
        tell: Callable[[str], None],
        watch: Watch,
    ) -> None:
        self.watch = watch
        self._connection = connection
        self._dsn = dsn
        self._seen = seen
        self._tell = tell
        self._relays: list[ProcessContainer] = []
        self._mortal: list[ProcessContainer] = []

    def start(self, kept: ExitStack, env: dict[str, str]) -> None:
        """Start two schedulers, which are relays, a worker and three callers."""
        beat = (*APP, "beat", "-S", "pecker", "--pidfile=", "-l", "INFO")
        worker = (*APP, "worker", "-n", "billing@%h", "-P", "threads", "-c", "8")
        quiet = ("-l", "INFO", "--without-gossip", "--without-mingle")
        caller = ("-m", "example_project.billing.caller")
        self._tell("outbox: two relays, a worker and three callers start")
        self._relays = [
            started(kept, f"relay-{number}", beat, env) for number in (1, 2)
        ]
        last = ("--dies-after", str(EACH))
        self._mortal = [
            started(kept, name, (*caller, name, *last), env) for name in MORTAL
        ]
        callers = [*self._mortal, started(kept, CALLER, (*caller, CALLER), env)]
        await_word(started(kept, "billing", (*worker, *quiet), env), " ready.")
        for one in callers:
            await_word(one, READY)
        for one in self._relays:
            await_word(one, "pecker: ready")
        eventually(self._relays_deliver, LOST_AFTER, "both relays deliver")

    def callers_die(self) -> None:
        """Let callers end their calls and die; wait for the bills of all."""
        began = self.watch.elapsed
        for name in (*MORTAL, CALLER):
            self._begin(name, EACH)
        self.watch.until(
            lambda _: all(one.exit_code is not None for one in self._mortal), LOST_AFTER
        )
        self._seen.callers = [one.exit_code for one in self._mortal]
        many = self._seen.callers.count(-signal.SIGKILL)
        self._tell(f"kill -9: {many} callers, each in the line after a commit")
        self._mark("callers killed", began)
        self._all_billed()

    def relay_dies(self) -> None:
        """Kill a relay between push and delete; wait until another has its batch."""
        self._begin(CALLER, MEANWHILE)
        first = self._seen.begun - MEANWHILE + EACH
        self.watch.until(lambda count: count.hung_up >= first, LOST_AFTER)
        killed = kill_between(self._dsn, self._relays, self._supply)
        began, since = self.watch.elapsed, SYSTEM.monotonic()
        self._seen.killed = killed
        self._tell(
            f"kill -9 {killed.relay.name} (pid {killed.relay.pid}): {killed.messages}"
            " pushed, none of them deleted"
        )
        if self.watch.until(lambda _: not self._open(killed.batch), LOST_AFTER):
            self._seen.taken_over = SYSTEM.monotonic() - since
            self._tell(f"another relay has its batch: {self._seen.taken_over:.1f} s")
        self._mark("relay killed", began)
        with undisturbed():
            killed.relay.start()
        self._all_billed()

    def broker_goes(self, servers: Servers) -> None:
        """Stop the broker for ten seconds while calls end; wait for their bills."""
        redis = servers.redis
        if not redis.ours:
            self._tell("this Redis is somebody else's: it is not stopped")
            return
        # What a worker has in hand while Redis goes may run twice; no relay's doing.
        self._tell(f"Redis, the broker, is stopped for {AWAY:g} s; calls go on ending")
        began, since = self.watch.elapsed, SYSTEM.monotonic()
        with undisturbed():
            redis.stop()
        self._seen.away = True
        self._begin(CALLER, AWAY_CALLS)
        self.watch.until(lambda _: SYSTEM.monotonic() - since >= AWAY, LOST_AFTER)
        self._seen.waited = self.watch.look().waiting
        with undisturbed():
            redis.start()
        back = SYSTEM.monotonic()
        self._mark("broker stopped", began)
        self._tell(f"Redis answers: {self._seen.waited} wait in the outbox")
        if self._all_billed():
            self._seen.drained = SYSTEM.monotonic() - back

    def _begin(self, caller: str, calls: int) -> None:
        execute(self._connection, "billing_begin", caller=caller, calls=calls)
        self._seen.begun += calls

    def _supply(self) -> None:
        """Let more calls begin if all have ended: a batch is to be met."""
        if self.watch.look().hung_up == self._seen.begun:
            self._begin(CALLER, MEANWHILE)

    def _all_billed(self) -> bool:
        """Wait until each call is hung up and billed and nothing waits."""

        def done(count: Count) -> bool:
            return count.billed == self._seen.begun and not count.waiting

        return self.watch.until(done, LOST_AFTER)

    def _mark(self, what: str, began: float) -> None:
        self._seen.marks.append((what, began, self.watch.elapsed))

    def _open(self, batch: int) -> bool:
        row = execute(self._connection, "billing_open", batch=batch).fetchone()
        return bool(row and row[0])

    def _relays_deliver(self) -> bool:
        row = execute(self._connection, "billing_relays").fetchone()
        return bool(row and row[0] >= len(self._relays))

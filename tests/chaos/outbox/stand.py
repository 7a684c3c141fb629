"""Callers, relays and their servers; what was ordered, and what arrived."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from celery_pecker.kernel.clock import SYSTEM, pause
from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, eventually
from celery_pecker.testing.database_clock import DatabaseClock
from tests.chaos.outbox.events import Event
from tests.integration.outbox_relay.wires import RabbitWire, RedisWire

RELAYS, CALLERS = 3, 2
AIM_TIMEOUT = 5.0
"""Seconds in which a relay comes to the point where it is hit."""
DRAIN_TIMEOUT = 120.0
MOST_STEP = 7_200.0
"""Seconds; steps go half of it either way."""


class Stand:
    """One run."""

    def __init__(
        self,
        folder: Path,
        postgres: EmbeddedPostgres,
        *,
        redis: EmbeddedRedis | None = None,
        amqp_url: str = "",
    ) -> None:
        self.folder = folder
        self.postgres, self.redis = postgres, redis
        migrate(postgres.dsn, schema="public")
        self._ask("create table if not exists orders (task_id text primary key)")
        self.clock = DatabaseClock(postgres.dsn)
        queue = f"pecker-chaos-{secrets.token_hex(6)}"
        self.wire: RedisWire | RabbitWire = (
            RabbitWire(amqp_url, queue)
            if redis is None
            else RedisWire(redis.url, queue)
        )
        self.wire.make()
        self.relays = [self._relay() for _ in range(RELAYS)]
        self.callers = [self._caller(number) for number in range(CALLERS)]
        self.missed_aims = 0
        self.crashed: list[str] = []
        """Processes that ended, and nobody killed them."""

    def strike(self, event: Event) -> None:
        """Let an event happen, and put things right after it."""
        pause(0.1)
        getattr(self, f"_{event.kind.replace(' ', '_')}")(event)

    def settle(self) -> None:
        """End the callers; wait until all that was recorded has been delivered."""
        for process in (*self.relays, *self.callers):
            process.send_signal(signal.SIGCONT)
            self._note_end(process)
        for caller in self.callers:
            caller.kill()
            caller.wait()
        if all(relay.poll() is not None for relay in self.relays):
            self.relays.append(self._relay())
        # What was deferred while the clock was ahead waits until it is there again.
        self.clock.step(timedelta(seconds=MOST_STEP))
        eventually(
            lambda: self._ask("select count(*) from pecker_outbox") == [(0,)],
            DRAIN_TIMEOUT,
            "the outbox is empty",
            ignoring=(psycopg.Error,),
        )

    def verdict(self) -> dict[str, Any]:
        """Return what is wrong, if anything: each order has its message, no other."""
        ordered = {task_id for (task_id,) in self._ask("select task_id from orders")}
        found = self._eventually_all(ordered)
        doubled = {one: times for one, times in found.items() if times > 1}
        return {
            "ordered": len(ordered),
            "lost": sorted(ordered - found.keys()),
            "made up": sorted(found.keys() - ordered),
            "doubled": doubled if self.wire.exact else {},
            "doubled, as promised": 0 if self.wire.exact else len(doubled),
            "crashed": self.crashed,
            "held": self._ask("select batch from pecker_outbox_batches"),
        }

    def close(self) -> None:
        """Leave nothing running."""
        for process in (*self.relays, *self.callers):
            process.kill()
            process.wait()
        with suppress(OSError):
            self.wire.close()
        self.clock.close()

    def _eventually_all(self, ordered: set[str]) -> Counter[str]:
        """Return what arrived: a relay that is frozen in a push may still end it."""
        found: Counter[str] = Counter()

        def there() -> bool:
            found.update(self.wire.task_ids())
            return ordered <= found.keys()

        with suppress(AssertionError):
            eventually(there, 30.0)
        return found

    # What happens

    def _kill_relay(self, event: Event) -> None:
        relay = self._chosen(self.relays, event, self._relay)
        if event.point and not self._aim(relay, event, "KILL"):
            return
        relay.kill()
        relay.wait()
        self.relays[self.relays.index(relay)] = self._relay()

    def _freeze_relay(self, event: Event) -> None:
        relay = self._chosen(self.relays, event, self._relay)
        if event.point:
            if not self._aim(relay, event, "STOP"):
                return
        else:
            relay.send_signal(signal.SIGSTOP)
        pause(event.seconds)
        relay.send_signal(signal.SIGCONT)

    def _kill_caller(self, event: Event) -> None:
        caller = self._chosen(self.callers, event, lambda: self._caller(event.victim))
        caller.kill()
        caller.wait()
        self.callers[self.callers.index(caller)] = self._caller(event.victim)

    def _freeze_caller(self, event: Event) -> None:
        caller = self._chosen(self.callers, event, lambda: self._caller(event.victim))
        caller.send_signal(signal.SIGSTOP)
        pause(min(event.seconds, 1.0))
        caller.send_signal(signal.SIGCONT)

    def _restart_database(self, _event: Event) -> None:
        self.postgres.kill()
        self.postgres.start()

    def _freeze_database(self, event: Event) -> None:
        self.postgres.freeze()
        pause(min(event.seconds, 1.0))
        self.postgres.thaw()

    def _step_clock(self, event: Event) -> None:
        ahead = timedelta(seconds=(event.victim - 0.5) * MOST_STEP)
        self.clock.step(ahead)

    def _restart_broker(self, _event: Event) -> None:
        assert self.redis is not None
        self.redis.kill()
        self.redis.start()

    def _freeze_broker(self, event: Event) -> None:
        assert self.redis is not None
        self.redis.freeze()
        pause(min(event.seconds, 1.0))
        self.redis.thaw()

    # Processes

    def _aim(self, relay: subprocess.Popen[bytes], event: Event, word: str) -> bool:
        """Have a relay hit itself at a point; return whether it came there."""
        order = self.folder / str(relay.pid)
        whole = order.with_suffix(".new")
        whole.write_text(f"{event.point} {word}")
        whole.rename(order)
        until = SYSTEM.monotonic() + AIM_TIMEOUT
        while SYSTEM.monotonic() < until:
            pid, status = os.waitpid(relay.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                return True
            if pid:
                relay.returncode = -os.WTERMSIG(status)
                return True
            pause(0.01)
        order.unlink(missing_ok=True)
        self.missed_aims += 1
        relay.send_signal(signal.SIGCONT)
        return False

    def _chosen(
        self,
        among: list[subprocess.Popen[bytes]],
        event: Event,
        start: Callable[[], subprocess.Popen[bytes]],
    ) -> subprocess.Popen[bytes]:
        """Return a process that is alive: an order may be carried out too late."""
        place = int(event.victim * len(among))
        among[place].send_signal(signal.SIGCONT)
        if among[place].poll() is not None:
            self._note_end(among[place])
            among[place] = start()
        return among[place]

    def _note_end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() not in {None, -signal.SIGKILL}:
            self.crashed.append(f"{process.args!r}: {process.returncode}")

    def _relay(self) -> subprocess.Popen[bytes]:
        return self._start("relaying", self.clock.dsn, self.wire.url, str(self.folder))

    def _caller(self, seed: float) -> subprocess.Popen[bytes]:
        return self._start("calling", self.clock.dsn, self.wire.queue, str(seed))

    def _start(self, module: str, *words: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{module}.log").open("ab")
        with log:
            return subprocess.Popen(
                [sys.executable, "-m", f"tests.chaos.outbox.{module}", *words],
                stdout=log,
                stderr=log,
            )

    def _ask(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.postgres.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def run(
    stand: Stand, happening: list[Event], told: Callable[[str], object] = lambda _: None
) -> dict[str, Any]:
    """Let all events happen; return the verdict."""
    for number, event in enumerate(happening):
        told(f"{number}: {event}\n")
        stand.strike(event)
    stand.settle()
    return stand.verdict()

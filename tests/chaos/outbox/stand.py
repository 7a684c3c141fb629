"""Callers, relays or workers, and their servers; what was ordered, and what arrived."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from celery_pecker.kernel.clock import SYSTEM, pause
from celery_pecker.testing import eventually
from tests.chaos.outbox import oracle
from tests.chaos.outbox.events import Event
from tests.chaos.outbox.servers import Databases, OwnRedis, ProxiedRabbit
from tests.chaos.outbox.working import MODES
from tests.database_clock import DatabaseClock
from tests.told import telling

SERVERS, CALLERS = 3, 2
AIM_TIMEOUT = 5.0
"""Seconds in which a process comes to the point where it is hit."""
READY_TIMEOUT = 120.0
LAST_WORDS = 6_000
"""Characters of a log that are shown of a process that ended by itself."""
DRAIN_TIMEOUT = 180.0
"""Seconds in which at least one more row goes, however busy the machine is."""
MOST_STEP = 7_200.0
"""Seconds; steps go half of it either way."""
TABLES = """
create table orders (task_id text primary key);
create table runs (task_id text, attempt int, ended boolean not null default false);
create index on runs (task_id)
"""
LEFT = """
select mode, running, parked_at is not null, last_error, min(due_at), max(due_at),
       min(attempt), max(attempt), max(pushes), count(*)
from pecker_outbox group by 1, 2, 3, 4
"""
PRESETS = "insert into pecker_outbox_load values (1, 4, 0.2, 0.1, 0, null, now())"
"""Threads that run rows rest for shorter than by default."""

Process = subprocess.Popen[bytes]


class Stand:
    """One run: relays deliver to the broker, or workers run what was recorded."""

    def __init__(
        self,
        folder: Path,
        *,
        amqp_url: str = "",
        runs: bool = False,
        standby: bool = False,
    ) -> None:
        self.folder, self._runs = folder, runs
        self.missed_aims = self.events = 0
        self.broken_off: list[str] = []
        """What ended the events before their time: a verdict is given all the same."""
        self.crashed: list[str] = []
        """Processes that ended, and nobody killed them; with what they said last."""
        self._logs: dict[int, Path] = {}
        self._left: list[tuple[Any, ...]] = []
        self.servers: list[Process] = []
        self.callers: list[Process] = []
        queue = f"pecker-chaos-{secrets.token_hex(6)}"
        with ExitStack() as stack:
            self.databases = Databases(standby=standby)
            stack.callback(self.databases.close)
            self._ask(TABLES + ";" + PRESETS)
            self.clock = DatabaseClock(self.databases.dsn)
            self.broker: OwnRedis | ProxiedRabbit = (
                ProxiedRabbit(amqp_url, queue) if amqp_url else OwnRedis(queue)
            )
            stack.callback(self.broker.close)
            self._queue = queue
            stack.callback(self._end_processes)
            self.servers += [self._server() for _ in range(SERVERS)]
            self.callers += [self._caller(number) for number in range(CALLERS)]
            self._close = stack.pop_all().close

    def strike(self, event: Event) -> None:
        """Let an event happen, and put things right after it."""
        pause(0.1)
        self.events += 1
        getattr(self, f"_{event.kind.replace(' ', '_')}")(event)

    def settle(self) -> None:
        """End the callers; wait until all that was recorded has been dealt with."""
        for process in (*self.servers, *self.callers):
            process.send_signal(signal.SIGCONT)
            self._note_end(process)
        for caller in self.callers:
            caller.kill()
            caller.wait()
        if all(server.poll() is not None for server in self.servers):
            self.servers.append(self._server())
        # What was deferred while the clock was ahead waits until it is there again.
        self.clock.step(timedelta(seconds=MOST_STEP))
        self._left = self._drain()

    def _drain(self) -> list[tuple[Any, ...]]:
        """Wait as long as rows go; return what is left of them."""
        fewest, until = float("inf"), SYSTEM.monotonic() + DRAIN_TIMEOUT
        while SYSTEM.monotonic() < until:
            with suppress(psycopg.Error):
                [(rows,)] = self._ask("select count(*) from pecker_outbox")
                if not rows:
                    return []
                if rows < fewest:
                    fewest, until = rows, SYSTEM.monotonic() + DRAIN_TIMEOUT
            pause(0.1)
        return self._ask(LEFT)

    def verdict(self) -> dict[str, Any]:
        """Return what became of each order, and what is wrong, if anything."""
        ordered = {task_id for (task_id,) in self._ask("select task_id from orders")}
        if self._runs:
            ran: Any = self._ask("select task_id, attempt, ended from runs")
            done: Any = self._ask("select task_id, attempt from pecker_outbox_done")
            found = oracle.runs(ordered, ran, done)
        else:
            exact = self.broker.wire.exact
            found = oracle.deliveries(ordered, self._arrived(ordered), exact=exact)
        held = self._ask("select batch from pecker_outbox_batches")
        return {
            "events": self.events,
            "ordered": len(ordered),
            **found,
            "crashed": self.crashed,
            "held": held,
            "left": self._left,
            "broken off": self.broken_off,
        }

    def close(self) -> None:
        """Leave nothing running."""
        self._close()

    def _arrived(self, ordered: set[str]) -> Counter[str]:
        """Return what arrived: a relay that is frozen in a push may still end it."""
        found: Counter[str] = Counter()

        def there() -> bool:
            found.update(self.broker.wire.task_ids())
            return ordered <= found.keys()

        with suppress(AssertionError):
            eventually(there, 30.0)
        return found

    # What happens

    def _kill_server(self, event: Event) -> None:
        self._kill(self.servers, event, self._server)

    def _freeze_server(self, event: Event) -> None:
        self._freeze(self.servers, event, self._server)

    def _kill_caller(self, event: Event) -> None:
        self._kill(self.callers, event, lambda: self._caller(event.victim))

    def _freeze_caller(self, event: Event) -> None:
        self._freeze(self.callers, event, lambda: self._caller(event.victim))

    def _restart_database(self, _event: Event) -> None:
        self.databases.primary.kill()
        self.databases.primary.start()

    def _freeze_database(self, event: Event) -> None:
        self.databases.primary.freeze()
        pause(min(event.seconds, 1.0))
        self.databases.primary.thaw()

    def _fail_over(self, _event: Event) -> None:
        self.databases.fail_over()

    def _step_clock(self, event: Event) -> None:
        ahead = timedelta(seconds=(event.victim - 0.5) * MOST_STEP)
        self.clock.step(ahead)

    def _cut_broker(self, event: Event) -> None:
        self.broker.cut(min(event.seconds, 1.0))

    def _freeze_broker(self, event: Event) -> None:
        self.broker.freeze(min(event.seconds, 1.0))

    # Processes

    def _kill(
        self, among: list[Process], event: Event, start: Callable[[], Process]
    ) -> None:
        victim = self._chosen(among, event, start)
        if event.point and not self._aim(victim, event, "KILL"):
            return
        victim.kill()
        victim.wait()
        among[among.index(victim)] = start()

    def _freeze(
        self, among: list[Process], event: Event, start: Callable[[], Process]
    ) -> None:
        victim = self._chosen(among, event, start)
        if event.point:
            if not self._aim(victim, event, "STOP"):
                return
        else:
            victim.send_signal(signal.SIGSTOP)
        pause(event.seconds)
        victim.send_signal(signal.SIGCONT)

    def _aim(self, victim: Process, event: Event, word: str) -> bool:
        """Have a process hit itself at a point; return whether it came there."""
        order = self.folder / str(victim.pid)
        whole = order.with_suffix(".new")
        whole.write_text(f"{event.point} {word}")
        whole.rename(order)
        until = SYSTEM.monotonic() + AIM_TIMEOUT
        while SYSTEM.monotonic() < until:
            pid, status = os.waitpid(victim.pid, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                return True
            if pid:
                victim.returncode = os.waitstatus_to_exitcode(status)
                return True
            pause(0.01)
        order.unlink(missing_ok=True)
        self.missed_aims += 1
        victim.send_signal(signal.SIGCONT)
        return False

    def _chosen(
        self, among: list[Process], event: Event, start: Callable[[], Process]
    ) -> Process:
        """Return one of those, all alive: an order may be carried out too late.

        Another one of its kind is ready: somebody has to go on.
        """
        for place, one in enumerate(among):
            one.send_signal(signal.SIGCONT)
            if one.poll() is not None:
                self._note_end(one)
                among[place] = start()
        chosen = among[int(event.victim * len(among))]
        others = [one for one in among if one is not chosen]
        eventually(
            lambda: any(map(self._ready, others)), READY_TIMEOUT, "another is ready"
        )
        return chosen

    def _ready(self, process: Process) -> bool:
        ready = self.folder / f"{process.pid}.ready"
        return ready.exists() and process.poll() is None

    def _note_end(self, process: Process) -> None:
        if process.poll() not in {None, -signal.SIGKILL}:
            who = f"{process.pid}: {process.args!r}"
            said = self._logs[process.pid].read_text(errors="replace")[-LAST_WORDS:]
            self.crashed.append(f"{who} ended with {process.returncode}:\n{said}")

    def _server(self) -> Process:
        module = "working" if self._runs else "relaying"
        return self._start(module, self.broker.url, self._queue, str(self.folder))

    def _caller(self, seed: float) -> Process:
        tasks = [*MODES] if self._runs else ["chaos.work"]
        return self._start("calling", self._queue, str(self.folder), str(seed), *tasks)

    def _start(self, module: str, *words: str) -> Process:
        command = [sys.executable, "-m", f"tests.chaos.outbox.{module}"]
        path = self.folder / f"{module}-{len(self._logs)}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=telling(self.clock.dsn, *words),
            )
        self._logs[process.pid] = path
        return process

    def _end_processes(self) -> None:
        for process in (*self.servers, *self.callers):
            process.kill()
            process.wait()

    def _ask(self, statement: str) -> list[tuple[Any, ...]]:
        dsn = self.databases.primary.dsn
        with psycopg.connect(dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

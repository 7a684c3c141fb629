"""The main function of a host: one process, one event loop, one lease.

A host is a fresh interpreter that its supervisor starts: it reads its configuration
from its standard input and imports the app itself. On what was its standard output it
writes a beat, as long as its event loop turns; what observers print goes to standard
error. It hands over and ends when its standard input ends: its supervisor is gone.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from celery_pecker.kernel import user_code
from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import pause
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.hosts import BoundedConnection
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.kernel.sql import render, statements
from celery_pecker.kernel.wakeup import Wakeup
from celery_pecker.observers.hosts import capacity
from celery_pecker.observers.hosts.child import load
from celery_pecker.observers.hosts.events import Events
from celery_pecker.observers.hosts.host import Host, Plan, on
from celery_pecker.observers.hosts.lives import Lives
from celery_pecker.observers.hosts.tables import Notice, Tables
from celery_pecker.observers.lease import Trust

logger = logging.getLogger(__name__)

NOTICES_AT_ONCE = 20
REST = 60.0
"""Seconds; a host that sees a notice wakes the thread."""
NAMESPACE = uuid.UUID("6f0b2a4e-6f0e-5d7c-9a57-4d1c8b7e2f30")
"""Of the task ids of notices; never changes."""


@dataclass
class Notices:
    """Sends ``on_parked`` and ``on_moved``, on a thread of its own: a broker may hang.

    A notice is written by the statement that parks or moves, so no death between the
    two loses one. With an outbox it is recorded there and deleted here in one
    transaction: the outbox has it exactly once. Without one it is sent to the broker
    and deleted then: at least once, each time under the same task id.
    """

    app: Any
    outbox: Any
    tables: Tables

    def step(self) -> float:
        """Send what there is; return the seconds to sleep."""
        some = self.tables.notices(NOTICES_AT_ONCE)
        for notice in some:
            error = user_code.tried(self._send, notice)[1]
            if error is not None:
                shown = user_code.shown(error)
                self.tables.notice_failed(notice.id, shown)
                logger.warning(
                    "pecker: a signature of an observer was not sent, tried again: %s",
                    shown,
                )
        return 0.0 if len(some) == NOTICES_AT_ONCE else REST

    def _send(self, notice: Notice) -> None:
        message = self.app.signature(json.loads(notice.signature))
        signature = message.clone(args=(json.loads(notice.event),))
        database = self.tables.database
        text = f"{database.schema}\0{notice.id}"
        signature.set(task_id=str(uuid.uuid5(NAMESPACE, text)))
        if self.outbox is None:
            signature.apply_async()
            self.tables.notice_sent(notice.id)
            return
        with BoundedConnection.within(database.dsn, 10.0) as connection:
            closed = render(statements()["close_observer_notice"], database.schema)
            gone = connection.execute(closed.encode(), {"id": notice.id}).rowcount == 0
            if gone:  # this was slow, and another host has sent it
                return
            self.outbox.send(signature, connection=connection)


BEAT_INTERVAL = 0.1
"""Seconds."""
DATABASE = 0.25
"""Part of a lease for which a host waits for an answer of PostgreSQL."""
LEAST_TIMEOUT = 0.5
"""Seconds."""
CANNOT_START = 2
"""Exit code of a host that is misconfigured."""
HUNG = 3
"""Exit code of a host whose event loop was held up by an observer."""


def main() -> None:
    """Run a host until it is asked to end."""
    beats = os.dup(1)
    os.dup2(2, 1)
    config = json.loads(sys.stdin.readline())
    observers = load(config)
    with asyncio.Runner() as runner:
        until_done(runner.get_loop(), _main(observers, config, beats))


def until_done(
    loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, None]
) -> None:
    """Run a coroutine, whatever ends the event loop before.

    SystemExit out of a task or a callback that an observer made would end this process
    and all other observers of it.
    """
    task = loop.create_task(main)
    while not task.done():
        try:
            loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt):
            logger.exception("pecker: a task of an observer asked this host to end")


async def _main(observers: Any, config: dict[str, Any], beats: int) -> None:
    settings = observers.settings
    plan = Plan(
        name=config["name"],
        pid=os.getpid(),
        capacity=config["capacity"],
        lease=settings.observers_lease,
    )
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    timeout = max(plan.lease * DATABASE, LEAST_TIMEOUT)
    timeout = min(settings.database_timeout, timeout)
    database = Database.of(settings, timeout=timeout, role="observers")
    trust = Trust()
    wakeup = Wakeup()
    lives = Lives(
        observers.kinds,
        trust,
        schema=settings.schema,
        wake=wakeup.wake,
        config=config,
    )
    events = Events()
    own = Tables(Database.of(settings, role="observers"), {})
    notices = Notices(observers.app, observers.outbox, own)
    sender = Loop(notices.step, name="pecker observer notices")
    host = Host(
        plan,
        Tables(
            database,
            observers.kinds,
            follows=config["follows"],
            drains=config["drains"],
        ),
        lives,
        trust,
        on_loop=on(loop),
        over=lambda: on(loop)(over.set),
        notices=sender.wake,
        events=events,
        abort=lambda: os._exit(HUNG),
    )
    events.start()
    checked = False

    def step() -> float:
        nonlocal checked
        if not checked:
            check_schema(database, app=settings.app)
            checked = True
        return host.step()

    steps = Loop(
        step,
        name="pecker observers",
        # Half a second at most: no wake ends a back-off, and a host that is asked to
        # leave cannot hand over before its next step.
        backoff=Backoff(first=0.05, most=min(max(plan.look, 0.05), 0.5)),
        leave=lambda: on(loop)(over.set),
        failed=host.failed,
        wakeup=wakeup,
        may_end=True,
    )

    limit = settings.observers_memory_bytes

    def beaten() -> int:
        # A successor would take what is drained: this one is replaced once it is up.
        if limit is None or host.draining:
            return 0
        return capacity.used(lives.pids)

    def leave() -> None:
        if limit is not None and (size := capacity.used(lives.pids)) > limit:
            logger.warning(
                "pecker: host %s of observers has %d bytes and hands over %s",
                plan.name,
                size,
                ", ".join(f"{count} {kind}" for kind, count in lives.kinds()),
            )
        host.leave()
        steps.wake()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    threading.Thread(target=_watch_supervisor, args=[leave], daemon=True).start()
    threading.Thread(target=_beat, args=[beats, host, beaten], daemon=True).start()
    turning = loop.create_task(lives.turn())
    steps.start()
    sender.start()
    await over.wait()
    turning.cancel()
    if steps.failure is not None:
        logger.error("pecker: the host of observers cannot start: %s", steps.failure)
    logging.shutdown()
    # Threads and coroutines of observers that do not end would keep the process.
    os._exit(0 if steps.failure is None else CANNOT_START)


def _watch_supervisor(leave: Any) -> None:
    sys.stdin.read()
    leave()


def _beat(beats: int, host: Host, memory: Callable[[], int]) -> None:
    """Send a beat: the life of the host, and its memory; the event loop turns."""
    while True:
        if not host.blocked:
            try:
                os.write(beats, f"{host.node} {memory()}\n".encode())
            except OSError:
                return  # no reader: standard input has ended too
        pause(BEAT_INTERVAL)


if __name__ == "__main__":
    main()

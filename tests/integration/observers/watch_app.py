"""Observers of all kinds, whose lives write down when they began and ended."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import psycopg
from celery import Celery

import celery_pecker.worker
from celery_pecker.kernel.clock import monotonic, pause
from celery_pecker.kernel.errors import LeaseLost
from celery_pecker.observers import Lease, Observers, Retry

app = Celery("watchers", broker="memory://")
app.conf.update(pecker_dsn=os.environ.get("PECKER_TEST_DSN_OF_APP", "dbname=nowhere"))
app.conf.update(json.loads(os.environ.get("PECKER_TEST_CONF", "{}")))
celery_pecker.worker.connect()
observers = Observers(app)


NOTE = "insert into notes (name, what, epoch, pid, at) values (%s, %s, %s, %s, %s)"


def of_notes() -> str:
    """Return where notes are: the way to the app's database may be closed."""
    return os.environ.get("PECKER_TEST_NOTES") or str(app.conf.pecker_dsn)


def note(lease: Lease, what: str) -> None:
    """Write one line into the table of the test, with the instant of the call."""
    line = [lease.name, what, lease.epoch, os.getpid(), monotonic()]
    with psycopg.connect(of_notes(), autocommit=True) as connection:
        connection.execute(NOTE, line)


async def anote(lease: Lease, what: str) -> None:
    """Do as `note`, beside the event loop."""
    await asyncio.to_thread(note, lease, what)


@observers.observer
async def watch(lease: Lease, **about: Any) -> None:
    """Go on until it is ended."""
    await anote(lease, f"began {json.dumps(about)}")
    try:
        await asyncio.Event().wait()
    finally:
        note(lease, "ended")


@observers.observer
async def quiet(lease: Lease) -> None:
    """Go on, and write nothing."""
    await asyncio.Event().wait()


@observers.observer(weight=5)
async def heavy(lease: Lease) -> None:
    """Take the room of five."""
    await asyncio.Event().wait()


@observers.observer(retry=Retry(2, (0.05,)))
async def failing(lease: Lease, after: float = 0.0) -> None:
    """Fail each time."""
    await anote(lease, "tried")
    await asyncio.to_thread(pause, after)
    message = f"{lease.name} cannot go on"
    raise ConnectionError(message)


@observers.observer(retry=Retry(2, (0.05,)))
async def losing(lease: Lease) -> None:
    """Say each time that the lease is lost, which it is not."""
    await anote(lease, "tried")
    message = "a guard on another database"
    raise LeaseLost(message)


@observers.observer(retry=Retry(0))
async def exiting(lease: Lease) -> None:
    """Ask the process to end."""
    await anote(lease, "began")
    raise SystemExit(3)


@observers.observer
async def brief(lease: Lease) -> None:
    """Come to an end by itself."""
    await anote(lease, "began")


@observers.observer
async def counting(lease: Lease) -> None:
    """Count on from where the life before came to."""
    lease.state = (lease.state or 0) + 1
    await anote(lease, f"counts {lease.state}")
    await asyncio.Event().wait()


@observers.observer
async def blocking(lease: Lease) -> None:
    """Hold up the event loop in the first life."""
    await anote(lease, "began")
    first = lease.state is None
    lease.state = "blocked once"
    await asyncio.to_thread(pause, 1.0)
    while first:
        pause(0.1)
    await asyncio.Event().wait()


@observers.observer
async def blocking_later(lease: Lease) -> None:
    """Hold up the event loop in a callback, outside of the observer's own task."""
    await anote(lease, "began")
    first = lease.state is None
    lease.state = "blocked once"
    if first:
        asyncio.get_running_loop().call_later(1.0, pause, 60.0)
    await asyncio.Event().wait()


@observers.observer(unreachable="go_on")
async def stubborn(lease: Lease) -> None:
    """Go on while the database is away."""
    await anote(lease, "began")
    try:
        await asyncio.Event().wait()
    finally:
        note(lease, "ended")


def write(lease: Lease) -> None:
    """Write one line, if this life may."""
    with psycopg.connect(of_notes()) as connection:
        lease.guard(connection)
        line = [lease.name, "wrote", lease.epoch, os.getpid(), monotonic()]
        connection.execute(NOTE, line)


@observers.observer(unreachable="go_on")
async def writer(lease: Lease) -> None:
    """Write under a guard, and go on until that is refused."""
    await anote(lease, "began")
    while True:
        try:
            await asyncio.to_thread(write, lease)
        except LeaseLost:
            await anote(lease, "refused")
            raise
        await asyncio.to_thread(pause, 0.1)


@observers.observer
def plain(lease: Lease) -> None:
    """Wait in a thread."""
    note(lease, "began")
    while not lease.wait(30.0):
        pass
    note(lease, "ended")


@observers.observer(isolation="process")
def apart(lease: Lease) -> None:
    """Count in a process of its own."""
    lease.state = (lease.state or 0) + 1
    note(lease, f"counts {lease.state}")
    while not lease.wait(30.0):
        pass
    note(lease, "ended")


@observers.observer(isolation="process", stop_grace=0.1)
def stuck(lease: Lease) -> None:
    """Look at nothing."""
    note(lease, "began")
    while True:
        pause(0.1)


@observers.observer(stop_grace=0.1)
async def deaf(lease: Lease) -> None:
    """Swallow each cancellation."""
    await anote(lease, "began")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


@observers.observer(isolation="process")
def asking(lease: Lease, *, raises: bool) -> None:
    """Look at its lease once, and come to an end if that is over."""
    if raises:
        lease.check()
    assert lease.stopping


@observers.observer(isolation="process", retry=Retry(0))
def forking(lease: Lease) -> None:
    """End without a word, while a process that it forked lives on."""
    child = os.fork()
    if not child:
        pause(600.0)
        os._exit(0)
    lease.state = child
    os._exit(7)


LEAK = 300_000
"""Kilobytes."""


@observers.observer
async def leaking(lease: Lease) -> None:
    """Fill the memory of its host in the first life."""
    first, lease.state = lease.state is None, "leaked once"
    await anote(lease, "leaks")
    # Last: its host may be replaced while this goes on, which takes seconds on a slow
    # machine, and what comes next would fill the memory of the next one too.
    leaked = os.urandom(1) * LEAK * 1024 if first else b""
    await asyncio.Event().wait()
    assert leaked is not None


@observers.observer(isolation="process")
def leaking_apart(lease: Lease) -> None:
    """Fill the memory of a process of its own in the first life."""
    first, lease.state = lease.state is None, "leaked once"
    note(lease, "leaks")
    leaked = os.urandom(1) * LEAK * 1024 if first else b""
    while not lease.wait(30.0):
        pass
    assert leaked is not None


@observers.observer(retry=Retry(1, (0.1,)))
async def hanging(lease: Lease) -> None:
    """Hold up the event loop in each life."""
    await anote(lease, "began")
    while True:
        pause(0.1)

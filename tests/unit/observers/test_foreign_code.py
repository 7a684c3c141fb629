"""What the code of an observer may raise, fork and be called with."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery

from celery_pecker.kernel.clock import monotonic
from celery_pecker.observers import Lease, Observers, Retry
from celery_pecker.observers.hosts.host_main import until_done
from celery_pecker.observers.hosts.lives import Lives
from celery_pecker.observers.hosts.tables import Outcome
from celery_pecker.observers.lease import Claimed, Trust
from celery_pecker.observers.model import Report

SECONDS = 60.0


class Unreadable(Exception):
    """An error whose text fails."""

    def __str__(self) -> str:
        """Fail."""
        return str(1 // 0)


async def raising(lease: Lease, error: Callable[[], BaseException]) -> None:
    """Raise on the event loop."""
    raise error()


def plain(lease: Lease, error: Callable[[], BaseException]) -> None:
    """Raise in a thread."""
    raise error()


def named(lease: Lease, what: str, function: str) -> None:
    """Have arguments of names that calls of foreign code have themselves."""


def outcome(function: Any, /, **args: Any) -> Outcome:
    """Return the one report of a life."""
    app = Celery("foreign", broker="memory://", set_as_current=False)
    app.conf.pecker_dsn = "dbname=nowhere"
    observers = Observers(app)
    kind = observers.observer(function, retry=Retry(0)).kind
    trust = Trust()
    trust.renew(monotonic(), 100.0)
    ended = asyncio.Event()
    made = Lives(observers.kinds, trust, schema="public", wake=ended.set)
    one = Claimed(
        id=1,
        epoch=1,
        name="one",
        kind=kind,
        args=args,
        weight=1,
        state=None,
        failures=0,
        delay=0.0,
        node="n",
    )

    async def live() -> None:
        made.begin(made.add([one]), 0.0)
        await asyncio.wait_for(ended.wait(), SECONDS)

    try:
        asyncio.run(live())
    except (SystemExit, KeyboardInterrupt):
        pytest.fail("the event loop was ended")
    [only] = made.outcomes
    return only


@pytest.mark.parametrize("function", [raising, plain])
@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (KeyboardInterrupt, "KeyboardInterrupt"),
        (SystemExit, "SystemExit"),
        (GeneratorExit, "GeneratorExit: "),
        (Unreadable, "Unreadable: its text cannot be read: ZeroDivisionError"),
        (lambda: ValueError("half \udcff\0"), "ValueError: half \\udcff"),
    ],
    ids=["an interrupt", "an exit", "a generator's", "no text", "half a character"],
)
def test_whatever_code_raises_has_failed_and_can_be_stored(
    function: Any, error: Callable[[], BaseException], shown: str
) -> None:
    """Else it would end its host, stand still unseen, or hold up all reports."""
    logging.disable()  # half a character in what is logged would end pytest's process
    try:
        only = outcome(function, error=error)
    finally:
        logging.disable(logging.NOTSET)
    assert only.report is Report.PARKED
    assert only.error is not None
    assert shown in only.error
    only.error.encode()
    assert "\0" not in only.error


def test_arguments_may_have_any_name() -> None:
    """The thread would end without a report."""
    assert outcome(named, what="a", function="b").report is Report.RETURNED


def test_what_a_task_of_an_observer_raises_does_not_end_the_event_loop() -> None:
    """SystemExit leaves the loop from tasks and callbacks alike."""
    ends = []

    async def exiting() -> None:
        sys.exit(3)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(exiting())
        loop.call_soon(sys.exit, 4)
        await asyncio.wait([task])
        assert isinstance(task.exception(), SystemExit)
        ends.append("by itself")

    with asyncio.Runner() as runner:
        until_done(runner.get_loop(), main())
    assert ends == ["by itself"]


FORKS = """
import asyncio, os
from celery_pecker.observers.hosts.lives import Lives
from celery_pecker.observers.lease import Trust

async def main():
    lives = Lives({}, Trust(), schema="public")
    turning = asyncio.create_task(lives.turn())
    await asyncio.sleep(0)
    forked = []
    never = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: forked.append(os.fork()))
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(0.001, over.set)
    await over.wait()
    if not forked[0]:
        await never
    print(os.waitstatus_to_exitcode(os.waitpid(forked[0], 0)[1]), flush=True)
    os._exit(0)

asyncio.run(main())
"""


def test_a_fork_of_a_host_is_no_second_host() -> None:
    """Its event loop would go on with each observer a second time."""
    process = subprocess.Popen(
        [sys.executable, "-c", FORKS], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.communicate(timeout=SECONDS)[0] == b"1\n"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

"""A sleep always ends: by its time, or by whoever wakes it."""

from __future__ import annotations

import ast
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import celery_pecker
import celery_sharding
import throttle
from celery_pecker.deadline.enforcement.watchdog import Watchdog
from celery_pecker.kernel.clock import SYSTEM, monotonic
from celery_pecker.kernel.loop import Loop
from celery_pecker.kernel.wakeup import Wakeup
from tests.parsed import parse, parse_file

MANY = 50_000
"""A sleep by a `SimpleQueue` did not end after 5,000 to 40,000 of these."""
TINY = 1e-6
FAR = 60.0
"""Seconds that no test waits: it would be over its time."""
HOUSES = (celery_pecker, celery_sharding, throttle)


def test_fifty_thousand_sleeps_of_microseconds_end() -> None:
    """After a wake-up each: `SimpleQueue.get` never comes back from some of them."""
    wakeup = Wakeup()
    for _ in range(MANY):
        wakeup.wake()
        wakeup.sleep()
        wakeup.sleep(TINY)


def test_a_loop_that_is_woken_and_then_sleeps_for_microseconds_goes_on() -> None:
    """Each scheduler, relay and watch is such a loop."""
    steps = 0

    def step() -> float:
        nonlocal steps
        steps += 1
        if steps == MANY:
            loop.stop()
        elif steps % 2:
            loop.wake()
        return TINY

    loop = Loop(step, name="test", clock=SYSTEM)
    loop.start()
    assert loop.join(FAR)


def test_a_loop_that_is_woken_during_its_step_does_not_sleep() -> None:
    """What it was woken for came after the step had looked."""
    steps = 0

    def step() -> float:
        nonlocal steps
        steps += 1
        loop.wake()
        if steps == 3:
            loop.stop()
        return FAR

    loop = Loop(step, name="test", clock=SYSTEM)
    loop.start()
    assert loop.join(FAR / 2)


def test_a_watch_that_fails_does_not_end_the_watchdog() -> None:
    """The deadlines of all other runs hang on that thread (I12)."""
    watchdog, done = Watchdog(), threading.Event()

    class Broken:
        def due(self) -> float | None:
            raise ZeroDivisionError

    class Sound:
        def due(self) -> float | None:
            done.set()
            return None

    watchdog.start()
    watchdog.add(0.0, Broken())
    watchdog.add(0.0, Sound())
    assert done.wait(30.0)


def test_the_watchdog_calls_a_watch_again_after_microseconds() -> None:
    """It ends the runs of a process whose deadline is over."""
    watchdog, done = Watchdog(), threading.Event()
    calls = 0

    class Often:
        def due(self) -> float | None:
            nonlocal calls
            calls += 1
            if calls == MANY:
                done.set()
                return None
            if calls % 2:
                watchdog.add(0.0, Once())
            return monotonic() + TINY

    class Once:
        def due(self) -> None:
            return

    watchdog.start()
    watchdog.add(0.0, Often())
    assert done.wait(FAR)


def test_sleep_says_whether_it_was_woken() -> None:
    """A wake-up before the sleep counts, and many count as one."""
    wakeup = Wakeup()
    assert not wakeup.sleep(0.0)
    assert not wakeup.sleep(-1.0)
    wakeup.wake()
    wakeup.wake()
    assert wakeup.sleep(FAR)
    assert not wakeup.sleep(TINY)


@pytest.mark.parametrize("seconds", [None, FAR, float("inf")])
def test_wake_ends_a_sleep_of_another_thread(seconds: float | None) -> None:
    """Whatever time it was to last."""
    wakeup, woken = Wakeup(), threading.Event()

    def nap() -> None:
        if wakeup.sleep(seconds):
            woken.set()

    threading.Thread(target=nap, daemon=True).start()
    wakeup.wake()
    assert woken.wait(FAR)


def test_a_signal_handler_may_wake_who_is_inside_the_same_call() -> None:
    """`Event.set` would dead-lock there, on its own condition."""
    wakeup, handled = Wakeup(), 0

    def handle(_number: int, _frame: object) -> None:
        nonlocal handled
        handled += 1
        wakeup.wake()

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        while handled < 500:
            os.kill(os.getpid(), signal.SIGUSR1)
            wakeup.wake()
            wakeup.sleep(TINY)
    finally:
        signal.signal(signal.SIGUSR1, before)


def simple_queues(tree: ast.Module) -> Iterator[ast.Call]:
    """Give each `x.get(…, timeout=…)` of a module that has a SimpleQueue."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    attributes = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    if "SimpleQueue" not in names | attributes:
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and any(word.arg == "timeout" for word in node.keywords)
        ):
            yield node


def test_nobody_sleeps_by_a_simple_queue() -> None:
    """In what we ship: tests wait by it for seconds, and have a limit of their own."""
    found = [
        f"{path}:{call.lineno}"
        for package in HOUSES
        for folder in package.__path__
        for path in Path(folder).rglob("*.py")
        for call in simple_queues(parse_file(path))
    ]
    assert found == []


def test_the_rule_sees_what_it_should() -> None:
    """It is no rule if it finds nothing."""
    wrong = "import queue\nbell = queue.SimpleQueue()\nbell.get(timeout=1.0)\n"
    right = "from queue import Queue\nbell = Queue()\nbell.get(timeout=1.0)\n"
    assert [len([*simple_queues(parse(text))]) for text in (wrong, right)] == [1, 0]

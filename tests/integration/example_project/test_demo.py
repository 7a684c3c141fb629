"""The demo's own parts: its screen, its clock, and what a Ctrl-C may break into."""

from __future__ import annotations

import signal
import subprocess
import sys
from textwrap import dedent

from celery_pecker.kernel.clock import to_us
from example_project.demo import lanes
from example_project.demo.report import SECOND, Cause, Event, Run, tally
from example_project.demo.strip import LOST
from example_project.demo.timeline import Timeline
from example_project.store import Store
from tests.integration.example_project.conftest import ROOT

BEGAN = 1_800_000_000 * SECOND
NOW = BEGAN + 6 * SECOND + SECOND // 2


def run(second: int, winner: str) -> Run:
    """Return a run of the slot of that second."""
    due = BEGAN + second * SECOND + 300_000
    return Run(due_us=due, began_us=due + 10_000, winner=winner)


def test_the_lanes_have_a_column_for_each_second_of_the_story() -> None:
    """Blocks where a scheduler won, dots where not, nothing in the future."""
    runs = [run(0, "A"), run(1, "B"), run(2, "B"), run(4, "A"), run(4, "A")]
    columns = lanes.columns(BEGAN, NOW, 10)
    account = tally(runs, [], since_us=BEGAN, until_us=BEGAN + 5 * SECOND)
    event = Event(
        cause=Cause.KILL,
        subject="A",
        began_us=BEGAN + SECOND + 1,
        ended_us=BEGAN + 3 * SECOND,
    )
    block, dot = lanes.WON, lanes.NOT_WON
    assert lanes.won("A", runs, columns, NOW).plain == (
        f"{block}{dot * 3}{block}{dot * 2}   "
    )
    assert lanes.won("B", runs, columns, NOW).plain == f"{dot}{block * 2}{dot * 4}   "
    assert lanes.faults(account, columns).plain.rstrip() == f"   {LOST}2"
    assert lanes.events([event], columns).plain.rstrip() == " kk"
    assert lanes.axis(columns, BEGAN).plain == "0"


def test_a_long_story_scrolls() -> None:
    """The last column is now, when there are more seconds than columns."""
    columns = lanes.columns(BEGAN, BEGAN + 100 * SECOND, 30)
    assert columns[-1] == BEGAN + 100 * SECOND
    assert lanes.axis(columns, BEGAN).plain == f"{'':9}80{'':8}90{'':8}1"


def test_the_timeline_keeps_the_databases_time(store: Store) -> None:
    """Events are dated by the clock that dates the runs, also while it is away."""
    timeline = Timeline(store)
    with timeline.doing(Cause.FREEZE, "B"):
        ((now,),) = store.rows("database_now")
        begun = timeline.doing_now
        assert begun is not None
    assert timeline.doing_now is None
    (event,) = timeline.events
    assert event.began_us <= to_us(now) + 20_000
    assert to_us(now) <= event.ended_us + 20_000
    assert begun.ended_us <= event.ended_us


def ending(script: str) -> tuple[int, list[str]]:
    """Return how a process of its own ends that listens and runs the script."""
    head = (
        "import os, signal\n"
        "from example_project.demo.interrupts import deafen, listen, undisturbed\n"
        "listen()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + dedent(script)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout.split()


def test_a_signal_waits_for_what_must_not_be_disturbed() -> None:
    """It counts when the outermost block is over."""
    code, said = ending("""
        with undisturbed():
            with undisturbed():
                os.kill(os.getpid(), signal.SIGTERM)
                print("inner")
            print("outer")
        print("after")
    """)
    assert (code, said) == (128 + signal.SIGTERM, ["inner", "outer"])


def test_a_second_signal_does_not_break_into_the_clean_up() -> None:
    """The first ends the work at once, those that follow are ignored."""
    code, said = ending("""
        try:
            os.kill(os.getpid(), signal.SIGINT)
            print("after")
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            print("clean")
    """)
    assert (code, said) == (128 + signal.SIGINT, ["clean"])

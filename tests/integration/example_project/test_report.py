"""The arithmetic of the demo's report, and what it draws."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from example_project.demo.__main__ import verdict
from example_project.demo.chronicle import Chronicle
from example_project.demo.frame import ticks
from example_project.demo.picture import draw
from example_project.demo.report import SECOND, Cause, Event, Run, Tally, tally
from example_project.demo.strip import letters, marks, text
from example_project.demo.watch import Reaction, Sample, Sight

START = 1_800_000_000 * SECOND
OFFSET = 412_345


def run(second: int, winner: str = "A", late: float = 0.01) -> Run:
    """Return a run of the slot of that second."""
    due = START + second * SECOND + OFFSET
    return Run(due_us=due, began_us=due + int(late * SECOND), winner=winner)


def event(cause: Cause, begins: float, ends: float, subject: str = "A") -> Event:
    """Return something done between two seconds."""
    return Event(
        cause=cause,
        subject=subject,
        began_us=START + int(begins * SECOND),
        ended_us=START + int(ends * SECOND),
    )


def account(runs: list[Run], *events: Event, seconds: int = 10) -> Tally:
    """Return the account of so many seconds."""
    return tally(runs, events, since_us=START, until_us=START + seconds * SECOND)


def test_every_slot_fired_once_is_nothing_lost_nothing_doubled() -> None:
    """Ten runs on the grid in ten seconds are ten slots due and fired."""
    kept = account([run(second) for second in range(10)])
    assert len(kept.due) == len(kept.fired) == 10
    assert kept.lost == kept.doubled == kept.stray == ()
    assert kept.wins == {"A": 10}


def test_slots_at_both_ends_count_though_no_run_names_them() -> None:
    """A scheduler that starts late or dies early loses slots."""
    kept = account([run(second) for second in range(2, 8)])
    assert [(slot - START) // SECOND for slot in kept.lost] == [0, 1, 8, 9]


def test_no_run_at_all_is_every_slot_lost() -> None:
    """Silence is no success."""
    kept = account([])
    assert len(kept.lost) == 10
    assert kept.gaps[Cause.QUIET].seconds == 10


def test_a_run_off_the_grid_is_stray() -> None:
    """A slot that nobody asked for is named, not taken for another."""
    odd = Run(due_us=START + 999, began_us=START + 1999, winner="B")
    kept = account([*(run(second) for second in range(10)), odd])
    assert kept.stray == (START + 999,)
    assert kept.lost == ()


@given(
    st.dictionaries(st.integers(0, 29), st.integers(1, 3)).filter(lambda d: len(d) > 0)
)
def test_due_is_fired_and_lost_and_doubled_are_those_fired_often(
    times: dict[int, int],
) -> None:
    """Whatever ran how often, each slot is counted in its place."""
    runs = [run(second, late=0.1 * n) for second, n in times.items() for n in range(n)]
    kept = account(runs, seconds=30)
    assert sorted((*kept.fired, *kept.lost)) == list(kept.due)
    assert len(kept.fired) == len(times)
    assert len(kept.doubled) == sum(many > 1 for many in times.values())
    assert sum(kept.wins.values()) == len(runs)


def test_a_gap_has_the_cause_that_it_touches() -> None:
    """The greatest gap is told apart by what was being done meanwhile."""
    runs = [run(second) for second in range(20) if second not in (5, 12)]
    runs[1] = run(1, late=0.3)
    kept = account(
        runs,
        event(Cause.KILL, 4.5, 6.0),
        event(Cause.RESTART, 11.9, 12.2, "PostgreSQL"),
        seconds=20,
    )
    assert kept.gaps[Cause.QUIET].seconds == pytest.approx(1.29)
    assert kept.gaps[Cause.KILL].seconds == pytest.approx(2.0)
    assert kept.gaps[Cause.RESTART].seconds == pytest.approx(2.0)
    assert Cause.FREEZE not in kept.gaps


def test_an_event_is_the_cause_for_a_while_after_its_end() -> None:
    """What a restart leaves behind is not called quiet."""
    runs = [run(second) for second in range(20) if second not in (6, 15)]
    kept = account(runs, event(Cause.RESTART, 3.0, 4.0), seconds=20)
    assert kept.gaps[Cause.RESTART].seconds == pytest.approx(2.0)
    assert kept.gaps[Cause.QUIET].seconds == pytest.approx(2.0)


def test_the_strip_has_a_letter_for_every_slot() -> None:
    """The winner's name, a cross for a lost slot, the number for a doubled one."""
    runs = [run(0), run(1, "B"), run(3, ""), run(4), run(4, "B", 0.5)]
    done = [event(Cause.FREEZE, 1.0, 2.5)]
    kept = account(runs, *done, seconds=5)
    assert letters(kept, runs) == "AB\N{MULTIPLICATION SIGN}\N{BULLET}2"
    assert marks(kept, done) == "fff  "
    assert text(kept, runs, done, width=3).splitlines() == [
        "   0 s  AB\N{MULTIPLICATION SIGN}",
        "        fff",
        "   3 s  \N{BULLET}2",
    ]


def chronicle(runs: list[Run], *events: Event, dropped: frozenset[int]) -> Chronicle:
    """Return a chronicle of twenty seconds."""
    reaction = Reaction(
        part="agent", call=1, kind="<slow>", began_us=START, over=False, seconds=6.5
    )
    samples = tuple(Sample(at_us=START + n * SECOND, longest=5.0) for n in range(20))
    sight = Sight(
        runs=tuple(runs), dropped=dropped, reactions=(reaction,), samples=samples
    )
    return Chronicle(
        account=account(runs, *events, seconds=20),
        events=events,
        sight=sight,
        calls=200,
        drops_after=15.0,
    )


def test_the_picture_is_svg_with_a_tick_for_each_slot_won() -> None:
    """It parses, stays on its paper, and shows what was counted."""
    runs = [run(second, "AB"[second % 2]) for second in range(20) if second != 9]
    drawn = draw(
        chronicle(
            runs,
            event(Cause.KILL, 4.5, 8.0),
            event(Cause.FREEZE, 10.0, 12.0, "B"),
            event(Cause.RESTART, 15.0, 15.3, "PostgreSQL"),
            dropped=frozenset(),
        )
    )
    root = ET.fromstring(drawn)  # noqa: S314 - our own drawing
    name = "{http://www.w3.org/2000/svg}"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    ticks = [
        box
        for box in root.iter(f"{name}rect")
        if box.get("width") == "4.0" and box.get("height") == "22.0"
    ]
    assert len(ticks) == 19
    for box in root.iter(f"{name}rect"):
        assert 0 <= float(box.attrib["x"]) <= width
        assert 0 <= float(box.attrib["y"]) <= height
    words = [element.text for element in root.iter(f"{name}text")]
    assert "19 / 20" in words
    assert "kill -9 A, back after 3.5 s" in words


def test_dropped_calls_and_doubled_slots_are_failures() -> None:
    """The exit code follows from these, and from nothing softer."""
    well = [run(second) for second in range(20)]
    assert chronicle(well, dropped=frozenset()).failures == []
    assert chronicle(well[:10], dropped=frozenset()).failures == []
    assert chronicle(well, dropped=frozenset({3})).failures == ["1 calls were dropped"]
    assert chronicle([*well, run(3, "B", 0.7)], dropped=frozenset()).failures == [
        "1 slots ran twice"
    ]
    assert chronicle([], dropped=frozenset()).failures == ["no slot was fired at all"]
    died = replace(chronicle(well, dropped=frozenset()), ended=("worker-1",))
    assert died.failures == ["worker-1 has ended by itself"]


@given(st.floats(0.5, 1e7), st.integers(4, 16))
def test_an_axis_has_round_numbers(most: float, steps: int) -> None:
    """A few: 0 and multiples of 1, 2 or 5 times a power of ten, up to `most`."""
    found = list(ticks(most, steps))
    assert found[0] == 0
    assert 2 <= len(found) <= steps + 1
    step = found[1]
    assert f"{step:.6e}"[0] in "125"
    assert float(f"{step:.6e}"[1:8].strip(".")) == 0
    assert found == [number * step for number in range(len(found))]
    assert found[-1] <= most * (1 + 1e-9) < found[-1] + step * (1 + 1e-9)


def test_the_last_lines_are_a_verdict_which_is_the_exit_code() -> None:
    """Whatever was shown before."""
    for failures, code in (([], 0), (["a call was dropped", "two [slots] ran"], 1)):
        console = Console(record=True, width=80)
        assert verdict(console, failures) == code
        first, *rest = console.export_text().strip().splitlines()
        assert first.startswith("VERDICT")
        assert f"(exit code {code})" in first
        assert [line.strip() for line in rest] == failures

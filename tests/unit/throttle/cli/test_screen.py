"""What stands on a terminal."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console

from celery_pecker.surfaces.console.context import WHOLE_LINES, turns
from tests.unit.throttle.incident import SETTINGS, Night
from throttle.cli.screen import Screen, bar, spark
from throttle.overview import Picture, Sampler, State
from throttle.views import size


@pytest.fixture
def picture() -> Picture:
    """Give the night, with rates."""
    night, at = Night(), [0.0]
    sampler = Sampler(night, SETTINGS, clock=lambda: at[0])
    sampler.sample()
    at[0], night.second = 1.0, 1
    return sampler.sample()


def shown(
    picture: Picture,
    wide: int = 120,
    high: int | None = None,
    screen: Screen | None = None,
) -> list[str]:
    """Return the lines of the screen."""
    screen = screen or Screen("redis://redis:6379/1")
    sink = io.StringIO()
    console = Console(file=sink, width=wide, highlight=False)
    console.print(screen.drawn(picture, wide, high))
    return [line.rstrip() for line in sink.getvalue().splitlines()]


def test_the_worst_stands_on_top_with_its_reasons(picture: Picture) -> None:
    """Whoever looks at it at night reads three lines."""
    lines = shown(picture)
    assert "4 workers, 1,204 tasks held" in lines[0]
    assert lines[2] == " OVER  reports  above its limit"
    assert lines[3].startswith("  ! the limit is lowered to 50%: 48 active backends")
    assert lines[6].endswith("282%  1,130 of 400/s (else 800)")


def test_workers_and_tenants_stand_beside_each_other(picture: Picture) -> None:
    """Shares, what they hold, how old it is, and how fast it goes."""
    [line] = [
        one for one in shown(picture) if "worker1@node-1" in one and "acme" in one
    ]
    assert line.split() == [
        *("worker1@node-1", "22%", "█▊", "412", "11", "s", "205/s"),
        *("acme", "601", "████", "400/s"),
    ]


@pytest.mark.parametrize("wide", [40, 60, 80, 120, 200])
def test_no_line_is_longer_than_the_screen(picture: Picture, wide: int) -> None:
    """Whatever its width."""
    assert all(len(line) <= wide for line in shown(picture, wide))


@pytest.mark.parametrize("wide", [72, 80, 100, 110, 125, 140])
def test_names_are_cut_and_figures_are_not(picture: Picture, wide: int) -> None:
    """Names of pods are long, and differ at their end."""
    main = next(one for one in picture.databases if one.name == "main")
    workers = tuple(
        dataclasses.replace(
            one, name=f"celery@web-worker-7f9c6d5b4-abc{nth}", rate=None, held=12_345
        )
        for nth, one in enumerate(main.workers[:2])
    )
    tenants = tuple(
        dataclasses.replace(one, name=f"customer-number-{nth:012}")
        for nth, one in enumerate(main.tenants[:2])
    )
    both = dataclasses.replace(main, workers=workers, tenants=tenants)
    lines = shown(dataclasses.replace(picture, databases=(both,)), wide)
    for nth, worker in enumerate(workers):
        [line] = [one for one in lines if f"abc{nth}" in one]
        told = f"{worker.admitted:,} in all"
        assert all(word in line for word in ("22%", "12,345", " s ", told)), line
    for nth, tenant in enumerate(tenants):
        assert any(f"0{nth} " in one and f" {tenant.held} " in one for one in lines)


def test_a_pipe_gets_whole_names(picture: Picture) -> None:
    """What reads it takes them for names."""
    main = next(one for one in picture.databases if one.name == "main")
    name = f"celery@{'w' * 150}"
    worker = dataclasses.replace(main.workers[0], name=name)
    one = dataclasses.replace(main, workers=(worker,))
    sink = io.StringIO()
    screen = Screen("redis://redis:6379/1")
    drawn = screen.drawn(dataclasses.replace(picture, databases=(one,)), 80, whole=True)
    Console(file=sink, width=WHOLE_LINES, highlight=False).print(drawn)
    assert name in sink.getvalue()


@pytest.mark.parametrize("wide", [80, 120])
@pytest.mark.parametrize("high", [24, *range(31, 46), 60])
def test_a_low_screen_leaves_out_workers_and_no_database(
    picture: Picture, high: int, wide: int
) -> None:
    """Those of what needs a look are left out last."""
    lines = shown(picture, wide, high)
    for status in picture.databases:
        assert any(f" {status.name}" in line for line in lines)
    assert len(lines) <= max(high, 31)
    if high >= 36 and wide == 120:
        assert any("acme" in line and "601" in line for line in lines), "who waits"
    if high == 40 and wide == 120:
        assert any("worker4@node-4" in line for line in lines)


def test_who_waits_is_seen_before_who_does_nothing(picture: Picture) -> None:
    """On a low screen the lines go to those of whom something is held."""
    main = next(one for one in picture.databases if one.name == "main")
    idle = dataclasses.replace(main, name="web", state=State.OVER, held=0, tenants=())
    both = dataclasses.replace(picture, databases=(idle, main))
    lines = shown(both, 120, 18)
    assert len(lines) <= 18
    assert sum("worker1@node-1" in line for line in lines) == 1
    assert lines[2].startswith(" OVER  web")
    assert any("acme" in line and "601" in line for line in lines)


@pytest.mark.parametrize("high", range(8, 22))
def test_tables_below_each_other_share_their_lines(picture: Picture, high: int) -> None:
    """What one does not need is the other's, and nothing is too long."""
    main = next(one for one in picture.databases if one.name == "main")
    two = dataclasses.replace(main, workers=main.workers[:2], tenants=main.tenants)
    alone = dataclasses.replace(picture, databases=(two,))
    lines = shown(alone, 80, high)
    assert len(lines) <= max(high, 9)
    seen = ("node-1", "node-2", "acme ", "globex", "initech")
    told = [word for word in seen if any(word in line for line in lines[6:])]
    if high >= 15:
        assert told == list(seen)


def test_the_title_says_whose_tasks_wait(picture: Picture) -> None:
    """Also where there is no room for a table."""
    [title] = [line for line in shown(picture, 120, 24) if " HOLDING " in line]
    assert title.endswith("oldest for 11 s, most of tenant acme (601)")


def test_what_was_seen_before_an_outage_is_told_as_such(picture: Picture) -> None:
    """And since when nothing is known."""
    lines = shown(dataclasses.replace(picture, away="gone", since=4.0), 200)
    assert lines[1].startswith("No answer for 4.0 s: gone. Workers go by the policy")


def test_a_name_cannot_paint_the_screen(picture: Picture) -> None:
    """Neither by markup nor by what a terminal obeys."""
    strange = dataclasses.replace(
        picture.databases[0], name="[red]\x1b[2Jx", notes=("[bold]\x1b]0;y",)
    )
    text = "\n".join(shown(dataclasses.replace(picture, databases=(strange,))))
    assert "\x1b" not in text
    assert "[red]\\x1b[2Jx" in text
    assert "[bold]\\x1b]0;y" in text


def test_the_traffic_of_before_is_remembered(picture: Picture) -> None:
    """As a line of small bars; an outage is nothing in it."""
    screen = Screen("redis://redis")
    for _ in range(3):
        screen.remember(picture)
    screen.remember(dataclasses.replace(picture, away="gone"))
    [line] = [one for one in shown(picture, screen=screen) if "held 1,204" in one]
    assert line.startswith("  ███▁  held 1,204")


@pytest.mark.parametrize(
    ("part", "drawn"),
    [
        (0.0, "        "),
        (0.5, "████    "),
        (1.0, "████████"),
        (7.0, "████████"),
        (-1.0, "        "),
        (1 / 64, "▏       "),
        (0.505, "████    "),
        (0.52, "████▏   "),
    ],
)
def test_a_bar_is_exact_to_the_eighth_of_a_letter(part: float, drawn: str) -> None:
    """And never longer than its place."""
    assert bar(part, 8) == drawn


def test_small_words() -> None:
    """Bytes, sparks."""
    assert [size(999), size(2_300), size(64_000_000), size(3_000_000_000)] == [
        *("999 B", "2 kB", "64 MB", "3.0 GB")
    ]
    assert spark([0.0, 0.5, 1.0]) == "▁▅█"
    assert spark([0.0, 1.0, 2.0]) == "▁▅█", "what is above the limit is the highest"


def test_a_look_that_takes_long_leaves_turns_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pace is kept, and nothing is made up for."""
    at, waited = [0.0], []

    def wait(seconds: float) -> None:
        waited.append(round(seconds, 3))
        at[0] += seconds

    monkeypatch.setattr("celery_pecker.surfaces.console.context.pause", wait)
    told = []
    for nth in turns(0.1, 4, clock=lambda: at[0]):
        told.append(nth)
        at[0] += 0.35 if nth == 1 else 0.02
    assert told == [0, 1, 4, 5]
    assert waited == [0.08, 0.0, 0.03]

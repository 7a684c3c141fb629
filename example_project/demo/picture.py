"""The timeline as a picture (SVG): who won which second, and what was done meanwhile.

From top to bottom: the figures; the gap before each run; a lane for each scheduler and
for PostgreSQL; the longest unchecked call. Bands across all lanes are what was done.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from example_project.demo.chronicle import Chronicle
from example_project.demo.report import SECOND, Cause, Event
from example_project.demo.svg import (
    area,
    box,
    cross,
    document,
    dot,
    line,
    ring,
    sweep,
    text,
)

WIDTH, HEIGHT = 1000.0, 560.0
LEFT, RIGHT = 172.0, 972.0
TOP, BOTTOM = 150.0, 500.0
GAPS = (178.0, 268.0)
LANES = {"A": 300.0, "B": 338.0, "PostgreSQL": 376.0}
CALLS = (412.0, BOTTOM)
PROMISED = 1.25
LONGEST_LABEL = 190.0
BANDS = {
    Cause.KILL: "kill",
    Cause.FREEZE: "freeze",
    Cause.RESTART: "restart",
    Cause.CUT: "restart",
    Cause.BROKER: "restart",
}


class Scale:
    """Where an instant is on the paper."""

    def __init__(self, told: Chronicle) -> None:
        self._since_us = told.account.since_us
        self._span_us = max(told.account.until_us - told.account.since_us, SECOND)

    def x(self, instant_us: float) -> float:
        """Return the place of an instant, held between the edges."""
        share = (instant_us - self._since_us) / self._span_us
        return LEFT + min(max(share, 0.0), 1.0) * (RIGHT - LEFT)

    def shows(self, instant_us: float) -> bool:
        """Whether the instant lies between the edges."""
        return self._since_us <= instant_us <= self._since_us + self._span_us

    @property
    def seconds(self) -> range:
        """The seconds that are written under the picture."""
        whole = self._span_us // SECOND
        return range(0, whole + 1, 5 if whole <= 75 else 15)

    def x_second(self, second: int) -> float:
        """Return the place of so many seconds after the beginning."""
        return self.x(self._since_us + second * SECOND)


def draw(told: Chronicle) -> str:
    """Return the picture as the text of an SVG file."""
    scale = Scale(told)
    parts = [
        *_head(told),
        *_bands(told.events, scale),
        *_gaps(told, scale),
        *_lanes(told, scale),
        *_calls(told, scale),
        *_foot(scale),
        sweep(LEFT, TOP - 6, WIDTH - LEFT - 1, BOTTOM - TOP + 7),
    ]
    account = told.account
    title = f"{len(account.due)} slots due, {len(account.fired)} fired"
    return document(WIDTH, HEIGHT, title, parts)


def _head(told: Chronicle) -> Iterable[str]:
    account, sight = told.account, told.sight
    yield text(28, 42, "One task, every second, whatever dies", "title")
    yield text(
        28,
        64,
        f"Two schedulers, two workers, {told.calls} calls. Each tick is a slot,"
        " in the lane of the scheduler that won it.",
        fill="soft",
    )
    kill = account.gaps.get(Cause.KILL)
    figures = (
        (f"{len(account.fired)} / {len(account.due)}", "slots fired / due", "ink"),
        (str(len(account.lost)), "slots lost", "bad" if account.lost else "good"),
        (str(len(account.doubled)), "doubled", "bad" if account.doubled else "good"),
        (f"{kill.seconds:.2f} s" if kill else "-", "greatest gap, kill -9", "ink"),
        (
            "-" if sight.slowest is None else f"{sight.slowest:.1f} s",
            "slowest reaction",
            "ink",
        ),
        (str(len(sight.dropped)), "calls dropped", "bad" if sight.dropped else "good"),
    )
    for place, (figure, said, fill) in enumerate(figures):
        x = 28 + place * 160
        yield text(x, 106, figure, "figure", fill)
        yield text(x, 124, said, "small", "soft")


def _bands(events: Iterable[Event], scale: Scale) -> Iterable[str]:
    for event in events:
        fill = BANDS[event.cause]
        x, end = scale.x(event.began_us), scale.x(event.ended_us)
        yield box(x, TOP + 14, max(end - x, 2.0), BOTTOM - TOP - 14, fill, opacity=0.13)
        yield line(x, TOP + 14, x, BOTTOM, fill, width=1.5)
        seconds = (event.ended_us - event.began_us) / SECOND
        said = {
            Cause.KILL: f"kill -9 {event.subject}, back after {seconds:.1f} s",
            Cause.FREEZE: f"{event.subject} frozen {seconds:.1f} s",
            Cause.RESTART: f"PostgreSQL restarted, {seconds:.1f} s",
            Cause.CUT: "PostgreSQL connections cut",
        }[event.cause]
        fits = x < RIGHT - LONGEST_LABEL
        yield text(
            x if fits else RIGHT,
            TOP + 8,
            said,
            "small strong" if fits else "small strong end",
            fill,
        )


def _gaps(told: Chronicle, scale: Scale) -> Iterable[str]:
    """One dot a run, as high as the time since the run before."""
    top, base = GAPS
    pairs = [
        (before, after, (after.began_us - before.began_us) / SECOND)
        for before, after in pairwise(
            sorted(told.sight.runs, key=lambda run: run.began_us)
        )
        if scale.shows(after.began_us)
    ]
    highest = max([2.0, *(gap + 0.2 for *_, gap in pairs)])

    def y(seconds: float) -> float:
        return base - seconds / highest * (base - top)

    yield text(28, top + 12, "Gap between")
    yield text(28, top + 28, "two runs")
    for seconds in range(int(highest) + 1):
        yield line(LEFT, y(seconds), RIGHT, y(seconds), "line")
        yield text(LEFT - 8, y(seconds) + 4, f"{seconds} s", "small end", "soft")
    yield line(LEFT, y(PROMISED), RIGHT, y(PROMISED), "soft", dash="2 4")
    yield text(LEFT + 6, y(PROMISED) - 6, f"limit {PROMISED} s", "small", "soft")
    for _, after, gap in pairs:
        yield dot(scale.x(after.began_us), y(gap), 3.2, _fill(after.winner))
    for cause, greatest in told.account.gaps.items():
        if cause is not Cause.QUIET or greatest.seconds > PROMISED:
            x = scale.x(greatest.began_us + greatest.seconds * SECOND)
            said = f"{greatest.seconds:.2f} s"
            above = max(greatest.seconds, PROMISED)
            yield text(x - 2, y(above) - 6, said, "small strong")


def _lanes(told: Chronicle, scale: Scale) -> Iterable[str]:
    for name, y in LANES.items():
        scheduler = len(name) == 1
        yield text(28, y + 5, f"Scheduler {name}" if scheduler else name)
        fill = _fill(name) if scheduler else "restart"
        at = LEFT
        for event in told.events:
            if event.subject != name:
                continue
            begins, ends = scale.x(event.began_us), scale.x(event.ended_us)
            yield line(at, y, begins, y, fill, width=2)
            if event.cause is Cause.FREEZE:
                yield line(begins, y, ends, y, "freeze", width=2, dash="2 5")
            else:
                yield cross(begins, y, 5)
            at = ends
        yield line(at, y, RIGHT, y, fill, width=2)
        if scheduler:
            won = [run for run in told.sight.runs if run.winner == name]
            for run in won:
                if scale.shows(run.due_us):
                    x = scale.x(run.due_us)
                    yield box(x - 2, y - 11, 4, 22, fill, radius=1.5)
    between = (LANES["A"] + LANES["B"]) / 2
    for slot in told.account.lost:
        x = scale.x(slot)
        yield line(x, LANES["A"] - 11, x, LANES["B"] + 11, "bad", dash="3 3")
        yield ring(x, between, 5, "bad")
    for slot in told.account.doubled:
        yield text(scale.x(slot), between + 4, "2", "middle strong", "bad")


def _calls(told: Chronicle, scale: Scale) -> Iterable[str]:
    """How long the longest unchecked call had waited."""
    top, base = CALLS
    bound = told.drops_after

    def y(seconds: float) -> float:
        return base - min(seconds / bound, 1.1) * (base - top - 8)

    yield text(28, top + 14, "Longest")
    yield text(28, top + 30, "unchecked call")
    for seconds in (0.0, bound / 3, bound * 2 / 3, bound):
        stroke = "bad" if seconds == bound else "line"
        dash = "5 4" if seconds == bound else ""
        yield line(LEFT, y(seconds), RIGHT, y(seconds), stroke, dash=dash)
        yield text(LEFT - 8, y(seconds) + 4, f"{seconds:g} s", "small end", "soft")
    yield text(
        RIGHT, y(bound) + 15, "hung up by its backend", "small end strong", "bad"
    )
    yield area(
        [
            (scale.x(sample.at_us), y(sample.longest))
            for sample in told.sight.samples
            if scale.shows(sample.at_us)
        ],
        base,
        "good",
    )


def _foot(scale: Scale) -> Iterable[str]:
    for second in scale.seconds:
        x = scale.x_second(second)
        yield line(x, BOTTOM, x, BOTTOM + 5, "soft")
        yield text(x, BOTTOM + 20, f"{second} s", "small middle", "soft")
    y = HEIGHT - 18
    yield box(LEFT - 2, y - 12, 4, 14, "a", radius=1.5)
    yield text(LEFT + 10, y, "won by A", "small", "soft")
    yield box(LEFT + 90, y - 12, 4, 14, "b", radius=1.5)
    yield text(LEFT + 102, y, "won by B", "small", "soft")
    yield ring(LEFT + 186, y - 4, 5, "bad")
    yield text(LEFT + 198, y, "lost", "small", "soft")
    yield cross(LEFT + 248, y - 4, 4.5)
    yield text(LEFT + 260, y, "killed or stopped", "small", "soft")
    limit = f"The limit of {PROMISED} s is promised for kill -9 and freeze."
    yield text(RIGHT, y, limit, "small end", "soft")


def _fill(name: str) -> str:
    return {"A": "a", "B": "b"}.get(name, "none")

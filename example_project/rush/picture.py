"""Both acts side by side (SVG): traffic, connections at work, the front page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from example_project.demo.frame import Frame, axis, seconds
from example_project.demo.svg import area, document, dot, line, text
from example_project.rush.play import Act

WIDTH, HEIGHT = 1000.0, 640.0
PANELS = ((84.0, 486.0), (560.0, 962.0))
"""From where to where the two acts go."""
LANES = {"traffic": (150.0, 290.0), "busy": (340.0, 440.0), "page": (490.0, 590.0)}
SIDES = {False: "without the gate", True: "with the gate"}


def draw(acts: Sequence[Act]) -> str:
    """Return the picture as the text of an SVG file."""
    without, gated = acts
    lasts = max(act.sights[-1].at for act in acts)
    meetings = max(act.told for act in acts)
    parts = [
        text(28, 42, f"{meetings:,} reminders fall due at once", "title"),
        text(
            28,
            66,
            f"The front page takes {gated.front_page * 1e3:.1f} ms with the gate,"
            f" {without.front_page * 1e3:.1f} ms without it (95 of 100 visitors)",
            "",
            "soft",
        ),
    ]
    for act, (left, right) in zip(acts, PANELS, strict=True):
        parts += _panel(act, acts, lasts, left, right)
    parts.append(text(28, HEIGHT - 12, "seconds since all fell due", "small", "soft"))
    return document(WIDTH, HEIGHT, f"{meetings:,} reminders, two rush hours", parts)


def _panel(
    act: Act, acts: Sequence[Act], lasts: float, left: float, right: float
) -> Iterable[str]:
    tone = "good" if act.gate else "bad"
    yield text(left, 108, SIDES[act.gate], "strong", tone)
    yield text(
        left,
        127,
        f"peak {act.peak:,.0f} statements/s, all told after {act.lasted:.1f} s,"
        f" {act.twice} told twice",
        "small",
        "soft",
    )

    def frame(lane: str, most: float) -> Frame:
        top, bottom = LANES[lane]
        return Frame(
            left=left, right=right, top=top, bottom=bottom, lasts=lasts, most=most
        )

    most = max(sight.traffic for one in acts for sight in one.sights)
    most = max(most, act.limit) * 1.1
    yield from _traffic(act, frame("traffic", most))
    busiest = max(1, *(one.busiest for one in acts)) * 1.1
    yield from _busy(act, frame("busy", busiest))
    slowest = max(visit.took for one in acts for visit in one.visits) * 1e3
    yield from _page(act, frame("page", slowest))
    page = frame("page", 1.0)
    yield from seconds(lasts, lambda at: page.at(at, 0.0)[0], page.bottom + 18)


def _traffic(act: Act, frame: Frame) -> Iterable[str]:
    yield from axis(frame, "statements each second")
    points = [frame.at(one.at, one.traffic) for one in act.sights if one.at >= 0]
    yield area(points, frame.bottom, "a")
    held = max((one.held for one in act.sights), default=0)
    if held:
        shown = [
            frame.at(one.at, one.held / held * frame.most * 0.9)
            for one in act.sights
            if one.at >= 0
        ]
        yield area(shown, frame.bottom, "b")
        yield text(
            frame.right, frame.top + 12, f"held: at most {held:,}", "small end", "b"
        )
    x1, y = frame.at(0, act.limit)
    yield line(x1, y, frame.right, y, "bad", dash="5 4", width=1.5)
    yield text(frame.right, y - 5, f"limit {act.limit:,.0f}", "small end", "bad")


def _busy(act: Act, frame: Frame) -> Iterable[str]:
    yield from axis(frame, f"connections at work, at most {act.busiest}")
    points = [frame.at(one.at, one.busy) for one in act.sights if one.at >= 0]
    yield area(points, frame.bottom, "restart")


def _page(act: Act, frame: Frame) -> Iterable[str]:
    yield from axis(frame, "the front page, ms (each dot is a visitor)")
    for visit in act.visits:
        if visit.at >= 0:
            x, y = frame.at(visit.at, visit.took * 1e3)
            yield dot(x, y, 2.2, "freeze")

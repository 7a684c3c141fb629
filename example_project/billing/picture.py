"""What waits in the outbox, and what is hung up and billed, over time (SVG)."""

from __future__ import annotations

from collections.abc import Iterable

from example_project.billing.play import Seen
from example_project.demo.frame import Frame, axis, seconds
from example_project.demo.svg import area, box, document, text

WIDTH, HEIGHT = 1000.0, 470.0
LEFT, RIGHT = 84.0, 962.0
CALLS, WAITING = (130.0, 250.0), (300.0, 420.0)
"""From where to where the two figures go."""
TONES = {
    "callers killed": "kill",
    "relay killed": "freeze",
    "broker stopped": "restart",
}


def draw(seen: Seen) -> str:
    """Return the picture as the text of an SVG file."""
    counts = [sight.count for sight in seen.sights]
    last = counts[-1]
    lasts = max(seen.sights[-1].at, 1.0)

    def frame(edges: tuple[float, float], most: int) -> Frame:
        top, bottom = edges
        return Frame(
            left=LEFT,
            right=RIGHT,
            top=top,
            bottom=bottom,
            lasts=lasts,
            most=max(most, 1) * 1.1,
        )

    calls = frame(CALLS, seen.begun)
    waiting = frame(WAITING, max(count.waiting for count in counts))
    account = f"{last.billed:,} billed, {last.lost} lost, {last.doubled} doubled"
    parts = [
        text(28, 42, f"{last.hung_up:,} calls end, and are billed", "title"),
        text(28, 66, account, "", "soft"),
        *_marks(seen, calls, waiting),
        *axis(calls, "calls hung up (orange) and billed (blue)"),
        area([calls.at(s.at, s.count.hung_up) for s in seen.sights], CALLS[1], "b"),
        area([calls.at(s.at, s.count.billed) for s in seen.sights], CALLS[1], "a"),
        *axis(waiting, "messages in the outbox"),
        area(
            [waiting.at(s.at, s.count.waiting) for s in seen.sights], WAITING[1], "none"
        ),
    ]
    parts += seconds(lasts, lambda at: waiting.at(at, 0.0)[0], WAITING[1] + 18)
    parts.append(text(28, HEIGHT - 12, "seconds", "small", "soft"))
    return document(WIDTH, HEIGHT, "Calls that are billed by an outbox", parts)


def _marks(seen: Seen, upper: Frame, lower: Frame) -> Iterable[str]:
    """Give a band for each thing that was done, while it had an effect."""
    for what, began, ended in seen.marks:
        tone = TONES[what]
        left, top = upper.at(began, upper.most)
        right, bottom = lower.at(ended, 0.0)
        yield box(left, top, right - left, bottom - top, tone, opacity=0.1)
        yield text(left + 3, top + 12, what, "small", tone)

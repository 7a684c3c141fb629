"""A figure on the paper: its edges, and its axis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from example_project.demo.svg import line, text

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Where a figure is on the paper, and what its edges stand for."""

    left: float
    right: float
    top: float
    bottom: float
    lasts: float
    most: float

    def at(self, when: float, value: float) -> Point:
        """Return the place, held between the edges."""
        across = min(max(when / self.lasts, 0.0), 1.0)
        up = min(max(value / self.most, 0.0), 1.0)
        return (
            self.left + across * (self.right - self.left),
            self.bottom - up * (self.bottom - self.top),
        )


def axis(frame: Frame, title: str) -> Iterable[str]:
    """Give the figure's title, and lines at none, a half and the most."""
    yield text(frame.left, frame.top - 8, title, "small", "soft")
    for part in (0.0, 0.5, 1.0):
        _, y = frame.at(0.0, part * frame.most)
        yield line(frame.left, y, frame.right, y, "line")
        value = f"{part * frame.most:,.0f}"
        yield text(frame.left - 8, y + 4, value, "small end", "soft")

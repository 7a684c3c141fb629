"""A figure on the paper: its edges, and its axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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


def ticks(most: float, steps: int = 4) -> Iterator[float]:
    """Yield 0 and the multiples of 1, 2 or 5 times a power of ten, up to `most`.

    Of those steps the smallest of which no more than `steps` fit in.
    """
    power = 10.0 ** math.floor(math.log10(most / steps))
    step = next(one * power for one in (1, 2, 5, 10) if one * power * steps >= most)
    for number in range(math.floor(most / step * (1 + 1e-9)) + 1):
        yield number * step


def axis(frame: Frame, title: str) -> Iterator[str]:
    """Give the figure's title, and lines at round numbers."""
    yield text(frame.left, frame.top - 8, title, "small", "soft")
    for value in ticks(frame.most):
        _, y = frame.at(0.0, value)
        yield line(frame.left, y, frame.right, y, "line")
        yield text(frame.left - 8, y + 4, f"{value:,.12g}", "small end", "soft")


def seconds(lasts: float, x: Callable[[float], float], y: float) -> Iterator[str]:
    """Give round seconds below a figure; `x` is where one is."""
    for second in ticks(lasts, 16):
        yield text(x(second), y, f"{second:g}", "small middle", "soft")

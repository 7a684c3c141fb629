"""Figures and names as letters of a terminal: pure."""

from __future__ import annotations

BARS = "▁▂▃▄▅▆▇█"
PARTS = " ▏▎▍▌▋▊▉"


def bar(part: float, length: int) -> str:
    """Return so much of a line, to the eighth of a letter, filled up with blanks."""
    eighths = round(min(max(part, 0.0), 1.0) * length * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (PARTS[rest] if rest else "")).ljust(length)


def spark(parts: list[float]) -> str:
    """Return a line of small bars; the highest is the limit, or what is above it."""
    highest = max(1.0, *parts)
    last = len(BARS) - 1
    return "".join(BARS[min(round(one / highest * last), last)] for one in parts)


def short(name: str, longest: int) -> str:
    """Return a name of no more letters than that: its middle is left out.

    Names of workers differ at their beginning, or at their end.
    """
    if len(name) <= longest:
        return name
    end = longest // 2
    return f"{name[: longest - end - 1]}…{name[-end:]}"

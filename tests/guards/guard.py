"""What one guard is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard, and who would miss it."""

    name: str
    file: str
    text: str
    without: str
    tests: str
    also: tuple[str, str] | None = None
    """A second place that holds the same, for its own reason."""

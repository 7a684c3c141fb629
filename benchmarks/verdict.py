"""What a verdict is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A target, what was measured, and whether that is enough."""

    target: str
    measured: str
    met: bool

    @property
    def line(self) -> tuple[str, str, str]:
        """The verdict as a line of a table."""
        return self.target, self.measured, "met" if self.met else "**not met**"

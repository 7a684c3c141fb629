"""Everything that the last page and the picture tell."""

from __future__ import annotations

from dataclasses import dataclass

from example_project.demo.report import Cause, Event, Tally
from example_project.demo.watch import Sight

WORDS = {
    Cause.QUIET: "quiet",
    Cause.KILL: "a scheduler killed",
    Cause.FREEZE: "a scheduler frozen",
    Cause.RESTART: "PostgreSQL restarted",
    Cause.CUT: "connections cut",
    Cause.BROKER: "the broker stopped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chronicle:
    """What was done, and what was recorded meanwhile."""

    account: Tally
    events: tuple[Event, ...]
    sight: Sight
    calls: int
    drops_after: float
    pulse: Tally | None = None
    """The local task while the broker was stopped; None if it was not."""
    ended: tuple[str, ...] = ()
    """Processes that were not there at the end."""

    @property
    def failures(self) -> list[str]:
        """What makes the demo fail; nothing if it kept its promises."""
        found = []
        if not self.account.fired:
            found.append("no slot was fired at all")
        if self.account.doubled:
            found.append(f"{len(self.account.doubled)} slots ran twice")
        if self.account.stray:
            found.append(f"{len(self.account.stray)} slots lie on no grid")
        if self.pulse and (self.pulse.lost or self.pulse.doubled):
            found.append(
                f"without the broker the local task lost {len(self.pulse.lost)} slots"
                f" and doubled {len(self.pulse.doubled)}"
            )
        if self.sight.dropped:
            found.append(f"{len(self.sight.dropped)} calls were dropped")
        found.extend(f"{name} has ended by itself" for name in self.ended)
        return found

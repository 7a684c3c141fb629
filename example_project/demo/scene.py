"""What the screens show: the words said so far, and whatever can be seen by now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from celery_pecker.kernel.clock import SYSTEM, Clock
from example_project.demo.report import Event
from example_project.demo.stage import Scheduler
from example_project.demo.timeline import Timeline
from example_project.demo.watch import Sight, Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Something that was said, so many seconds after the demo's start."""

    at: float
    text: str


@dataclass(slots=True, kw_only=True)
class Scene:
    """Filled in while the stage is built; read by the screens at any time."""

    calls: int
    drops_after: float
    clock: Clock = SYSTEM
    began: float = 0.0
    lines: list[Line] = field(default_factory=list)
    listener: Callable[[Line], None] | None = None
    schedulers: Sequence[Scheduler] = ()
    timeline: Timeline | None = None
    watch: Watch | None = None

    def __post_init__(self) -> None:
        """The demo begins."""
        self.began = self.clock.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the demo began."""
        return self.clock.monotonic() - self.began

    @property
    def sight(self) -> Sight:
        """What was seen last."""
        return self.watch.sight if self.watch else Sight()

    @property
    def events(self) -> list[Event]:
        """What has been done to whom."""
        return self.timeline.events if self.timeline else []

    def tell(self, text: str) -> None:
        """The text is on every screen."""
        line = Line(at=self.elapsed, text=text)
        self.lines.append(line)
        if self.listener:
            self.listener(line)

    def last_winner(self) -> str:
        """Return the scheduler whose claim the last run was."""
        return self.sight.runs[-1].winner if self.sight.runs else ""

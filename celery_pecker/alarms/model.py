"""The nouns: what was found, what rings of it, a notice. Pure."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

MOST = 1_000
"""Rows at which the statements end that find."""
LOG = "log"
"""The target that is always there."""


class Event(StrEnum):
    """What a notice says of its alarm."""

    RINGING = "ringing"
    RECOVERED = "recovered"
    TRIAL = "trial"


LONGEST = 500
"""Characters of a sentence."""


def shortened(text: str) -> str:
    """Return a sentence as long as it may be."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def one_line(text: str) -> str:
    """Return a name or an error as one line: a line break would begin a forged one."""
    return "".join(one if one.isprintable() else " " for one in text)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong by the tables."""

    subject: str
    since: datetime | None = None
    """Since when; None: since it was found."""
    number: float = 0.0
    """How many or how long, where the kind counts."""
    detail: str = ""
    about: str = ""
    """What patterns are compared with; of a job its task."""


@dataclass(frozen=True, slots=True)
class DueRule:
    """A rule that this replica looks at now, under its epoch."""

    rule: str
    epoch: int
    first: bool
    """Whether no look was ever recorded."""
    stepped: float | None
    """Seconds by which the clock reads earlier than at the last look, or None."""
    passed: str
    """The last name that was read, where entries are read a part at a time."""
    interval: float
    """Seconds from this look to the next."""


@dataclass(frozen=True, slots=True)
class StoredSlot:
    """The last slot of a stored schedule that is no grid."""

    name: str
    version: int
    executed_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """What is to be recorded of one subject."""

    finding: Finding
    detail: str
    after: float
    cooldown: float
    recovery: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice on its way to one target: what a callable is called with."""

    id: int
    """Two of one id are one notice that was sent twice; a newer one has its own."""
    target: str
    rule: str
    kind: str
    subject: str
    event: str
    """ringing, recovered or trial."""
    detail: str
    since: datetime
    """Since when it is so."""
    at: datetime
    """When it rang, or recovered."""
    epoch: int = field(repr=False, default=0)
    tries: int = 0
    subjects: tuple[str, ...] = ()
    """All that it is about: of a storm one notice is sent."""
    severity: str = "warning"
    """critical or warning, as its rule says."""
    link: str = ""
    """Where Flower shows it; empty without ``pecker_flower_url``."""

    @property
    def title(self) -> str:
        """One line."""
        several = len(self.subjects)
        about = f"{several} at once" if several > 1 else one_line(self.subject)
        return f"celery-pecker: {self.event}: {self.rule}: {about}"

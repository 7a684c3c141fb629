"""What PostgreSQL wrote into its log of the statements that it ran. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_TOOK = re.compile(
    r"duration: (?P<ms>[\d.]+) ms  (?P<step>statement|execute|bind|parse)\b[^/]*"
    r"/\* celery_pecker:(?P<label>\w+) \*/"
)
_LABEL = re.compile(r"STATEMENT:  /\* celery_pecker:(?P<label>\w+) \*/")


@dataclass(slots=True)
class Took:
    """How long the calls of one statement took."""

    ms: list[float] = field(default_factory=list)
    cancelled: int = 0
    """Calls that took longer than the caller waits for."""

    @property
    def most(self) -> float:
        """Milliseconds of the longest call."""
        return max(self.ms, default=0.0)


def timed(lines: Iterable[str]) -> dict[str, Took]:
    """Return the statements of ours by label.

    A prepared one has up to three lines: what it took to parse and to bind is added to
    what it took to execute, which is the last of them.
    """
    found: dict[str, Took] = {}
    before: dict[str, float] = {}
    too_long = False
    for line in lines:
        took = _TOOK.search(line)
        if took:
            label, ms = took["label"], float(took["ms"])
            if took["step"] in {"parse", "bind"}:
                before[label] = before.get(label, 0.0) + ms
            else:
                one = found.setdefault(label, Took())
                one.ms.append(ms + before.pop(label, 0.0))
            continue
        named = _LABEL.search(line)
        if named and too_long:
            found.setdefault(named["label"], Took()).cancelled += 1
        if "ERROR:" in line:
            too_long = "statement timeout" in line
    return found

"""What one guard is, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("celery_pecker", "celery_sharding", "throttle")
KINDS = {".py", ".sql", ".lua", ".js", ".html", ".css"}


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard, and which tests miss it.

    It is named by what it says, not by its file: code that moves to another module or
    into another block takes its guard along.
    """

    name: str
    text: str
    """Stands in one file of `within`, at any indentation."""
    without: str
    """Stands there instead when the guard is taken out."""
    tests: str
    within: str = ""
    """A file or folder, for a text that stands in several files of the packages."""
    also: tuple[str, str] | None = None
    """A second place of the same file that holds the same, for its own reason."""

    def files(self) -> list[str]:
        """Return the files that hold the text, from the root of the repository."""
        found = {
            path: spaces
            for path, source in sources(self.within).items()
            if (spaces := self._shift(source)) is not None
        }
        # Text at the indentation of the list comes before text that has moved.
        nearest = min(found.values(), key=abs, default=0)
        return [path for path, spaces in found.items() if abs(spaces) == abs(nearest)]

    def taken_out(self, source: str) -> str:
        """Return the source of a file of the guard's without it."""
        spaces = self._shift(source) or 0
        for text, without in self._edits():
            source = source.replace(shifted(text, spaces), shifted(without, spaces))
        return source

    def _edits(self) -> list[tuple[str, str]]:
        return [(self.text, self.without), *([self.also] if self.also else [])]

    def _shift(self, source: str) -> int | None:
        """Return by how many spaces all texts stand deeper there, or None."""
        for spaces in SHIFTS:
            if all(shifted(text, spaces) in source for text, _ in self._edits()):
                return spaces
        return None


SHIFTS = (0, -4, 4, -8, 8)
"""Spaces by which a text may stand deeper than when it was written down."""


def shifted(text: str, spaces: int) -> str:
    """Return a text with its lines that much deeper; the first if it is indented."""
    lines = text.split("\n")
    begins = 0 if text.startswith(" ") else 1
    for number, line in enumerate(lines[begins:], begins):
        if line.strip():
            width = len(line) - len(line.lstrip()) + spaces
            lines[number] = " " * width + line.lstrip()
    return "\n".join(lines)


@cache
def sources(within: str) -> dict[str, str]:
    """Return the text of each file of the packages, or of `within`, by its path."""
    paths = [ROOT / place for place in ([within] if within else PACKAGES)]
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for place in paths
        for path in ([place] if place.is_file() else sorted(place.rglob("*")))
        if place.is_file() or path.suffix in KINDS
    }

"""Count over many runs which tests failed, and how often."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

GROUP = re.compile(r"@[^@\]]+$")
"""What stands behind the name of a test that belongs to a group: see conftest.py."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """One test."""

    passed: int = 0
    failed: int = 0
    text: str = ""
    """The last failure."""

    @property
    def flaky(self) -> bool:
        """Whether it failed and passed."""
        return bool(self.passed and self.failed)

    @property
    def rate(self) -> float:
        """Return the part of the runs in which it failed."""
        return self.failed / ((self.passed + self.failed) or 1)


@dataclass(slots=True)
class Tallies:
    """All tests of all runs."""

    tests: dict[str, Tally] = field(default_factory=dict)

    def add(self, lines: Iterable[str]) -> None:
        """Count one run: a test that passed and failed in its teardown has failed.

        A line that is cut off, of a run that was killed, is left out.
        """
        outcomes: dict[str, str] = {}
        for line in lines:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            name = GROUP.sub("", told["test"])
            if told["outcome"] == "failed":
                self.tests.setdefault(name, Tally()).text = told["text"]
            if outcomes.get(name) != "failed":
                outcomes[name] = told["outcome"]
        for name, outcome in outcomes.items():
            one = self.tests.setdefault(name, Tally())
            one.passed += outcome == "passed"
            one.failed += outcome == "failed"

    @property
    def failing(self) -> list[tuple[str, Tally]]:
        """Return the tests that failed, those that fail most often first."""
        found = [(name, one) for name, one in self.tests.items() if one.failed]
        return sorted(found, key=lambda pair: (-pair[1].rate, pair[0]))

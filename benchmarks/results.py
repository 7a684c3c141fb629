"""What was measured, one JSON file a row; written after each trial."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Sample = dict[str, Any]
HOME = Path(__file__).with_name("results")


@dataclass(frozen=True, slots=True)
class Results:
    """A directory of results: those that are published, or another one."""

    folder: Path

    def samples(self, row: str) -> list[Sample]:
        """Return the trials of a row; none if it was never run."""
        read: list[Sample] = self._read(row).get("samples", [])
        return read

    def facts(self, row: str) -> dict[str, str]:
        """Return what there is to say of the machine and the servers of that run."""
        read: dict[str, str] = self._read(row).get("facts", {})
        return read

    def failures(self, row: str) -> list[str]:
        """Return the trials of the row that came to nothing, each with the reason."""
        read: list[str] = self._read(row).get("failures", [])
        return read

    def clear(self, row: str, **matching: object) -> None:
        """Forget the row's trials that have these values, or all of them."""
        self._write(
            row,
            self.facts(row),
            [one for one in self.samples(row) if not _like(one, matching)],
            [],
        )

    def has(self, row: str, **matching: object) -> bool:
        """Whether there is a trial of the row that has these values."""
        return any(_like(one, matching) for one in self.samples(row))

    def add(self, row: str, facts: Mapping[str, str], sample: Sample) -> None:
        """The trial is on disk."""
        self._write(row, facts, [*self.samples(row), sample], self.failures(row))

    def fail(self, row: str, facts: Mapping[str, str], failure: str) -> None:
        """It is on disk that a trial came to nothing, and why."""
        self._write(row, facts, self.samples(row), [*self.failures(row), failure])

    def forgive(self, row: str, label: str) -> None:
        """What came to nothing is tried again."""
        kept = [one for one in self.failures(row) if not one.startswith(f"{label}: ")]
        if kept != self.failures(row):
            self._write(row, self.facts(row), self.samples(row), kept)

    def _read(self, row: str) -> dict[str, Any]:
        path = self.folder / f"{row}.json"
        if not path.exists():
            return {}
        read: dict[str, Any] = json.loads(path.read_text())
        return read

    def _write(
        self,
        row: str,
        facts: Mapping[str, str],
        samples: list[Sample],
        failures: list[str],
    ) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # A line for each trial: series would fill pages otherwise.
        lines = ",\n".join(f"  {json.dumps(one)}" for one in samples)
        head = f'"facts": {json.dumps(facts)},\n "failures": {json.dumps(failures)}'
        text = f'{{{head},\n "samples": [\n{lines}\n]}}\n'
        # replaced as a whole: a run that is broken off leaves what it had
        draft = self.folder / f".{row}.json"
        draft.write_text(text)
        draft.replace(self.folder / f"{row}.json")


def _like(sample: Sample, wanted: Mapping[str, object]) -> bool:
    return all(sample.get(key) == value for key, value in wanted.items())

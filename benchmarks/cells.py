"""What stands in a table's cells: trials in groups, medians, figures as printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.results import Sample
from benchmarks.schedules.subjects import Subject

NONE = "-"
ORDER = tuple(str(subject) for subject in Subject)


def grid(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table; all columns but the first are numbers."""
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))


def columns(
    samples: Iterable[Sample], cells: Mapping[str, str | Callable[[Sample], str]]
) -> str:
    """Return a table of trials, a line each: heads, and what makes a cell of a trial.

    A text is a pattern for `str.format`, by the trial's keys: ``{ms[p99]:.1f}``.
    """
    lines = [
        [
            cell.format_map(one) if isinstance(cell, str) else cell(one)
            for cell in cells.values()
        ]
        for one in samples
    ]
    return grid([*cells], lines)


def loads(samples: Iterable[Sample]) -> list[tuple[int, str, str, list[Sample]]]:
    """Return the trials of each load, broker and subject, ours first."""
    groups: dict[tuple[str, int, int], list[Sample]] = {}
    for one in samples:
        key = (one["broker"], one["entries"], ORDER.index(one["subject"]))
        groups.setdefault(key, []).append(one)
    return [
        (entries, broker, ORDER[nth], groups[broker, entries, nth])
        for broker, entries, nth in sorted(
            groups, key=lambda key: (key[0] == "rabbitmq", key[1], key[2])
        )
    ]


def ranked(samples: Iterable[Sample]) -> list[Sample]:
    """Return trials in the order of their subjects, ours first."""
    return sorted(samples, key=lambda one: ORDER.index(one["subject"]))


def of(trials: Sequence[Sample], *path: str) -> float | None:
    """Return the median of a figure over the runs; None where nobody has it."""
    found = []
    for one in trials:
        value: Any = one
        for step in path:
            value = None if value is None else value.get(step)
        if value is not None:
            found.append(value)
    return median(found) if found else None


def said(value: float | None, pattern: str = "{:.0f}") -> str:
    """Return a figure as it is printed."""
    return NONE if value is None else pattern.format(value)


def spreads(trials: Sequence[Sample], key: str, pattern: str = "{:.0f}") -> str:
    """Return p50 / p95 / p99 of a figure."""
    values = [of(trials, key, name) for name in ("p50", "p95", "p99")]
    if values[0] is None:
        return NONE
    return " / ".join(said(value, pattern) for value in values)

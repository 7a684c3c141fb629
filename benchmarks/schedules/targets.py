"""What was to be reached with stored schedules, and what was."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.results import Results
from benchmarks.schedules.subjects import Subject
from benchmarks.verdict import Verdict

CODE = Subject.FAST
"""Whose entries stand in code."""


def verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on what was measured of ours."""

    def ours(row: str) -> list[dict[str, object]]:
        return [s for s in results.samples(row) if s["subject"] == Subject.STORED]

    return [
        *(verdict for one in ours("stored_edit") for verdict in _edit(one)),
        *_start(ours("stored_start")),
        *(
            _code(one)
            for one in results.samples("stored_start")
            if one["subject"] == CODE
        ),
        *(_busy(one) for one in ours("stored_busy")),
    ]


def _edit(one: dict[str, object]) -> Iterator[Verdict]:
    for name, key in (("what is added", "added_s"), ("a removal", "removed_s")):
        yield Verdict(
            target=f"{name} acts within a second, p99",
            measured=f"{one[key]['p99']:.2f} s",  # type: ignore[index]
            met=one[key]["p99"] <= 1.0 and not one["never"],  # type: ignore[index]
        )


def _start(samples: list[dict[str, object]]) -> Iterator[Verdict]:
    by = {one["entries"]: one for one in samples}
    if 100_000 in by:
        one = by[100_000]
        yield Verdict(
            target="100,000 stored: ready in ≤ 5 s, ≤ 300 MB",
            measured=f"{one['ready_s']:.1f} s, {one['rss_mb']:.0f} MB",
            met=one["ready_s"] <= 5 and one["rss_mb"] <= 300,  # type: ignore[operator]
        )
        if 100 in by:
            few, many = by[100]["cpu_ms"], one["cpu_ms"]
            yield Verdict(
                target="100,000 stored: an idle second costs what it does with 100",
                measured=f"{few:.1f} → {many:.1f} ms",
                met=many <= 1.5 * few + 1,  # type: ignore[operator]
            )


def _code(one: dict[str, object]) -> Verdict:
    return Verdict(
        target=f"{one['entries']:,} in code: ready in ≤ 5 s",
        measured=f"{one['ready_s']:.1f} s",
        met=one["ready_s"] <= 5,  # type: ignore[operator]
    )


def _busy(one: dict[str, object]) -> Verdict:
    what = f"{one['edits_rate']:,} edits a second" if one["edits_rate"] else "no edits"
    if one.get("batch", 0) > 1:  # type: ignore[operator]
        what += f" in calls of {one['batch']}"
    return Verdict(
        target=f"{one['due']:,} due, {one['replicas']} scheduler(s), {what}: delivered",
        measured=f"{one['share']:.2%}, {one['doubled']} doubled",
        met=one["share"] >= 0.999 and not one["doubled"],  # type: ignore[operator]
    )

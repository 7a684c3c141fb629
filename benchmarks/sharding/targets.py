"""What was to be reached with sharded jobs, and what was."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchmarks.results import Results, Sample
from benchmarks.tables.sharding import OURS
from benchmarks.verdict import Verdict

DATA = "a job's data"


def verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on what was measured of sharded jobs."""
    return [
        *_many(results.samples("sharding_many")),
        *_submit(results.samples("sharding_submit")),
        *_items(results.samples("sharding_items")),
        *_kill(results.samples("sharding_kill")),
        *_poison(results.samples("sharding_poison")),
        *_post(results.samples("sharding_post")),
        *_control(results.samples("sharding_control")),
        *_flower(results.samples("sharding_flower")),
        *_short(results.samples("sharding_short")),
        *_open(results.samples("sharding_open")),
    ]


def _many(samples: list[Sample]) -> Iterator[Verdict]:
    took: dict[str, list[float]] = {}
    for one in samples:
        if one["shards"] == 10_000:
            took.setdefault(one["who"], []).append(one["total_s"])
    if OURS not in took:
        return
    ours = median(took.pop(OURS))
    others = ", ".join(f"{who} {median(each):.1f}" for who, each in took.items())
    yield Verdict(
        target="10,000 shards of 2 submitted and done ≤ 5 s",
        measured=f"{ours:.1f} s; {others}",
        met=ours <= 5,
    )


def _submit(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        if one["way"] != "inline list":
            yield Verdict(
                target=f"submit call ≤ 200 ms: {one['items']:,} items by {one['way']}",
                measured=f"p95 {one['ms']['p95']:.1f} ms,"
                f" first {one['first_ms']:.0f} ms",
                met=one["ms"]["p95"] <= 200,
            )


def _items(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        yield Verdict(
            target=f"{one['items']:,} items, {one['layers']} layers,"
            f" {one['shards']:,} shards: coordination ≤ 60 µs an item: {one['kind']}",
            measured=f"{one['us']:.1f} µs",
            met=one["us"] <= 60,
        )


def _kill(samples: list[Sample]) -> Iterator[Verdict]:
    for lease in sorted({one["lease"] for one in samples if "lease" in one}):
        trials = [one for one in samples if one.get("lease") == lease]
        again = [one["again_s"] for one in trials]
        most = max(one for one in again if one is not None)
        lost = sum(one["lost"] for one in trials)
        yield Verdict(
            target=f"kill -9: its shards run again ≤ {lease + 2:g} s"
            f" (lease of {lease:g} s + 2), none lost",
            measured=f"{most:.1f} s at most, {lost} lost",
            met=most <= lease + 2 and None not in again and not lost,
        )


def _poison(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        if one["who"] != OURS:
            continue
        among = f"one poison item in {one['items']:,}"
        yield Verdict(
            target=f"{among}: exactly it is reported",
            measured=f"{one['reported']} reported, {one['never_begun']} never begun",
            met=one["reported"] == 1 and one["right"] and not one["never_begun"],
        )
        yield Verdict(
            target=f"{among}: done ≤ 10 s",
            measured=f"{one['seconds']:.1f} s",
            met=one["seconds"] <= 10,
        )


def _post(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        if one["who"] == OURS and one["grown_mb"] is not None:
            yield Verdict(
                target=f"Post over {one['results']:,} results of {one['letters']}"
                " letters: RSS grows ≤ 64 MB",
                measured=f"{one['grown_mb']:.1f} MB",
                met=one["grown_mb"] <= 64,
            )


STOPS = {"pause": "pause_job", "cancel": "decide_job"}
"""The write that stops a job, by its label; what follows it sends and tells."""


def _control(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        for act, label in STOPS.items():
            asked, effective = one[act]["statements"], one[act]["effective_s"]
            writes = None if asked is None else sum(label in each for each in asked)
            in_all = "" if asked is None else f" ({len(asked)} statements in all)"
            yield Verdict(
                target=f"{act} of {one['queued']:,} queued shards: one write,"
                " effective within 1 s",
                measured=f"{'?' if writes is None else writes} write{in_all},"
                f" {effective:.2f} s",
                met=effective <= 1 and writes in {None, 1},
            )


def _flower(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        pages = {name: page["ms"]["p95"] for name, page in one["pages"].items()}
        worst = max(pages, key=lambda name: pages[name])
        yield Verdict(
            target=f"Flower's pages at {one['shards']:,} shards: p95 ≤ 50 ms",
            measured=f"a job's data {pages[DATA]:.0f} ms; slowest,"
            f" {worst}: {pages[worst]:.0f} ms",
            met=pages[worst] <= 50,
        )


FIRST_HALF = 0.6
"""Part of the time in which half of the jobs have ended that end one after the other;
where each stage of all comes before the next, they end together, near 1."""
FOUND = 5.0
"""Seconds after its lease, in which a lost ticket is found."""


def _short(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        if one["way"] == "one":
            ours, chord = (one["ms"][who]["p50"] for who in (OURS, "chord"))
            yield Verdict(
                target=f"a job of {one['items']} items takes no longer than a chord"
                f" of {one['items']}, median",
                measured=f"{ours:.0f} ms; chord {chord:.0f}",
                met=ours <= chord,
            )
        else:
            first, half, last = (one[f"{at}_s"] for at in ("first", "median", "last"))
            part = (half - first) / max(last - first, 1e-9)
            yield Verdict(
                target=f"{one['jobs']:,} waiting jobs end one after the other: half"
                f" within {FIRST_HALF:.0%} of the time from the first to the last",
                measured=f"{part:.0%}",
                met=part <= FIRST_HALF and one["ended"] == one["jobs"],
            )


def _open(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        seconds = one["found_s"].values()
        never = f"not within {one['given_up_s']:.0f} s"
        yield Verdict(
            target=f"a ticket lost among {one['jobs']:,} open jobs is found within"
            f" {FOUND:g} s after its lease",
            measured=never if None in seconds else f"{max(seconds):.1f} s",
            met=None not in seconds and max(seconds) <= FOUND,
        )
        worst = max(page["ms"]["p95"] for page in one["pages"].values())
        yield Verdict(
            target=f"Flower's list of {one['jobs']:,} open jobs: p95 ≤ 50 ms",
            measured=f"{worst:.0f} ms",
            met=worst <= 50,
        )

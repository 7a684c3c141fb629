"""Sharded jobs: how fast, how sure, beside who else does such things."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

from benchmarks.cells import NONE, columns, grid, said, spreads
from benchmarks.results import Sample

OURS = "celery_sharding"


def many(samples: list[Sample]) -> str:
    """Return who takes how long with many small shards."""
    lines = []
    for (shards, items, who), trials in groups(samples, "shards", "items", "who"):
        totals = [one["total_s"] for one in trials]
        cpu = [sum(one["cpu_s"].values()) for one in trials if "cpu_s" in one]
        lines.append(
            [
                f"{shards:,} shards of {items} · {who}",
                f"{len(trials)}",
                f"{median(one['submit_s'] for one in trials):.2f}",
                f"{median(totals):.2f}",
                f"{min(totals):.2f} to {max(totals):.2f}",
                said(median(cpu) if cpu else None, "{:.1f}"),
            ]
        )
    head = ("job", "runs", "call, s", "done, s", "least to greatest")
    return grid((*head, "CPU of workers and servers, s"), lines)


def submit(samples: list[Sample]) -> str:
    """Return what a call takes."""
    return columns(
        samples,
        {
            "items given by": "{way}",
            "items": "{items:,}",
            "calls": "{calls}",
            "p50 / p95 / p99, ms": lambda one: " / ".join(
                f"{one['ms'][name]:.1f}" for name in ("p50", "p95", "p99")
            ),
            "the first call of a process, ms": "{first_ms:.0f}",
        },
    )


def items(samples: list[Sample]) -> str:
    """Return what is not the items' own."""
    lines = []
    for one in samples:
        parts = one["parts"]
        told = [parts[name] for name in ("plan_s", "run_s", "close_s")]
        cpu = one["cpu_us"]
        lines.append(
            [
                f"{one['kind']}, {one['items']:,} items in {one['shards']:,} shards",
                f"{one['makespan_s']:.1f}",
                " / ".join(said(value, "{:.1f}") for value in told),
                f"{one['alone_s']:.2f}",
                f"**{one['us']:.1f}**",
                ", ".join(f"{who} {spent:.1f}" for who, spent in cpu.items()),
            ]
        )
    head = ("job", "whole, s", "plan / run / close, s", "plain loop, s")
    return grid((*head, "coordination, µs an item", "CPU, µs an item"), lines)


def kill(samples: list[Sample]) -> str:
    """Return when shards of the dead ran again."""
    lines = []
    for key, trials in groups(samples, "who", "victim", "lease"):
        who, victim, lease = key
        name = who if victim is None else f"{who}, {victim} killed, lease {lease:g} s"
        again = [one["again_s"] for one in trials if one["again_s"] is not None]
        done = sum(bool(one["completed"]) for one in trials)
        waited = [one["waited_s"] for one in trials if "waited_s" in one]
        never = f"not within {max(waited):.0f} s" if waited and not done else NONE
        lines.append(
            [
                name,
                f"{done} of {len(trials)}",
                said(median(again) if again else None, "{:.1f}") if again else never,
                said(max(again, default=None), "{:.1f}"),
                said(_sum(trials, "lost")),
                said(_sum(trials, "repeated")),
            ]
        )
    head = ("who", "completed", "runs again after, s (median)", "greatest")
    return grid((*head, "items lost", "items begun twice"), lines)


def poison(samples: list[Sample]) -> str:
    """Return what is said of one item that kills its process."""
    lines = []
    for one in samples:
        if one["who"] == OURS:
            reported = f"{one['reported']} (code {', '.join(map(str, one['codes']))})"
            rest = [f"{one['deaths']}", f"{one['again']:,}", f"{one['seconds']:.0f}"]
        else:
            reported = f"{one['reported_items']} (a task of them)"
            rest = [NONE, NONE, NONE]
        lines.append([one["who"], reported, *rest])
    head = ("who", "items reported", "processes it killed")
    return grid((*head, "other items begun again", "whole, s"), lines)


def post(samples: list[Sample]) -> str:
    """Return by how much the process grows that sees all results."""
    return columns(
        samples,
        {
            "who": "{who}",
            "results": "{results:,} of {letters} letters",
            "process grew by, MB": lambda one: said(one["grown_mb"], "{:.1f}"),
        },
    )


def control(samples: list[Sample]) -> str:
    """Return what pause, resume and cancel take."""
    lines = []
    for one in samples:
        for act in ("pause", "resume", "cancel"):
            told = one[act]
            asked = told["statements"]
            lines.append(
                [
                    f"{act}, {one['queued']:,} shards queued",
                    NONE if asked is None else f"{len(asked)}",
                    f"{told['call_ms']:.1f}",
                    f"{told['effective_s']:.2f}",
                    said(told.get("told_s"), "{:.2f}"),
                ]
            )
    head = ("what", "statements", "call, ms", "effective after, s")
    return grid((*head, "Celery was told after, s"), lines)


def flower(samples: list[Sample]) -> str:
    """Return how soon pages are there."""
    one = samples[-1]
    lines = [
        [name, spreads([found], "ms", "{:.0f}"), f"{found['bytes'] / 1e3:,.0f}"]
        for name, found in one["pages"].items()
    ]
    asked = f"a job of {one['shards']:,} shards, {one['requests']} requests each"
    return grid((asked, "p50 / p95 / p99, ms", "kB"), lines)


def short(samples: list[Sample]) -> str:
    """Return what a job of few items takes, and how many at once end."""
    lines = [
        [f"one at a time · {who}", spreads([{"ms": each}], "ms", "{:.0f}"), NONE, NONE]
        for one in samples
        if one["way"] == "one"
        for who, each in one["ms"].items()
    ] + [
        [
            f"{one['jobs']:,} waiting · {OURS}",
            NONE,
            f"{one['median_s']:.1f}",
            f"{one['last_s']:.1f}",
        ]
        for one in samples
        if one["way"] == "many"
    ]
    head = ("jobs of 10 items", "p50 / p95 / p99, ms", "half of them had ended, s")
    return grid((*head, "all, s"), lines)


def open_jobs(samples: list[Sample]) -> str:
    """Return when what was lost among very many jobs is found."""
    lines = []
    for one in samples:
        found = one["found_s"]
        never = f"not within {one['given_up_s']:.0f} s"
        held, sent = (
            never if found[name] is None else f"{found[name]:.1f} s"
            for name in ("held", "sent")
        )
        lines += [
            ["a ticket whose holder died is sent again after its lease", held],
            ["a ticket whose message is overdue is sent again", sent],
            ["a sweep", f"{one['sweep_ms']:.0f} ms"],
        ] + [
            [
                f"Flower: {name}, p50 / p95 / p99",
                f"{spreads([each], 'ms', '{:.0f}')} ms",
            ]
            for name, each in one["pages"].items()
        ]
    head = f"{samples[-1]['jobs']:,} open jobs" if samples else "open jobs"
    return grid((head, "measured"), lines)


def groups(
    samples: Iterable[Sample], *names: str
) -> list[tuple[tuple[Any, ...], list[Sample]]]:
    """Return trials by what they have in common, in the order in which they came."""
    found: dict[tuple[Any, ...], list[Sample]] = {}
    for one in samples:
        found.setdefault(tuple(one.get(name) for name in names), []).append(one)
    return [*found.items()]


def _sum(trials: list[Sample], name: str) -> float | None:
    known = [one[name] for one in trials if name in one]
    return sum(known) if known else None

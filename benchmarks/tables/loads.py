"""Who keeps up, at what cost, how evenly."""

from __future__ import annotations

from benchmarks.cells import columns, grid, loads, of, ranked, said, spreads
from benchmarks.results import Sample
from benchmarks.schedules.subjects import Subject


def pace(samples: list[Sample]) -> str:
    """Return who keeps up and how late."""
    lines = []
    for entries, broker, subject, trials in loads(samples):
        share = sum(t["delivered"] for t in trials) / sum(t["due"] for t in trials)
        lines.append(
            [
                f"{entries:,} · {broker} · {subject}",
                f"{len(trials)} of {trials[0]['seconds']} s",
                f"{share:.4f}" + (" (it ended)" if _ended(trials) else ""),
                said(of(trials, "rate"), "{:,.0f}"),
                spreads(trials, "message_ms"),
                spreads(trials, "last_ms"),
                spreads(trials, "lag_ms"),
                spreads(trials, "gap_s", "{:.3f}"),
            ]
        )
    head = (
        *("entries per second · broker · scheduler", "runs", "delivered / due"),
        *("messages/s", "lateness of a message, ms", "of a slot's last message, ms"),
        *("lag behind an entry's first message, ms", "gap, s"),
    )
    return grid(head, lines)


def _ended(trials: list[Sample]) -> bool:
    """Return whether a scheduler ended by itself."""
    return any(one.get("ended") for one in trials)


def cost(samples: list[Sample]) -> str:
    """Return what it costs; small loads say nothing at a clock tick of 10 ms."""
    lines = [
        [
            f"{entries:,} · {broker} · {subject}",
            said(of(trials, "scheduler_cpu_s_per_1000"), "{:.3f}"),
            # who asks nothing of it: what it spends then is its own housekeeping
            said(
                of(trials, "postgresql_cpu_s_per_1000")
                if Subject(subject).asks_postgres
                else None,
                "{:.3f}",
            ),
            said(of(trials, "redis_cpu_s_per_1000"), "{:.3f}"),
            said(of(trials, "scheduler_cpu_share"), "{:.0%}"),
            said(of(trials, "scheduler_rss_mb")),
            spreads(trials, "claim_ms"),
            spreads(trials, "publish_ms"),
            said(of(trials, "wal_bytes_per_slot")),
        ]
        for entries, broker, subject, trials in loads(samples)
        if entries >= 1000
    ]
    head = (
        *("entries per second · broker · scheduler", "scheduler, CPU s per 1,000"),
        *("PostgreSQL", "Redis", "of a core", "RSS, MB"),
        *("claim of 1,000, ms", "publish, ms", "WAL, bytes a slot"),
    )
    return grid(head, lines)


def precision(samples: list[Sample]) -> str:
    """Return how even one entry's steps are."""
    return columns(
        ranked(samples),
        {
            "one entry": "{subject}",
            "watched": "{seconds} s",
            "gap, s": lambda one: spreads([one], "gap_s", "{:.4f}"),
            "least to greatest": lambda one: (
                f"{min(one['gaps_s']):.4f} to {max(one['gaps_s']):.4f}"
            ),
            "lag at the end, ms": lambda one: f"{one['lag_s'][-1] * 1e3:+.1f}",
            "behind the due instant, ms": lambda one: said(
                of([one], "message_ms", "p50"), "{:.1f}"
            ),
        },
    )

"""The outbox: what a caller pays, and how fast messages leave."""

from __future__ import annotations

from benchmarks.cells import NONE, columns, grid, spreads
from benchmarks.results import Sample


def relay(samples: list[Sample]) -> str:
    """Return how fast one relay is."""
    return columns(
        samples,
        {
            "broker": "{broker}, {rows:,} messages",
            "messages a second": "**{rate:,}**",
            "processor time, µs a message": lambda one: ", ".join(
                f"{who} {spent:.0f}" for who, spent in one["cpu_us"].items()
            ),
            "WAL beyond the insert, bytes a message": "{wal_bytes:,}",
        },
    )


def latency(samples: list[Sample]) -> str:
    """Return how soon after a commit a message is there."""
    return columns(
        samples,
        {
            "": "one relay, {commits} commits",
            "p50 / p95 / p99, ms": lambda one: spreads([one], "ms", "{:.1f}"),
        },
    )


def call(samples: list[Sample]) -> str:
    """Return what a call takes."""
    one = samples[-1]
    lines = [
        ["`delay()` to Redis", f"{one['us']['celery']}", f"{one['cpu_us']['celery']}"],
        [
            "`delay()` to the outbox, in a transaction",
            f"{one['us']['outbox']} ({one['ratio']:.2f} times)",
            f"{one['cpu_us']['outbox']} ({one['cpu_ratio']:.2f} times)",
        ],
        [
            f"`send_many` of {one['many_rows']:,}",
            f"{1e6 / one['many_rate']:.0f} (**{one['many_rate']:,}** a second)",
            "",
        ],
    ]
    return grid(("call", "elapsed, µs", "processor time of the caller, µs"), lines)


def commits(samples: list[Sample]) -> str:
    """Return commits a second."""
    lines = [
        [
            who,
            f"{one['rate'][key]:,}",
            f"{one['cpu_us'][key]:.0f}",
            f"**{one['ratio']:.2f}** ({one['interval'][0]:.2f} to"
            f" {one['interval'][1]:.2f}, {len(one['pairs'])} pairs)"
            if key == "outbox"
            else "",
        ]
        for one in samples
        for who, key in (("a message recorded", "outbox"), ("a plain insert", "plain"))
    ]
    head = ("16 clients, in each commit", "commits a second")
    cost = "processor time of the server, µs a commit"
    return grid((*head, cost, "ratio of a pair, median and 95 % of it"), lines)


def deferred(samples: list[Sample]) -> str:
    """Return what a claim costs."""
    lines = []
    for one in samples:
        for which, name in (
            ("alone", "alone"),
            ("beside", f"beside {one['waiting']:,}"),
        ):
            lines.append([name, spreads([one], f"{which}_ms", "{:.1f}")])
    return grid(("one message is due", "claim and close, p50 / p95 / p99, ms"), lines)


def million(samples: list[Sample]) -> str:
    """Return how large the table grows, and what a claim costs meanwhile."""
    lines = []
    for one in samples:
        held = f" for {one['held_seconds']} s" if one["held_seconds"] else ""
        claim = one["claim_ms"]
        lines.append(
            [
                f"{one['way']}{held}, {one['rows']:,} messages",
                f"{one['greatest_mb']:,}",
                f"{claim['first']:.1f} / {claim['last']:.1f} / {claim['most']:.1f}",
            ]
        )
    head = ("", "table and indexes at most, MB")
    return grid((*head, "a claim: first fifth, last fifth, longest, ms"), lines)


def hundred(samples: list[Sample]) -> str:
    """Return how fast threads take and close rows, and whether each was once."""
    return columns(
        samples,
        {
            "": "{threads} threads, {rows:,} tasks",
            "done a second": "{per_second:,}",
            "runs": "{ran:,}",
            "distinct ids in the log": "{distinct:,} of {logged:,}",
        },
    )


def peers(samples: list[Sample]) -> str:
    """Return what recording and delivering takes, ours first."""
    return columns(
        samples,
        {
            "": lambda one: " ".join(
                filter(None, (one["subject"], one["what"] and f"({one['what']})"))
            ),
            "calls a second": "{calls_rate:,}",
            "commits a second, one call in each": lambda one: _rate(
                one, "commits_rate"
            ),
            "delivered or run a second": lambda one: _rate(one, "rate"),
            "commit → there, p50 / p95 / p99, ms": lambda one: (
                spreads([one], "ms", "{:.1f}") if "ms" in one else NONE
            ),
        },
    )


def _rate(one: Sample, key: str) -> str:
    return f"{one[key]:,}" if key in one else NONE

"""What was to be reached with the outbox, and what was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.results import Results
from benchmarks.verdict import Verdict

RATES = {"redis": 10_000, "rabbitmq": 4_000}


def verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on what was measured of the outbox."""
    made: list[Verdict] = []

    def judge(row: str, read: Callable[[Any], list[Verdict]]) -> None:
        for one in results.samples(row):
            made.extend(read(one))

    judge("outbox_relay", _relay)
    judge("outbox_latency", _latency)
    judge("outbox_call", _call)
    judge("outbox_commits", _commits)
    judge("outbox_deferred", _deferred)
    judge("outbox_million", _million)
    judge("outbox_hundred", _hundred)
    return made


def _relay(one: Any) -> list[Verdict]:
    least = RATES[one["broker"]]
    return [
        Verdict(
            target=f"one relay ≥ {least:,} messages a second on {one['broker']}",
            measured=f"{one['rate']:,}",
            met=one["rate"] >= least,
        ),
        Verdict(
            target=f"WAL of a relayed message ≤ 600 bytes ({one['broker']})",
            measured=f"{one['wal_bytes']:,}",
            met=one["wal_bytes"] <= 600,
        ),
    ]


def _latency(one: Any) -> list[Verdict]:
    p50, p99 = one["ms"]["p50"], one["ms"]["p99"]
    return [
        Verdict(
            target="commit to broker p50 ≤ 50, p99 ≤ 120 ms",
            measured=f"{p50:.1f}, {p99:.1f} ms",
            met=p50 <= 50 and p99 <= 120,
        )
    ]


def _call(one: Any) -> list[Verdict]:
    return [
        Verdict(
            target="`delay()` at most 1.3 times Celery's own",
            measured=f"{one['ratio']:.2f} elapsed, {one['cpu_ratio']:.2f} processor",
            met=one["ratio"] <= 1.3,
        ),
        Verdict(
            target="`send_many` ≥ 20,000 a second",
            measured=f"{one['many_rate']:,}",
            met=one["many_rate"] >= 20_000,
        ),
    ]


def _commits(one: Any) -> list[Verdict]:
    return [
        Verdict(
            target="commits a second ≥ 0.9 of a plain insert's",
            measured="{:.2f} ({:.2f} to {:.2f})".format(one["ratio"], *one["interval"]),
            met=one["ratio"] >= 0.9,
        )
    ]


def _deferred(one: Any) -> list[Verdict]:
    alone, beside = one["alone_ms"]["p50"], one["beside_ms"]["p50"]
    return [
        Verdict(
            target=f"{one['waiting']:,} deferred do not slow a claim",
            measured=f"{alone:.2f} → {beside:.2f} ms",
            met=beside <= 1.5 * alone,
        )
    ]


def _million(one: Any) -> list[Verdict]:
    if one["way"] != "nobody holds a snapshot":
        first, last = one["claim_ms"]["first"], one["claim_ms"]["last"]
        return [
            Verdict(
                target=f"a snapshot held for {one['held_seconds']} s slows no claim",
                measured=f"{first:.1f} → {last:.1f} ms",
                met=last <= 1.5 * first,
            )
        ]
    return [
        Verdict(
            target=f"{one['rows']:,} messages through: table ≤ 200 MB",
            measured=f"{one['greatest_mb']:,} MB",
            met=one["greatest_mb"] <= 200,
        )
    ]


def _hundred(one: Any) -> list[Verdict]:
    return [
        Verdict(
            target=f"{one['threads']} threads: {one['rows']:,} distinct ids in the log",
            measured=f"{one['distinct']:,} of {one['logged']:,}",
            met=one["distinct"] == one["logged"] == one["rows"],
        )
    ]

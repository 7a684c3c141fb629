"""What was to be reached with the outbox, and what was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.results import Results
from benchmarks.verdict import Verdict

RATES = {"redis": 10_000, "rabbitmq": 4_000}


def verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on what was measured of the outbox."""
    made: list[Verdict] = []

    def judge(row: str, read: Callable[[Any], Iterator[Verdict]]) -> None:
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


def _relay(one: Any) -> Iterator[Verdict]:
    least = RATES[one["broker"]]
    yield Verdict(
        target=f"one relay ≥ {least:,} messages a second on {one['broker']}",
        measured=f"{one['rate']:,}",
        met=one["rate"] >= least,
    )
    yield Verdict(
        target=f"WAL of a relayed message ≤ 600 bytes ({one['broker']})",
        measured=f"{one['wal_bytes']:,}",
        met=one["wal_bytes"] <= 600,
    )


def _latency(one: Any) -> Iterator[Verdict]:
    p50, p99 = one["ms"]["p50"], one["ms"]["p99"]
    yield Verdict(
        target="commit to broker p50 ≤ 50, p99 ≤ 120 ms",
        measured=f"{p50:.1f}, {p99:.1f} ms",
        met=p50 <= 50 and p99 <= 120,
    )


def _call(one: Any) -> Iterator[Verdict]:
    yield Verdict(
        target="`delay()` at most 1.3 times Celery's own",
        measured=f"{one['ratio']:.2f} elapsed, {one['cpu_ratio']:.2f} processor",
        met=one["ratio"] <= 1.3,
    )
    yield Verdict(
        target="`send_many` ≥ 20,000 a second",
        measured=f"{one['many_rate']:,}",
        met=one["many_rate"] >= 20_000,
    )


def _commits(one: Any) -> Iterator[Verdict]:
    yield Verdict(
        target="commits a second ≥ 0.9 of a plain insert's",
        measured="{:.2f} ({:.2f} to {:.2f})".format(one["ratio"], *one["interval"]),
        met=one["ratio"] >= 0.9,
    )


def _deferred(one: Any) -> Iterator[Verdict]:
    alone, beside = one["alone_ms"]["p50"], one["beside_ms"]["p50"]
    yield Verdict(
        target=f"{one['waiting']:,} deferred do not slow a claim",
        measured=f"{alone:.2f} → {beside:.2f} ms",
        met=beside <= 1.5 * alone,
    )


def _million(one: Any) -> Iterator[Verdict]:
    if one["way"] != "nobody holds a snapshot":
        first, last = one["claim_ms"]["first"], one["claim_ms"]["last"]
        yield Verdict(
            target=f"a snapshot held for {one['held_seconds']} s slows no claim",
            measured=f"{first:.1f} → {last:.1f} ms",
            met=last <= 1.5 * first,
        )
        return
    yield Verdict(
        target=f"{one['rows']:,} messages through: table ≤ 200 MB",
        measured=f"{one['greatest_mb']:,} MB",
        met=one["greatest_mb"] <= 200,
    )


def _hundred(one: Any) -> Iterator[Verdict]:
    yield Verdict(
        target=f"{one['threads']} threads: {one['rows']:,} distinct ids in the log",
        measured=f"{one['distinct']:,} of {one['logged']:,}",
        met=one["distinct"] == one["logged"] == one["rows"],
    )

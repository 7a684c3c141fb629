"""What was to be reached, and what was: one line each."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cells import grid, of, said
from benchmarks.results import Results, Sample
from benchmarks.schedules.subjects import Subject
from benchmarks.verdict import Verdict

FAST, BEAT = Subject.FAST, Subject.BEAT


def verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on all that was measured."""
    return [
        *_pace(results.samples("pace")),
        *_failover(results.samples("failover")),
        *_statements(results.samples("statements")),
        *_snapshot(results.samples("snapshot")),
        *_doubles(results.samples("doubles"), results.samples("claims")),
        *_deadline(results.samples("deadline")),
        *_deadline_cost(results.samples("deadline_cost")),
        *_flower(results.samples("flower")),
    ]


def table(found: list[Verdict]) -> str:
    """Return verdicts as a table."""
    return grid(("target", "measured", ""), [verdict.line for verdict in found])


def _share(trials: list[Sample]) -> float:
    share: float = sum(t["delivered"] for t in trials) / sum(t["due"] for t in trials)
    return share


def _pace(samples: list[Sample]) -> Iterator[Verdict]:
    on_redis = [one for one in samples if one["broker"] == "redis"]
    for entries, least in ((1_000, 0.999), (5_000, 0.99)):
        trials = [
            one
            for one in on_redis
            if one["entries"] == entries and one["subject"] == FAST
        ]
        if not trials:
            continue
        share = _share(trials)
        yield Verdict(
            target=f"{entries:,} per-second entries: delivered/due ≥ {least}",
            measured=f"{share:.4f}",
            met=share >= least,
        )
        if entries == 1_000:
            for name, most in (("p95", 60), ("p99", 150)):
                worst = of(trials, "last_ms", name)
                yield Verdict(
                    target=f"1,000: lateness of a slot's last message, {name}"
                    f" ≤ {most} ms",
                    measured=f"{said(worst)} ms",
                    met=worst is not None and worst <= most,
                )
    rates = {
        subject: max(
            (one["rate"] for one in on_redis if one["subject"] == subject), default=0.0
        )
        for subject in (FAST, BEAT)
    }
    if rates[BEAT]:
        ratio = rates[FAST] / rates[BEAT]
        yield Verdict(
            target="at least 5 times the rate of Celery's beat",
            measured=f"{rates[FAST]:,.0f}/s against {rates[BEAT]:,.0f}/s:"
            f" {ratio:.1f} times",
            met=ratio >= 5,
        )


def _failover(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        if one["subject"] == FAST:
            yield Verdict(
                target=f"the winner of three killed {one['kills']} times: gap ≤ 1.25 s"
                " (2.25 s after a slot that was claimed and not sent)",
                measured=f"greatest {max(one['gaps_s']):.2f} s,"
                f" {one['due'] - one['delivered']} slots lost,"
                f" {one['doubled']} doubled",
                met=max(one["gaps_s"])
                <= (1.25 if one["delivered"] == one["due"] else 2.25)
                and not one["doubled"],
            )


def _statements(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        if one["replicas"] == 1:
            each = one["claims"] / one["won"] * 1_000
            yield Verdict(
                target="one modifying statement per 1,000 due entries and wake-up",
                measured=f"{each:.2f}",
                met=each <= 1.01,
            )
            yield Verdict(
                target="HOT updates ≥ 99 % after warm-up",
                measured=f"{one['hot_share']:.2%}",
                met=one["hot_share"] >= 0.99,
            )
        else:
            each = one["updates_in_all"] / one["messages_in_all"]
            yield Verdict(
                target="replicas that lose write nothing: one row updated a slot",
                measured=f"{each:.3f}",
                met=each <= 1.001,
            )


def _snapshot(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        yield Verdict(
            target=f"a snapshot held for {one['held']} s: no slot lost",
            measured=f"{one['due'] - one['delivered']} of {one['due']:,}",
            met=one["due"] == one["delivered"],
        )


def _doubles(copies: list[Sample], claims: list[Sample]) -> Iterator[Verdict]:
    for one in copies:
        if one["subject"] == FAST:
            yield Verdict(
                target="two copies: each slot sent once",
                measured=f"{one['sent']} messages for {one['due']} slots",
                # a slot at the edge of the window may fall in or out
                met=abs(one["sent_per_slot"] - 1) < 0.02,
            )
    if claims:
        doubled = sum(one["doubled"] for one in claims)
        most = max(one["replicas"] for one in claims)
        yield Verdict(
            target=f"{most} replicas claim as fast as they can: no slot twice",
            measured=f"{doubled}",
            met=not doubled,
        )


def _deadline(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        if one["over_ms"]:
            yield Verdict(
                target="a run behind a black hole ends ≤ 50 ms after its deadline"
                f" (p99): {one['pool']}",
                measured=f"{one['over_ms']['p99']:.0f} ms, {one['silent']} of"
                f" {one['runs']} did not end",
                met=one["over_ms"]["p99"] <= 50 and not one["silent"],
            )


def _deadline_cost(samples: list[Sample]) -> Iterator[Verdict]:
    clients = {one["what"]: one["us"] for one in samples if one["what"] != "questions"}
    if not clients:
        return
    for when in ("no deadline", "enough left"):
        worst = max(clients, key=lambda name: clients[name][when])
        yield Verdict(
            target=f"a bounded call costs ≤ 2 µs more: {when}",
            measured=", ".join(
                f"{name} {us[when]:+.1f}" for name, us in clients.items()
            ),
            met=clients[worst][when] <= 2,
        )


def _flower(samples: list[Sample]) -> Iterator[Verdict]:
    for one in samples:
        pages = {name: page["ms"]["p95"] for name, page in one["pages"].items()}
        worst = max(pages, key=lambda name: pages[name])
        yield Verdict(
            target=f"Flower's pages at {one['entries']:,} entries: p95 ≤ 50 ms",
            measured=f"{pages['the page']:.0f} ms; slowest, {worst}:"
            f" {pages[worst]:.0f} ms",
            met=pages[worst] <= 50,
        )

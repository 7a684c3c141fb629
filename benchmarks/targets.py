"""What was to be reached, and what was: one line each."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.cells import grid, of, said
from benchmarks.results import Results, Sample

FAST, BEAT = "pecker", "celery beat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A target, what was measured, and whether that is enough."""

    target: str
    measured: str
    met: bool

    @property
    def line(self) -> tuple[str, str, str]:
        """The verdict as a line of a table."""
        return self.target, self.measured, "met" if self.met else "**not met**"


def verdicts(results: Results) -> list[Verdict]:
    """Return the verdicts on all that was measured."""
    return [
        *_pace(results.samples("pace")),
        *_failover(results.samples("failover")),
        *_statements(results.samples("statements")),
        *_snapshot(results.samples("snapshot")),
    ]


def table(results: Results) -> str:
    """Return the verdicts as a table."""
    head = ("target", "measured", "")
    return grid(head, [verdict.line for verdict in verdicts(results)])


def _share(trials: list[Sample]) -> float:
    share: float = sum(t["delivered"] for t in trials) / sum(t["due"] for t in trials)
    return share


def _pace(samples: list[Sample]) -> list[Verdict]:
    on_redis = [one for one in samples if one["broker"] == "redis"]
    found = []
    for entries, least in ((1_000, 0.999), (5_000, 0.99)):
        trials = [
            one
            for one in on_redis
            if one["entries"] == entries and one["subject"] == FAST
        ]
        if not trials:
            continue
        share = _share(trials)
        found.append(
            Verdict(
                target=f"{entries:,} per-second entries: delivered/due ≥ {least}",
                measured=f"{share:.4f}",
                met=share >= least,
            )
        )
        if entries == 1_000:
            for name, most in (("p95", 60), ("p99", 150)):
                worst = of(trials, "last_ms", name)
                found.append(
                    Verdict(
                        target=f"1,000: lateness of a slot's last message, {name}"
                        f" ≤ {most} ms",
                        measured=f"{said(worst)} ms",
                        met=worst is not None and worst <= most,
                    )
                )
    rates = {
        subject: max(
            (one["rate"] for one in on_redis if one["subject"] == subject), default=0.0
        )
        for subject in (FAST, BEAT)
    }
    if rates[BEAT]:
        ratio = rates[FAST] / rates[BEAT]
        found.append(
            Verdict(
                target="at least 5 times the rate of Celery's beat",
                measured=f"{rates[FAST]:,.0f}/s against {rates[BEAT]:,.0f}/s:"
                f" {ratio:.1f} times",
                met=ratio >= 5,
            )
        )
    return found


def _failover(samples: list[Sample]) -> list[Verdict]:
    return [
        Verdict(
            target=f"the winner of three killed {one['kills']} times: gap ≤ 1.25 s"
            " (2.25 s after a slot that was claimed and not sent)",
            measured=f"greatest {max(one['gaps_s']):.2f} s,"
            f" {one['due'] - one['delivered']} slots lost, {one['doubled']} doubled",
            met=max(one["gaps_s"]) <= (1.25 if one["delivered"] == one["due"] else 2.25)
            and not one["doubled"],
        )
        for one in samples
        if one["case"] == "ours"
    ]


def _statements(samples: list[Sample]) -> list[Verdict]:
    found = []
    for one in samples:
        if one["replicas"] == 1:
            each = one["claims"] / one["won"] * 1_000
            found += [
                Verdict(
                    target="one modifying statement per 1,000 due entries and wake-up",
                    measured=f"{each:.2f}",
                    met=each <= 1.01,
                ),
                Verdict(
                    target="HOT updates ≥ 99 % after warm-up",
                    measured=f"{one['hot_share']:.2%}",
                    met=one["hot_share"] >= 0.99,
                ),
            ]
        else:
            each = one["updates_in_all"] / one["messages_in_all"]
            found.append(
                Verdict(
                    target="replicas that lose write nothing: one row updated a slot",
                    measured=f"{each:.3f}",
                    met=each <= 1.001,
                )
            )
    return found


def _snapshot(samples: list[Sample]) -> list[Verdict]:
    return [
        Verdict(
            target=f"a snapshot held for {one['held']} s: no slot lost",
            measured=f"{one['due'] - one['delivered']} of {one['due']:,}",
            met=one["due"] == one["delivered"],
        )
        for one in samples
    ]

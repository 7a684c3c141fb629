"""What the gate before the pool holds, how near to the limit, and at what cost."""

from __future__ import annotations

from benchmarks.cells import grid
from benchmarks.results import Sample


def loop(samples: list[Sample]) -> str:
    """Return what fleets made of an endless backlog, as parts of the limit."""
    lines = [
        [
            "no gate",
            f"{one['rate']:,.0f} statements/s",
            "",
            "",
            "",
            f"{one['idle']:.0%}",
        ]
        for one in samples
        if one["what"] == "no gate"
    ]
    lines += [
        [
            f"{one['workers']} workers, {one['estimator']}",
            f"limit {one['limit']:,.0f}",
            f"{one['use']:.1%}",
            f"{one['peak']:.1%}",
            f"{one['busiest']:.1%}",
            f"{one['idle']:.0%}",
        ]
        for one in samples
        if one["what"] == "gate"
    ]
    head = ("fleet", "statements/s", "use of the limit", "peak second of Redis' clock")
    return grid((*head, "busiest second, wherever it begins", "processor idle"), lines)


def turns(samples: list[Sample]) -> str:
    """Return what fleets made of runs that are large, as parts of the limit."""
    head = ("fleet", "runs", "statements", "use of the limit")
    return grid(
        (*head, "busiest second, wherever it begins", "commits / statements"),
        [
            [
                f"{one['workers']} workers, {one['estimator']}",
                f"{one['runs']} of {one['part']:.0%} of the limit",
                f"{one['statements']:,.0f}",
                f"{one['use']:.1%}",
                f"{one['peak']:.1%}",
                f"{one['committed']:.3f}",
            ]
            for one in samples
        ],
    )


def hook(samples: list[Sample]) -> str:
    """Return what the gate costs tasks that it lets through."""
    lines = [
        [
            one["pool"],
            f"{one['pairs']} of {one['batch']:,}",
            f"{one['ratio']:.3f} ({one['low']:.3f} to {one['high']:.3f})",
            f"{one['main_us']:+.1f}",
            f"{one['plain_us']:.0f}",
            f"{one['threads_us']:+.1f}" if "threads_us" in one else "",
            f"{one['children_us']:+.1f}" if "children_us" in one else "",
            f"{one['cpu']:.3f} ({one['cpu_low']:.3f} to {one['cpu_high']:.3f})"
            if "cpu" in one
            else "",
        ]
        for one in samples
        if "ratio" in one
    ]
    lines += [
        [
            "the hook alone, timed around it",
            f"{one['runs']} workers",
            "",
            f"{one['hook_us']:+.1f}",
            "",
            "",
            "",
            "",
        ]
        for one in samples
        if "hook_us" in one
    ]
    head = ("pool", "pairs, of tasks", "throughput with / without (95 %)")
    rest = (
        "of which other threads, µs a task",
        "children, µs a task",
        "processor time of all processes, without / with",
    )
    main = ("main process, µs a task", "without the gate, µs")
    return grid((*head, *main, *rest), lines)


def hold(samples: list[Sample]) -> str:
    """Return how held tasks go, whom they bother, and what an outage does."""
    lines = []
    for one in samples:
        what = one["what"]
        if what.startswith("release"):
            said = (
                f"{one['held']:,} held: first after {one['first_ms']:.0f} ms, last"
                f" after {one['last_ms']:.0f} ms, {one['took_ms']:.0f} ms from first to"
                " last"
            )
        elif what == "rate limit":
            said = (
                f"{one['handed']:,} handed out in {one['took_ms'] / 1e3:.1f} s:"
                f" {one['rate']:.0f} a second"
            )
        elif what == "isolation":
            said = (
                f"{one['held']:,} held: throughput of another database"
                f" {one['ratio']:.3f} ({one['low']:.3f} to {one['high']:.3f})"
            )
        else:
            pauses = one["pause_ms"]
            said = "the loop's longest pause, ms: " + ", ".join(
                f"{when} {ms:.1f}" for when, ms in pauses.items()
            )
            rates = one["runs_per_second"]
            said += "; runs a second: " + ", ".join(
                f"{when} {many}" for when, many in rates.items()
            )
        lines.append([what, said])
    return grid(("what", "measured"), lines)

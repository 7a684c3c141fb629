"""Ours from within: claims, statements, a held snapshot, where the time goes."""

from __future__ import annotations

from benchmarks.cells import ORDER, columns, grid, said, spreads
from benchmarks.results import Sample

_COUNTING = ("since_sent_ms", "since_pushed_ms")


def claims(samples: list[Sample]) -> str:
    """Return how fast replicas claim."""
    return columns(
        sorted(samples, key=lambda one: (one["batch"], one["replicas"])),
        {
            "replicas · slots asked for at once": "{replicas} · {batch:,}",
            "slots claimed a second": "{slots_per_second:,}",
            "statements/s": "{claims_per_second:,}",
            "claim, ms": lambda one: spreads([one], "claim_ms", "{:.1f}"),
            "slots claimed twice": "{doubled}",
        },
    )


def statements(samples: list[Sample]) -> str:
    """Return what is asked of PostgreSQL."""
    lines = []
    for one in samples:
        seconds = one["seconds"]
        house = sum(
            n
            for name, n in one["asked"].items()
            if name not in {"claim_due", "read_tasks", "read_schema"}
        )
        lines.append(
            [
                f"{one['replicas']}",
                f"{one['claims'] / seconds:.2f}",
                f"{one['claims_that_won'] / seconds:.2f}",
                f"{house / seconds:.2f}",
                f"{one['updates_in_all'] / one['messages_in_all']:.3f}",
                f"{one['hot_share']:.2%}",
                f"{one['wal_bytes_per_slot']:.0f}",
            ]
        )
    head = (
        *("replicas", "claims/s", "claims/s that wrote", "other writing statements/s"),
        *("rows updated per message", "HOT", "WAL, bytes a slot"),
    )
    return grid(head, lines)


def snapshot(samples: list[Sample]) -> str:
    """Return what a held snapshot does."""
    one = samples[-1]
    lines = [
        [
            phase if phase != "held" else f"held for {one['held']} s",
            spreads([one["claim_ms"]], phase),
            spreads([one["last_ms"]], phase),
            f"{max(size[1] for size in sizes):.1f}",
            f"{max(size[2] for size in sizes):.1f}",
        ]
        for phase, sizes in _phases(one).items()
        if sizes
    ]
    lost = one["due"] - one["delivered"]
    table = grid(
        (
            *("snapshot", "claim, ms", "last message, ms", "table, MB"),
            "index, MB",
        ),
        lines,
    )
    return f"{table}\n\nSlots due {one['due']:,}, lost **{lost}**."


def _phases(one: Sample) -> dict[str, list[list[float]]]:
    began, ended = one["held_from_s"], one["held_until_s"]
    bounds = {"before": (0, began), "held": (began, ended), "after": (ended, 9e9)}
    return {
        name: [size for size in one["sizes"] if since <= size[0] < until]
        for name, (since, until) in bounds.items()
    }


def consumer(samples: list[Sample]) -> str:
    """Return what counting adds."""
    lines = [
        [f"{one['size']:,}", *(spreads([one], key, "{:.1f}") for key in _COUNTING)]
        for one in samples
    ]
    return grid(("messages at once", "seen after sent, ms", "after pushed, ms"), lines)


def anatomy(samples: list[Sample]) -> str:
    """Return where a wake-up's time goes."""
    both = {one["subject"]: one["own_us"] for one in samples}
    names = list(dict.fromkeys(name for own in both.values() for name in own))
    names.sort(key=lambda name: -both.get(ORDER[0], {}).get(name, 0.0))
    shown = [subject for subject in ORDER if subject in both]
    lines = [
        [name, *(said(both[subject].get(name), "{:.1f}") for subject in shown)]
        for name in names
    ]
    total = [f"**{sum(both[subject].values()):.1f}**" for subject in shown]
    head = ("µs for each slot", *shown)
    return grid(head, [*lines, ["**in all**", *total]])

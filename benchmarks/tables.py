"""Results as tables in Markdown, for the terminal, the documentation and the README."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchmarks.cells import NONE, ORDER, grid, loads, of, said, spreads
from benchmarks.results import Results, Sample


def report(results: Results, rows: Iterable[str]) -> str:
    """Return the tables of these rows, each under its title."""
    parts = []
    for row in rows:
        if results.samples(row):
            title, table = TABLES[row]
            parts += [f"## {title}", table(results.samples(row)), ran(results, row)]
    return "\n\n".join(parts)


def ran(results: Results, row: str) -> str:
    """Return when and on what a row was measured, and how busy the machine was."""
    facts, samples = results.facts(row), results.samples(row)
    others = [one["others_share"] for one in samples if one.get("others_share")]
    busy = f"; other processes took up to {max(others):.0%} of it" if others else ""
    profiles = ", ".join(sorted({one["plan"] for one in samples}))
    return (
        f"*{facts['when']}, commit {facts.get('commit', '?')}, {profiles} profile;"
        f" {facts['machine']}{busy}.*"
    )


def pace(samples: list[Sample]) -> str:
    """Return who keeps up and how late."""
    lines = []
    for entries, broker, subject, trials in loads(samples):
        share = sum(t["delivered"] for t in trials) / sum(t["due"] for t in trials)
        lines.append(
            [
                f"{entries:,} · {broker} · {subject}",
                f"{len(trials)} of {trials[0]['seconds']} s",
                f"{share:.4f}",
                said(of(trials, "rate"), "{:,.0f}"),
                spreads(trials, "message_ms"),
                spreads(trials, "last_ms"),
                spreads(trials, "gap_s", "{:.3f}"),
            ]
        )
    head = (
        *("entries per second · broker · scheduler", "runs", "delivered / due"),
        *("messages/s", "lateness of a message, ms", "of a slot's last message, ms"),
        "gap, s",
    )
    return grid(head, lines)


def cost(samples: list[Sample]) -> str:
    """Return what it costs; small loads say nothing at a clock tick of 10 ms."""
    lines = [
        [
            f"{entries:,} · {broker} · {subject}",
            said(of(trials, "scheduler_cpu_s_per_1000"), "{:.3f}"),
            # beat asks nothing of it: what it spends then is its own housekeeping
            said(
                None
                if subject == "celery beat"
                else of(trials, "postgresql_cpu_s_per_1000"),
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
    lines = [
        [
            one["subject"],
            f"{one['seconds']} s",
            spreads([one], "gap_s", "{:.4f}"),
            f"{min(one['gaps_s']):.4f} to {max(one['gaps_s']):.4f}",
            f"{one['slip_s'][-1] * 1e3:+.1f}",
        ]
        for one in samples
    ]
    head = (
        "one entry",
        "watched",
        "gap, s",
        "least to greatest",
        "slip at the end, ms",
    )
    return grid(head, lines)


def failover(samples: list[Sample]) -> str:
    """Return what a kill costs, and what two beats do."""
    names = {
        "ours": "pecker, three replicas, the winner killed",
        "beat restarted": "one celery beat, started again at once",
        "two beats": "two celery beats, nobody killed",
    }
    lines = [
        [
            names[one["case"]],
            said(one.get("kills")),
            spreads([one], "gap_s", "{:.2f}"),
            said(of([one], "gap_s", "max"), "{:.2f}"),
            f"{one['delivered']} / {one['due']}" if "due" in one else NONE,
        ]
        for one in samples
    ]
    head = ("what", "kills", "gap, s", "greatest gap, s", "messages / slots due")
    return grid(head, lines)


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


_COUNTING = ("since_sent_ms", "since_pushed_ms")


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


TABLES: dict[str, tuple[str, Callable[[list[Sample]], str]]] = {
    "pace": ("Pace", lambda samples: f"{pace(samples)}\n\n{cost(samples)}"),
    "precision": ("One entry", precision),
    "failover": ("The winner dies", failover),
    "statements": ("What is asked of PostgreSQL", statements),
    "snapshot": ("A held snapshot", snapshot),
    "anatomy": ("Where the time goes", anatomy),
    "consumer": ("What counting adds", consumer),
}

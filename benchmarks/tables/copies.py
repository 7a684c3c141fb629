"""What several copies are good for, and what each message asks."""

from __future__ import annotations

from benchmarks.cells import NONE, grid, of, ranked, said, spreads
from benchmarks.results import Sample


def failover(samples: list[Sample]) -> str:
    """Return what a kill costs."""
    lines = [
        [
            _who_takes_over(one),
            said(one.get("kills")),
            spreads([one], "gap_s", "{:.2f}"),
            said(of([one], "gap_s", "max"), "{:.2f}"),
            f"{one['delivered']} / {one['due']}" if "due" in one else NONE,
        ]
        for one in ranked(samples)
    ]
    head = ("the active one killed", "kills", "gap, s", "greatest gap, s")
    return grid((*head, "messages / slots due"), lines)


def _who_takes_over(one: Sample) -> str:
    if one["copies"] == 1:
        return f"{one['subject']}, one copy, started again at once"
    lock = f", lock of {one['lock_s']:g} s" if "lock_s" in one else ""
    return f"{one['subject']}, {one['copies']} copies{lock}"


def doubles(samples: list[Sample]) -> str:
    """Return how often each slot is sent by two copies."""
    lines = [
        [
            f"{one['subject']}",
            f"{one['due']}",
            f"{one['sent']}",
            f"{one['sent_per_slot']:.2f}",
        ]
        for one in ranked(samples)
    ]
    return grid(("two copies", "slots due", "messages", "messages a slot"), lines)


def asked(samples: list[Sample]) -> str:
    """Return what one message asks of the servers."""
    lines = [
        [
            f"{one['subject']}",
            f"{one['messages']}",
            f"{one['statements_per_message']:.2f}",
            f"{one['connections_per_message']:.2f}",
            f"{one['commands_per_message']:.2f}",
        ]
        for one in ranked(samples)
    ]
    head = (
        *("10 entries", "messages", "PostgreSQL: statements a message"),
        *("new connections", "Redis: commands besides the push"),
    )
    return grid(head, lines)

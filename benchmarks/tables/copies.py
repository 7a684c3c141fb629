"""What several copies are good for, and what each message asks."""

from __future__ import annotations

from benchmarks.cells import NONE, columns, of, ranked, said, spreads
from benchmarks.results import Sample


def failover(samples: list[Sample]) -> str:
    """Return what a kill costs."""
    return columns(
        ranked(samples),
        {
            "the active one killed": _who_takes_over,
            "kills": lambda one: said(one.get("kills")),
            "gap, s": lambda one: spreads([one], "gap_s", "{:.2f}"),
            "greatest gap, s": lambda one: said(of([one], "gap_s", "max"), "{:.2f}"),
            "messages / slots due": lambda one: (
                f"{one['delivered']} / {one['due']}" if "due" in one else NONE
            ),
        },
    )


def _who_takes_over(one: Sample) -> str:
    if one["copies"] == 1:
        return f"{one['subject']}, one copy, started again at once"
    lock = f", lock of {one['lock_s']:g} s" if "lock_s" in one else ""
    return f"{one['subject']}, {one['copies']} copies{lock}"


def doubles(samples: list[Sample]) -> str:
    """Return how often each slot is sent by two copies."""
    return columns(
        ranked(samples),
        {
            "two copies": "{subject}",
            "slots due": "{due}",
            "messages": "{sent}",
            "messages a slot": "{sent_per_slot:.2f}",
        },
    )


def asked(samples: list[Sample]) -> str:
    """Return what one message asks of the servers."""
    return columns(
        ranked(samples),
        {
            "10 entries": "{subject}",
            "messages": "{messages}",
            "PostgreSQL: statements a message": "{statements_per_message:.2f}",
            "new connections": "{connections_per_message:.2f}",
            "Redis: commands besides the push": "{commands_per_message:.2f}",
        },
    )

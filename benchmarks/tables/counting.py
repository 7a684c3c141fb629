"""What counting costs a statement."""

from __future__ import annotations

from benchmarks.cells import grid
from benchmarks.results import Sample


def meter(samples: list[Sample]) -> str:
    """Return what a statement costs more, by client and by who counts."""
    lines = [
        [
            f"{one['what']} · {one['way']}",
            who,
            f"{one['plain_us']:.2f}",
            f"{us:+.2f}",
            "{:+.2f} to {:+.2f}".format(*one["quartiles_us"][who][::2]),
        ]
        for one in samples
        if one["way"] != "reading"
        for who, us in one["us"].items()
    ]
    head = ("client", "who counts", "as it is, µs", "more, µs", "half of the turns")
    said = [
        f"The reader of a worker takes {one['us']['reading']:,.0f} µs every 100 ms: 16"
        " children, 8 databases, a run open in each."
        for one in samples
        if one["way"] == "reading"
    ]
    return "\n\n".join([grid(head, lines), *said])

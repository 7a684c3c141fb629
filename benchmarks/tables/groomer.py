"""The groomer: reports a second by each way, and the account of very many."""

from __future__ import annotations

from benchmarks.cells import grid
from benchmarks.results import Sample

LOCKED = "a lock on the room"


def rates(samples: list[Sample]) -> dict[int, dict[str, Sample]]:
    """Return the trials of each line, by the way."""
    found: dict[int, dict[str, Sample]] = {}
    for one in samples:
        if "delay_ms" in one:
            found.setdefault(one["delay_ms"], {})[one["way"]] = one
    return found


def times(ways: dict[str, Sample], way: str) -> float:
    """Return how many times as fast as under the lock a way is."""
    locked = ways[LOCKED]["per_second"]
    ratio: float = ways[way]["per_second"] / locked if locked else float("inf")
    return ratio


def table(samples: list[Sample]) -> str:
    """Return reports a second on each line, and what very many left behind."""
    found = rates(samples)
    names = list(dict.fromkeys(way for ways in found.values() for way in ways))
    lines = []
    for delay, ways in found.items():
        cells = [f"{delay} ms ({ways[LOCKED]['ping_ms']:g} ms measured)"]
        for name in names:
            factor = "" if name == LOCKED else f" (**{times(ways, name):,.0f} times**)"
            cells.append(f"{ways[name]['per_second']:,.0f}{factor}")
        lines.append(cells)
    parts = [grid(("there and back", *names), lines)] if lines else []
    parts += [_account(one) for one in samples if "twice" in one]
    parts += [_splits(one) for one in samples if "split_s" in one]
    return "\n\n".join(parts)


def _account(one: Sample) -> str:
    head = ("reports", "a second", "lies", "invitations, of these by the sweep")
    fields = ("lost", "orphans", "invited twice")
    values = [f"{one[key]:,}" for key in ("lost", "orphans", "twice")]
    first = [f"{one[key]:,}" for key in ("reports", "per_second", "lies")]
    made = f"{one['invitations']:,}, {one['swept']:,}"
    return grid((*head, *fields), [[*first, made, *values]])


def _splits(one: Sample) -> str:
    length = " / ".join(f"{one['split_s'][key]:.2f}" for key in ("p50", "p99", "max"))
    head = (
        *("calls", "moved", "splits", "their length, p50 / p99 / max, s"),
        *("split at the end", "invitations", "twice", "offers refused", "pulled back"),
    )
    many = [f"{one[key]:,}" for key in ("calls", "switched", "splits")]
    fields = ("still_split", "invited", "invited_twice", "refused", "pulled")
    return grid(head, [[*many, length, *(f"{one[key]:,}" for key in fields)]])

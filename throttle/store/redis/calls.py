"""Arguments of the scripts and their answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from throttle.model import (
    Amount,
    Answer,
    Estimator,
    Holder,
    Holding,
    Report,
    Seen,
    Told,
    View,
)
from throttle.window import units
from throttle.window.units import WHOLE


def safe(name: str) -> str:
    """Return a name as part of a key: no two names make one key."""
    return name.replace("%", "%25").replace(":", "%3A")


def plain(name: str) -> str:
    """Return the name of a part of a key."""
    return name.replace("%3A", ":").replace("%25", "%")


def told(report: Report, names: Iterable[str], base: str) -> list[str | int]:
    """Return what a report says of databases as arguments."""
    words: list[str | int] = []
    for name in names:
        one = report.databases[name]
        words += [safe(name), f"{base}{safe(name)}:", len(one.samples)]
        for sample in one.samples:
            words += [
                units.whole(sample.age, WHOLE, units.OLDEST),
                max(units.whole(sample.span, WHOLE, units.LONGEST), 1),
                *units.counted(sample.amount),
            ]
        words += _holding(report.name, one)
    return words


def _holding(name: str, one: Told) -> list[str | int]:
    if one.holding is None:
        return [""]
    telling = json.dumps({**asdict(one.holding), "name": name})
    want = units.whole(one.holding.want, WHOLE, units.WANTED)
    return [telling, want, *units.limited(one.holding.limit)]


def answered(said: Sequence[bytes], names: Sequence[str]) -> Answer:
    """Return what the exchange answers about these databases."""
    at, *rest = said
    return Answer(
        at=int(at) / WHOLE,
        databases={
            name: _seen(one.split()) for name, one in zip(names, rest, strict=True)
        },
    )


def _seen(words: Sequence[bytes]) -> Seen:
    share, factor, holders, *figures = (float(word) for word in words)
    traffic, outside = estimates(figures)
    return Seen(
        traffic=traffic,
        outside=outside,
        share=share / WHOLE,
        factor=factor / WHOLE,
        holders=int(holders),
    )


def estimates(
    figures: Sequence[float],
) -> tuple[dict[Estimator, Amount], dict[Estimator, Amount]]:
    """Return traffic and what of it comes from outside, by estimator."""
    a, b, c, d, e, f, *fast = figures
    both = {
        Estimator.WEIGHTED: (units.amount(a, b, c), units.amount(d, e, f)),
        Estimator.FAST: (units.amount(*fast[:3]), units.amount(*fast[3:])),
    }
    return (
        {estimator: pair[0] for estimator, pair in both.items()},
        {estimator: pair[1] for estimator, pair in both.items()},
    )


def views(said: Sequence[Sequence[bytes]]) -> dict[str, View]:
    """Return what a look answers."""
    return {plain(one[0].decode()): _view(one) for one in said[1:]}


def _view(said: Sequence[bytes | int]) -> View:
    _, words, why, *entries = said
    assert isinstance(words, bytes)  # noqa: S101 — the script's own answer
    assert isinstance(why, bytes)  # noqa: S101 — likewise
    factor, *figures = (float(word) for word in words.split())
    traffic, outside = estimates(figures)
    holders = {}
    for key, share, telling in zip(*[iter(entries)] * 3, strict=True):
        found = _holder(int(share), telling)
        if found is not None:
            holders[key.decode()] = found
    return View(
        seen=Seen(
            traffic=traffic,
            outside=outside,
            factor=factor / WHOLE,
            holders=len(entries) // 3,
        ),
        holders=holders,
        signal=why.decode(),
    )


def _holder(share: int, telling: bytes) -> Holder | None:
    """Return a holder; None if another version of ours told it in other words."""
    try:
        found = json.loads(telling)
        name = str(found.pop("name"))
        found["limit"] = Amount(*found["limit"])
        found["tenants"] = {
            tenant: (int(held), int(admitted))
            for tenant, (held, admitted) in found["tenants"].items()
        }
        holding = Holding(**found)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return Holder(name=name, share=share / WHOLE, holding=holding)

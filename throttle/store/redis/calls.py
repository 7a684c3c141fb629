"""Arguments of the scripts and their answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from throttle import units
from throttle.model import (
    Amount,
    DatabaseReport,
    Estimator,
    ExchangeAnswer,
    Holder,
    Report,
    Seen,
    View,
)
from throttle.store.fields import Malformed, document
from throttle.store.wire import HOLDING
from throttle.units import WHOLE


def safe(name: str) -> str:
    """Return a name as part of a key: no two names make one key."""
    return name.replace("%", "%25").replace(":", "%3A")


def plain(name: str) -> str:
    """Return the name of a part of a key."""
    return name.replace("%3A", ":").replace("%25", "%")


def report_words(report: Report, names: Iterable[str], base: str) -> list[str | int]:
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


def _holding(name: str, one: DatabaseReport) -> list[str | int]:
    if one.holding is None:
        return [""]
    holding = one.holding
    # The turn is asked for beside it, once: nothing of it is shown of a holder.
    telling = {**HOLDING.written(holding), "name": name, "turn": 0.0}
    want = units.whole(holding.want, WHOLE, units.WANTED)
    turn = units.whole(holding.turn, WHOLE, units.WANTED)
    return [json.dumps(telling), want, *units.limited(holding.limit), turn]


def answered(answer: Sequence[object], names: Sequence[str]) -> ExchangeAnswer:
    """Return what the exchange answers about these databases."""
    at, *rest = answer
    return ExchangeAnswer(
        at=int(text(at)) / WHOLE,
        databases={
            name: _seen(text(one)) for name, one in zip(names, rest, strict=True)
        },
    )


def _seen(answer: str) -> Seen:
    share, factor, holders, turn, *figures = (float(word) for word in answer.split())
    traffic, outside = _estimates(figures)
    return Seen(
        traffic=traffic,
        outside=outside,
        share=share / WHOLE,
        factor=factor / WHOLE,
        holders=int(holders),
        turn=turn == 1,
    )


def _estimates(
    figures: Sequence[float],
) -> tuple[dict[Estimator, Amount], dict[Estimator, Amount]]:
    """Return traffic and what of it comes from outside, by estimator."""
    weighted, from_outside, fast, fast_from_outside = (
        units.amount(*figures[i : i + 3]) for i in range(0, len(figures), 3)
    )
    return (
        {Estimator.WEIGHTED: weighted, Estimator.FAST: fast},
        {Estimator.WEIGHTED: from_outside, Estimator.FAST: fast_from_outside},
    )


def views(answer: Sequence[object]) -> dict[str, View]:
    """Return what a look answers."""
    _, *rest = answer
    return dict(_view(one) for one in rest)


def _view(answer: object) -> tuple[str, View]:
    if not isinstance(answer, list):
        raise TypeError(answer)
    name, figures, why, *entries = answer
    factor, *numbers = (float(word) for word in text(figures).split())
    traffic, outside = _estimates(numbers)
    holders = {
        text(holder): known
        for holder, share, telling in zip(*[iter(entries)] * 3, strict=True)
        if (known := _holder(int(share), text(telling))) is not None
    }
    seen = Seen(
        traffic=traffic,
        outside=outside,
        factor=factor / WHOLE,
        holders=len(entries) // 3,
    )
    return plain(text(name)), View(seen=seen, holders=holders, signal=text(why))


def text(answer: object) -> str:
    """Return an answer that is text."""
    if not isinstance(answer, bytes):
        raise TypeError(answer)
    return answer.decode()


def _holder(share: int, telling: str) -> Holder | None:
    """Return a holder; None if another version of ours reported it in another form."""
    try:
        words = document(telling)
        name, holding = str(words["name"]), HOLDING.read("", words)
    except (Malformed, KeyError):
        return None
    return Holder(name=name, share=share / WHOLE, holding=holding)

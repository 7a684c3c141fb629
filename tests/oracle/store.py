"""The store in memory: what Redis answers must be exactly this.

For tests and simulations. It has no clock of its own, and what is lost on the way is
told to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tests.oracle.estimators import estimate
from tests.oracle.shares import FORGOTTEN, LEARNING, Shares, capacity
from tests.oracle.steady import SECOND, Steady
from tests.oracle.turn import Turn, last_second
from tests.oracle.windows import KEPT, Windows
from throttle import units
from throttle.model import (
    DatabaseReport,
    Estimator,
    ExchangeAnswer,
    Holder,
    Holding,
    Report,
    Seen,
    View,
)
from throttle.units import WHOLE


@dataclass(slots=True)
class Signal:
    """The limit in force is lowered."""

    factor: int = WHOLE
    why: str = ""
    until: int = 0


@dataclass(slots=True)
class Known:
    """What is known of a database."""

    windows: Windows = field(default_factory=Windows)
    shares: Shares = field(default_factory=Shares)
    told: dict[str, tuple[str, Holding]] = field(default_factory=dict)
    turn: Turn = field(default_factory=Turn)
    signal: Signal = field(default_factory=Signal)
    adjusted: Signal = field(default_factory=Signal)
    watcher: tuple[str, int] = ("", 0)
    at: int = 0
    """When it was last heard of."""


class Oracle:
    """Implements `Store`. `now` gives seconds since 1970, and may go back."""

    def __init__(
        self,
        now: Callable[[], float],
        *,
        estimator: Estimator = Estimator.WEIGHTED,
    ) -> None:
        self._now = now
        self._estimator = estimator
        self._clock = Steady()
        self._known: dict[str, Known] = defaultdict(Known)
        self._counted: dict[str, int] = {}

    def exchange(self, report: Report, *, answered: bool = True) -> ExchangeAnswer:
        """The report counts; `heard`: its holder has the last answer."""
        now = self._clock.read(self._time())
        last = self._counted.get(report.holder, 0)
        fresh = report.number == 0 or last < report.number
        if report.number:
            self._counted[report.holder] = max(report.number, last)
        return ExchangeAnswer(
            at=now / WHOLE,
            databases={
                name: self._one(name, told, report, now, fresh=fresh, answered=answered)
                for name, told in report.databases.items()
            },
        )

    def check(self) -> None:
        """It can be used."""

    def look(self) -> Mapping[str, View]:
        """Return all that is known, by database; nothing is changed."""
        now = self._clock.peek(self._time())
        return {
            name: _view(known, now)
            for name, known in self._known.items()
            if now - known.at < KEPT * SECOND
        }

    def elect(self, database: str, holder: str, seconds: float) -> bool:
        """Say whether `holder` is the one who watches the database now."""
        now = self._clock.read(self._time())
        known = self._known[database]
        watcher, until = known.watcher
        if watcher != holder and now < until:
            return False
        known.watcher = holder, now + units.whole(seconds, WHOLE, units.LATEST)
        return True

    def lower(self, database: str, factor: float, why: str, seconds: float) -> None:
        """The limit in force is so much of the limit, for so long."""
        now = self._clock.read(self._time())
        until = now + units.whole(seconds, WHOLE, units.LATEST)
        known = self._known[database]
        known.signal = Signal(units.whole(factor, WHOLE, 1), why, until)
        known.at = now

    def adjust(self, database: str, factor: float, why: str, seconds: float) -> None:
        """Set the limit to so many times what the settings say, for so long."""
        now = self._clock.read(self._time())
        until = now + units.whole(seconds, WHOLE, units.ADJUSTED_FOR)
        known = self._known[database]
        known.adjusted = Signal(units.whole(factor, WHOLE, units.ADJUSTED), why, until)
        known.at = now

    def recall(self, database: str) -> str:
        """Return what was kept last of what tasks cost; nothing is, here."""
        del database
        return ""

    def keep(self, database: str, text: str, seconds: float) -> None:
        """Keep nothing: this is a store for tests."""

    def close(self) -> None:
        """Nothing is left open."""

    def _time(self) -> int:
        return round(self._now() * WHOLE)

    def _one(  # what a report says of one database, and when
        self,
        name: str,
        told: DatabaseReport,
        report: Report,
        now: int,
        *,
        fresh: bool,
        answered: bool,
    ) -> Seen:
        known = self._known[name]
        known.at = now
        holding = told.holding
        for age, amount, span in told.samples if fresh else ():
            known.windows.count(
                now,
                units.whole(age, WHOLE, units.OLDEST),
                max(units.whole(span, WHOLE, units.LONGEST), 1),
                units.counted(amount),
                outside=holding is None,
            )
        granted, turn = 0, False
        if holding is None:
            known.shares.release(report.holder, now)
        else:
            known.told[report.holder] = report.name, replace(holding, turn=0.0)
            outside = estimate(self._estimator, known.windows, now)[3:]
            available = 0
            limits = units.limited(holding.limit)
            if now - self._clock.born >= LEARNING:
                available = capacity(_factor(known, now), outside, limits)
            turn = known.turn.ask(
                now,
                units.whole(holding.turn, WHOLE, units.WANTED),
                available,
                last_second(known.windows, now, limits),
            )
            granted = known.shares.grant(
                report.holder,
                now,
                want=units.whole(holding.want, WHOLE, units.WANTED),
                available=available,
                answered=answered,
            )
        return _seen(known, now, granted, len(known.shares.grants), turn=turn)


def _seen(
    known: Known, now: int, granted: int, holders: int, *, turn: bool = False
) -> Seen:
    figures = {one: estimate(one, known.windows, now) for one in Estimator}
    return Seen(
        traffic={one: units.amount(*counts[:3]) for one, counts in figures.items()},
        outside={one: units.amount(*counts[3:]) for one, counts in figures.items()},
        share=granted / WHOLE,
        factor=_factor(known, now) / WHOLE,
        holders=holders,
        turn=turn,
    )


def _view(known: Known, now: int) -> View:
    live = {
        holder: grant
        for holder, grant in known.shares.grants.items()
        if now - grant.answered < FORGOTTEN
    }
    words = [one.why for one in (known.signal, known.adjusted) if now < one.until]
    return View(
        seen=_seen(known, now, 0, len(live)),
        holders={
            holder: Holder(
                name=known.told[holder][0],
                share=grant.granted / WHOLE,
                holding=known.told[holder][1],
            )
            for holder, grant in live.items()
        },
        signal="; ".join(word for word in words if word),
    )


def _factor(known: Known, now: int) -> int:
    factor = WHOLE
    for one in (known.signal, known.adjusted):
        if now < one.until:
            factor = factor * one.factor // WHOLE
    return factor

"""A clock, a meter, a store and accounts that do as a test tells them."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from throttle.admission import Accounts
from throttle.errors import StoreUnavailable
from throttle.model import (
    Amount,
    Estimator,
    ExchangeAnswer,
    Reading,
    Report,
    Seen,
    Store,
)


class Clock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return where it stands."""
        return self.now


class Meter:
    """Says what it was told to say, once."""

    def __init__(self) -> None:
        self.next = Reading({})
        self.failure: Exception | None = None

    def count(self, operations: float, database: str = "main") -> None:
        """The next reading says this."""
        self.next = Reading({database: Amount(operations)})

    def read(self) -> Reading:
        """Return what was counted, or fail."""
        if self.failure is not None:
            raise self.failure
        reading, self.next = self.next, Reading({})
        return reading


def seen(traffic: float, *, factor: float = 1.0) -> Seen:
    """Return what a store says of a database with that many operations a second."""
    everybody = dict.fromkeys(Estimator, Amount(traffic))
    return Seen(traffic=everybody, outside=everybody, factor=factor)


class Counting:
    """A store that counts each number once, as Redis does, and can be taken away."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.answers = seen(50)
        self.tries = 0
        self.reports: list[Report] = []
        self.numbers: set[int] = set()
        self.samples: list[tuple[str, float, float]] = []
        """Database, operations, age; each counted once."""
        self.spans: list[float] = []
        self.away = False
        self.answer_lost = False
        self.closed = False
        self.costs = "of others"

    def recall(self, database: str) -> str:
        """Return what was kept."""
        assert database
        return self.costs

    def keep(self, database: str, text: str, seconds: float) -> None:
        """Keep it."""
        assert database
        assert seconds > 0
        self.costs = text

    def exchange(self, report: Report) -> ExchangeAnswer:
        """Count, and say the same of each database."""
        self.tries += 1
        if self.away:
            raise StoreUnavailable
        self.reports.append(report)
        if report.number not in self.numbers:
            self.numbers.add(report.number)
            self.samples += [
                (database, one.amount.operations, one.age)
                for database, told in report.databases.items()
                for one in told.samples
            ]
            self.spans += [
                one.span for told in report.databases.values() for one in told.samples
            ]
        if self.answer_lost:
            raise StoreUnavailable
        return ExchangeAnswer(
            at=self.clock(), databases=dict.fromkeys(report.databases, self.answers)
        )

    def close(self) -> None:
        """It is known that this was called."""
        self.closed = True

    @property
    def store(self) -> Store:
        """What an exchange uses of a store is here."""
        return cast("Store", self)


class Listener(Accounts):
    """Accounts that write down what they are told."""

    def __init__(self) -> None:
        super().__init__({})
        self.observed: list[Reading] = []
        self.answers: list[tuple[ExchangeAnswer | None, float]] = []
        self.recalled: list[tuple[str, str]] = []

    def observe(self, reading: Reading, now: float) -> None:
        """Write down a reading."""
        self.observed.append(reading)

    def recall(self, database: str, text: str) -> None:
        """Write down what others kept."""
        self.recalled.append((database, text))

    def remember(self, database: str, before: str) -> str:
        """Add a word."""
        assert database
        return f"{before}, ours"

    def update(self, answer: ExchangeAnswer | None, now: float) -> None:
        """Write down an answer and when it was asked for."""
        self.answers.append((answer, now))

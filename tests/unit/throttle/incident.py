"""A night on which not all goes well, as the store would tell it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from throttle.errors import StoreUnavailable
from throttle.model import (
    Amount,
    Estimator,
    ExchangeAnswer,
    Holder,
    Holding,
    Report,
    Seen,
    View,
)
from throttle.settings import Settings

SETTINGS = Settings.read(
    {
        "throttle_redis_url": "redis://:secret@redis:6379/1",
        "throttle_limits": {
            "main": {"operations": 5000, "seconds": 20},
            "reports": 800,
            "billing": {"operations": 2000, "shadow": True},
            "search": 3000,
            "archive": 100,
        },
        "throttle_estimator": "fast",
    }
)


def seen(
    operations: float, busy: float = 0.0, *, outside: float = 0.0, **more: Any
) -> Seen:
    """Return what was counted of a database; both estimators tell the same."""
    return Seen(
        traffic=dict.fromkeys(Estimator, Amount(operations, busy, operations)),
        outside=dict.fromkeys(Estimator, Amount(outside, 0.0, 0.0)),
        **more,
    )


def holder(
    name: str, share: float, operations: float, seconds: float = 0.0, **holding: Any
) -> Holder:
    """Return a worker."""
    told = Holding(want=share, limit=Amount(operations, seconds, 0.0), **holding)
    return Holder(name=name, share=share, holding=told)


def views(second: int = 0) -> dict[str, View]:
    """Return what the store knows, so many seconds into the night."""
    workers = [
        holder(
            f"worker{nth}@node-{nth}",
            0.22,
            5000.0,
            20.0,
            held=held,
            held_bytes=held * 2_300,
            admitted=5_000 + 205 * second,
            oldest=12.4 - nth,
            parked=120 if nth == 1 else 0,
            tenants={
                "acme": (held // 2, 2_000 + 100 * second),
                "globex": (held // 3, 900 + 55 * second),
                "initech": (held - held // 2 - held // 3, 700 + 50 * second),
            },
        )
        for nth, held in enumerate((412, 398, 201, 193), 1)
    ]
    main = {f"id-{nth}": worker for nth, worker in enumerate(workers)}
    shadow = holder(
        "worker1@node-1",
        0.9,
        2000.0,
        admitted=9_000 + 310 * second,
        would_hold=400 + 42 * second,
    )
    slow = holder("worker2@node-2", 0.4, 900.0, admitted=100 + second)
    return {
        "main": View(
            seen=seen(4_930, 18.2, outside=610, holders=4), holders=main, signal=""
        ),
        "reports": View(
            seen=seen(1_130, outside=1_020, factor=0.5, holders=1),
            holders={"id-1": slow},
            signal="48 active backends, 30 is the threshold",
        ),
        "billing": View(seen=seen(1_840, holders=1), holders={"id-0": shadow}),
        "search": View(
            seen=seen(420, holders=1),
            holders={"id-0": holder("worker1@node-1", 0.5, 3000.0, admitted=10)},
        ),
        "sessions": View(seen=seen(77, 0.3), holders={}),
    }


class Night:
    """A store that tells the night, or is away."""

    def __init__(self) -> None:
        self.second = 0
        self.away = ""
        self.closed = False
        self.known: Mapping[str, View] | None = None

    def check(self) -> None:
        """It can be used."""

    def look(self) -> Mapping[str, View]:
        """Return what is known now."""
        if self.away:
            raise StoreUnavailable(self.away)
        return views(self.second) if self.known is None else self.known

    def exchange(self, report: Report) -> ExchangeAnswer:
        """Nobody reports here."""
        raise NotImplementedError

    def adjust(self, database: str, factor: float, why: str, seconds: float) -> None:
        """Nobody sets a limit here."""
        raise NotImplementedError

    def recall(self, database: str) -> str:
        """Nothing is kept here."""
        raise NotImplementedError

    def keep(self, database: str, text: str, seconds: float) -> None:
        """Nothing is kept here."""
        raise NotImplementedError

    def elect(self, database: str, holder: str, seconds: float) -> bool:
        """Nobody watches here."""
        raise NotImplementedError

    def lower(self, database: str, factor: float, why: str, seconds: float) -> None:
        """Nobody lowers here."""
        raise NotImplementedError

    def close(self) -> None:
        """It is closed."""
        self.closed = True

"""What a worker tells people of its throttle, as JSON can say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from throttle.exchange import Exchanger
    from throttle.model import Amount, Holding
    from throttle.worker.runtime import Runtime


def info_of(
    runtime: Runtime, exchanger: Exchanger, holdings: Mapping[str, Holding]
) -> dict[str, Any]:
    """Return each database as this worker sees it, and how its exchange does."""
    return {
        "databases": {
            database: _database(runtime, database, holding)
            for database, holding in holdings.items()
        },
        "exchange": {
            "alive": exchanger.alive,
            "away": exchanger.snapshot.away,
            "failures": exchanger.failures,
            "dropped": round(exchanger.dropped, 3),
        },
        "route_failures": runtime.route.failures,
    }


def _database(runtime: Runtime, database: str, holding: Holding) -> dict[str, Any]:
    state = runtime.accounts.state(database)
    seen = state.seen
    return {
        "limit": _amount(holding.limit),
        "traffic": seen and _amount(seen.traffic[runtime.settings.estimator]),
        "factor": seen and round(seen.factor, 4),
        "workers": seen and seen.holders,
        "share": round(state.share, 4),
        "want": round(holding.want, 4),
        "own": _amount(state.own),
        "expected": _amount(state.expected),
        "policy": state.policy and str(state.policy),
        "held": holding.held,
        "held_bytes": holding.held_bytes,
        "oldest": round(holding.oldest, 3),
        "parked": holding.parked,
        "admitted": holding.admitted,
        "would_hold": holding.would_hold,
        "tenants": {
            name or "-": {"held": held, "admitted": admitted}
            for name, (held, admitted) in holding.tenants.items()
        },
    }


def _amount(amount: Amount) -> dict[str, float]:
    return {
        "operations": round(amount.operations, 3),
        "seconds": round(amount.seconds, 4),
    }

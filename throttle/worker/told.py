"""What a worker tells people of its throttle, as JSON can say it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from throttle.worker.rig import Rig


def told(rig: Rig) -> dict[str, Any]:
    """Return each database as this worker sees it, and how the exchange does."""
    databases: dict[str, Any] = {}
    for database, holding in rig.holdings().items():
        state = rig.accounts.state(database)
        databases[database] = {
            **{name: _plain(value) for name, value in asdict(state).items()},
            "want": round(holding.want, 4),
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
    exchanger = rig.exchanger
    return {
        "databases": databases,
        "exchange": {
            "alive": exchanger.alive,
            "away": exchanger.snapshot.away,
            "failures": exchanger.failures,
            "dropped": exchanger.dropped,
        },
        "route_failures": rig.route.failures,
    }


def _plain(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value

"""What kinds of tasks cost, as it outlives the workers that learned it.

By task, not by tenant: those are too many, and a tenant's third run tells. A worker
that starts knows at once what a run costs of the tasks that others have run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite

from throttle.admission.costs import MEMORY, Cost

MOST = 1000
"""Tasks of a database."""
RUNS = round(1 / MEMORY)
"""As many runs an older worker's word weighs at most: new ones soon count for more."""
LARGEST = 1e12
FIELDS = (
    "operations",
    "seconds",
    "operations_variance",
    "seconds_variance",
    "duration",
)


def written(known: Mapping[str, Cost], before: str = "") -> str:
    """Return what tasks cost, as text, over what others had written `before`."""
    kept = {**read(before), **{name: known[name] for name in list(known)[-MOST:]}}
    return json.dumps(
        {
            name: [round(getattr(kept[name], one), 9) for one in FIELDS]
            + [min(kept[name].runs, RUNS)]
            for name in list(kept)[-MOST:]
        }
    )


def read(text: str) -> dict[str, Cost]:
    """Return what is written; what makes no sense is left out."""
    try:
        parsed = json.loads(text or "{}")
        entries = list(parsed.items())[-MOST:]
    except (ValueError, AttributeError, RecursionError):
        return {}
    return {name: cost for name, one in entries if (cost := _cost(one)) is not None}


def _cost(value: object) -> Cost | None:
    if not isinstance(value, list) or len(value) != len(FIELDS) + 1:
        return None
    for one in value:
        if isinstance(one, bool) or not isinstance(one, (int, float)):
            return None
        if not isfinite(one) or not 0 <= one <= LARGEST:
            return None
    *figures, runs = value
    return Cost.of(figures, min(int(runs), RUNS))

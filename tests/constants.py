"""Other values of constants of our packages, for processes that tests start.

What nobody tunes is a constant and no setting. A process of `tests.lean` takes values
out of its environment before it imports an app; one of another kind, whose app is the
test's own, sets them as that is imported.
"""

from __future__ import annotations

import json
import os
from importlib import import_module

ENV = "PECKER_TEST_CONSTANTS"


def constants(**values: object) -> dict[str, str]:
    """Return the environment of a process with these values, by names of PLACES."""
    return {ENV: json.dumps({PLACES[name]: value for name, value in values.items()})}


def take() -> None:
    """Set what this process was told."""
    for place, value in json.loads(os.environ.get(ENV, "{}")).items():
        module, name = place.split(":")
        known = import_module(module)
        assert hasattr(known, name), place
        setattr(known, name, value)


PLACES = {
    "flush": "celery_sharding.pace:FLUSH",
    "longest_hold": "celery_pecker.outbox.runs.holds:LONGEST",
    "prior": "throttle.admission.costs:PRIOR",
    "resend": "celery_sharding.pace:RESEND",
    "slice": "celery_sharding.pace:SLICE",
    "sweep": "celery_sharding.pace:SWEEP",
}

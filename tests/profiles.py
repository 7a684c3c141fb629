"""How many examples Hypothesis tries: few in `make test`, many in `make soak`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

PROFILES = {"test": 30, "soak": 500}
"""Examples of a test that does not set a number of its own, by profile."""

PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or "test"


def load() -> None:
    """Register the profiles, and load the one that HYPOTHESIS_PROFILE names.

    No database of failed examples, and none of the checks that a busy machine fails: a
    run depends on its seed alone, and prints what repeats a failure.
    """
    for name, many in PROFILES.items():
        settings.register_profile(
            name,
            max_examples=many,
            deadline=None,
            print_blob=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
    settings.load_profile(PROFILE)


def examples(many: int) -> int:
    """Return ``many`` for `make test`, and in proportion more under other profiles."""
    return many * settings.get_profile(PROFILE).max_examples // PROFILES["test"]

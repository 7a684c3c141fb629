"""What a process under measure is given by its environment."""

from __future__ import annotations

import os

ENVIRONMENT = "PECKER_BENCH_"
PERIOD = 1
TASK = "bench.tick"


def given(name: str, default: str = "") -> str:
    """Return a value that the trial has set for its processes."""
    return os.environ.get(ENVIRONMENT + name, default)


def every() -> float:
    """Return the period of the entries of a trial, in seconds."""
    return float(given("EVERY", str(PERIOD)))


def entry(number: int) -> str:
    """Return the name of an entry."""
    return f"entry-{number:05}"

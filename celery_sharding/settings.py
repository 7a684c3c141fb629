"""The ``sharding_*`` settings of a Celery app, read once and checked at the edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from celery_pecker.kernel.declared import Declared, Kind, Switch, between, is_number

PATH = Kind(
    "a dotted path such as 'throttle:Gate'",
    lambda value: isinstance(value, str) and bool(value.strip(":. ")),
)


def _bytes(most: int) -> Kind:
    return between(0, most, f"a whole number of bytes from 0 to {most:g}")


def _seconds(least: float, most: float) -> Kind:
    said = f"a number of seconds from {least:g} to {most:g}"
    return between(least, most, said, is_number)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingSettings(Declared):
    """The values of ``sharding_*`` settings. Durations in seconds, sizes in bytes.

    Where the tables are is the kernel's: ``pecker_dsn`` and ``pecker_schema``.
    """

    PREFIX = "sharding_"
    PACKAGE = "celery_sharding"

    inline_limit: Annotated[int, _bytes(1_000_000_000)] = 1_000_000
    """Bytes that items given in a call may have, encoded; above it the error names
    `Source`."""
    plan_limit: Annotated[int, _bytes(1_000_000_000_000)] = 1_000_000_000
    """Bytes that items of PreProcess may have, encoded; they lie in a temporary file
    until they are written (those of `cut="hash"` before they are cut, too). Above it
    the job fails with `PlanLimitExceeded`: give a `Source`."""
    slice: Annotated[float, _seconds(0.05, 3_600)] = 1.0
    """How long a ticket runs shards before it passes itself on, so that other tasks get
    their turn; at least one shard is run."""
    lease: Annotated[float, _seconds(1, 3_600)] = 15.0
    """How long a worker that is heard no more holds its shards; a task may say else."""
    flush: Annotated[float, _seconds(0.05, 60)] = 0.5
    """How often a running shard writes its cursor, and asks whether to go on."""
    sweep: Annotated[float, _seconds(0.2, 60)] = 1.0
    """The period of the sweeper's schedule."""
    resend: Annotated[float, _seconds(1, 3_600)] = 10.0
    """After how long a message that was not taken is sent again."""
    retention: Annotated[float, _seconds(0, 3_650 * 86_400)] = 7 * 86_400.0
    """How long ended jobs are kept, with their items, results and errors."""
    gate: Annotated[str | None, PATH] = None
    """Dotted path of what makes the gate of tasks with `throttle=`, called with the
    app: `"throttle:Gate"`."""
    sweeper: Switch = True
    """Whether the app's schedule gets the sweeper and the purge."""
    unlisted_sources: Switch = False
    """Whether a [Source in a message](../how-to/sharding.md#where-items-come-from) is
    read that its caller did not list in the ledger: for a
    [deploy](../how-to/rolling-deploys.md) from a version that lists none."""

    @classmethod
    def read(cls, conf: Mapping[str, object]) -> ShardingSettings:
        """Return the checked settings of an app's configuration."""
        return cls(**cls.checked(cls.given(conf)))

"""The ``sharding_*`` settings of a Celery app, read once and checked at the edge."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from celery_pecker.kernel.declared import Declared, Kind, between, is_number


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

    inline_bytes: Annotated[int, _bytes(1_000_000_000)] = 1_000_000
    """Bytes that items given in a call may have, encoded; above it the error names
    `Source`."""
    lease: Annotated[float, _seconds(1, 3_600)] = 15.0
    """For how long a worker that is not heard of any more keeps its shards; a task may
    have another."""
    retention: Annotated[float, _seconds(0, 3_650 * 86_400)] = 7 * 86_400.0
    """How long ended jobs are kept, with their items, results and errors."""

    @classmethod
    def read(cls, conf: Mapping[str, object]) -> "ShardingSettings":
        """Return the checked settings of an app's configuration."""
        return cls(**cls.checked(cls.given(conf)))

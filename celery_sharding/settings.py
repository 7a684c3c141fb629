"""The ``sharding_*`` settings of a Celery app, read once and checked at the edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from celery_pecker.kernel.errors import Misconfigured

PREFIX = "sharding_"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingSettings:
    """The values of ``sharding_*`` settings. Durations in seconds, sizes in bytes.

    Where the tables are is the kernel's: ``pecker_dsn`` and ``pecker_schema``.
    """

    inline_limit: int = 1_000_000
    """Encoded items that a call may pass, at most; above it: a Source."""
    plan_limit: int = 1_000_000_000
    """Encoded items that PreProcess may return, at most; they lie in a temporary file
    until they are written. Above it: a Source."""
    slice: float = 1.0
    """How long a ticket runs shards before it passes itself on, so that other tasks
    get their turn; at least one shard is run."""
    lease: float = 15.0
    """How long a silent worker holds its shards; a task may set its own."""
    flush: float = 0.5
    """How often a running shard writes its cursor, and asks whether to go on."""
    sweep: float = 1.0
    """The period of the sweeper's schedule."""
    resend: float = 10.0
    """After how many seconds a message that was not taken is sent again."""
    retention: float = 7 * 86_400.0
    """How long ended jobs are kept, with their items, results and errors."""
    gate: str | None = None
    """Dotted path of what makes the gate of tasks with `throttle=`, called with the
    app: ``throttle:Gate``."""
    sweeper: bool = True
    """Whether the app's schedule gets the sweeper and the purge."""
    unlisted_sources: bool = False
    """Whether a Source in a message is read that no caller has listed in the ledger:
    while callers of a version run that lists none."""

    @classmethod
    def read(cls, conf: Mapping[str, object]) -> ShardingSettings:
        """Return the checked settings of an app's configuration."""
        known = {PREFIX + name: name for name in cls.__dataclass_fields__}
        _refuse_unknown(conf, known)
        values = {
            name: value
            for key, name in known.items()
            if (value := conf.get(key)) is not None
        }
        for name, value in values.items():
            _check(name, value)
        return cls(**values)  # type: ignore[arg-type]  # checked one by one above


BOUNDS: Mapping[str, tuple[float, float]] = {
    "inline_limit": (0, 1_000_000_000),
    "plan_limit": (0, 1_000_000_000_000),
    "slice": (0.05, 3_600),
    "lease": (1, 3_600),
    "flush": (0.05, 60),
    "sweep": (0.2, 60),
    "resend": (1, 3_600),
    "retention": (0, 3_650 * 86_400),
}
"""The least and the most of each number."""


def _refuse_unknown(conf: Mapping[str, object], known: Mapping[str, str]) -> None:
    # An app's configuration that was not read yet has its prefix in `data` only.
    namespace = getattr(getattr(conf, "data", conf), "prefix", None) or ""
    for key in conf:
        # Under a namespace Celery lists keys as they were written.
        named = key.removeprefix(namespace) if namespace else key
        name = named.lower() if named != key else named
        if name.startswith(PREFIX) and name not in known:
            allowed = ", ".join(sorted(known))
            message = (
                f"{key} is not a setting of celery_sharding; allowed are {allowed}"
            )
            raise Misconfigured(message)


def _check(name: str, value: object) -> None:
    key = PREFIX + name
    if name == "gate":
        if not isinstance(value, str) or not value.strip(":. "):
            message = (
                f"{key} must be a dotted path such as 'throttle:Gate', not {value!r}"
            )
            raise Misconfigured(message)
        return
    if name in {"sweeper", "unlisted_sources"}:
        if not isinstance(value, bool):
            message = f"{key} must be True or False, not {value!r}"
            raise Misconfigured(message)
        return
    least, most = BOUNDS[name]
    whole = name.endswith("_limit")
    kinds = int if whole else (int, float)
    if (
        isinstance(value, bool)
        or not isinstance(value, kinds)
        or not least <= value <= most
    ):
        kind = "a whole number of bytes" if whole else "a number of seconds"
        message = f"{key} must be {kind} from {least:g} to {most:g}, not {value!r}"
        raise Misconfigured(message)

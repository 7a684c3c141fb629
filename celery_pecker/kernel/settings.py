"""The settings of the house, read once and checked at the edge (I11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from celery_pecker.kernel.errors import Misconfigured

PREFIX = "pecker_"
MAX_IDENTIFIER = 63
"""Bytes in a PostgreSQL identifier."""

LONGEST = 3_600
"""Seconds: no wait and no slack is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What ``pecker_*`` settings of a Celery app say. Durations in seconds."""

    dsn: str = field(repr=False)
    """Where PostgreSQL is: a libpq connection string or URL."""
    app: str
    """Which app owns the schema; default the app's ``main`` name."""
    schema: str = "public"
    """The PostgreSQL schema of the tables; belongs to one app."""
    clock_slack: float = 5.0
    """How far a row may lie ahead of the database's clock before that counts as
    a clock that stepped back."""
    clock_skew: float = 2.0
    """Added to a deadline where Celery compares it with a worker's host clock."""
    database_timeout: float = 2.0
    """For connecting to PostgreSQL, and for each statement."""
    broker_timeout: float = 2.0
    """For connecting to the broker, and for each of its answers."""
    redis_guard: bool = True
    """Whether workers get the step that survives a restart of Redis."""
    gate: str | None = None
    """Dotted path of a callable ``(app) -> Gate`` that may hold entries back."""
    worker: bool = False
    """Whether every worker runs a scheduler too, so that no beat process is needed."""
    local_threads: int = 8
    """How many local runs a worker has at once."""
    history: int = 600
    """Slots whose reports are kept for each entry; 0: none."""
    metrics_port: int = 0
    """Where a scheduler answers Prometheus and probes; 0: nowhere."""
    metrics_address: str = "127.0.0.1"
    """The address of that port."""
    tracing: bool = False
    """Whether OpenTelemetry spans lead from the claim to the task and its subtasks."""
    heartbeat_dir: str | None = None
    """Where schedulers show that they live; default below the temporary folder."""
    outbox_limit: int = 8_000_000
    """The most bytes that a message in the outbox may have, headers included."""
    outbox_interval: float = 0.05
    """Between two looks of a relay at the outbox; of many relays for all together."""
    outbox_hold: float = 30.0
    """For how long a relay keeps what it claimed; then another one takes it over."""
    intake_token: str | None = field(default=None, repr=False)
    """The secret that services show to the intake of the outbox."""
    intake_tasks: Sequence[str] = field(default=(), hash=False)
    """Names of the tasks, or patterns, that requests to the intake may record."""
    outbox_local: bool = False
    """Whether workers run what was recorded with ``outbox="local"``."""
    outbox_backoff: float = 60.0
    """For how long the first run of a recorded task is held; doubled by each."""
    outbox_backoff_most: float = 3_600.0
    """The longest such hold."""
    outbox_attempts: int = 20
    """After how many runs that failed a recorded task is parked."""
    outbox_log: int = 10_000
    """How many recorded tasks that were done are remembered; 0: none."""
    observers: bool = False
    """Whether every worker supervises hosts of observers too."""
    observers_hosts: int = 1
    """How many host processes each worker, or `pecker observe`, supervises."""
    observers_capacity: int | None = None
    """The weights that one host may hold; default by cores and memory."""
    observers_max_memory_per_host: int | None = None
    """Kilobytes above which another host takes over; default: no limit."""
    observers_lease: float = 5.0
    """For how long a host holds its observers after its last renewal."""
    observers_start_rate: int = 2_000
    """How many observers a host begins in a second, at most."""
    observers_history: int = 10_000
    """Events of observers that are kept; 0: none."""
    alarms: Mapping[str, Any] | None = field(default=None, hash=False)
    """Rules of alarms by their names; None: nothing rings."""
    alarms_to: Mapping[str, str] | None = field(default=None, repr=False, hash=False)
    """Where alarms go beside the log: Apprise URLs and dotted paths, by a name."""
    alarms_interval: float = 10.0
    """Between two looks for what is wrong; of many replicas for all together."""

    allowed_tasks: Sequence[str] | None = field(default=None, hash=False)
    """Names of the tasks, or patterns, that stored schedules may run; None: all."""

    @classmethod
    def read(cls, conf: Mapping[str, object], *, main: str | None) -> Settings:
        """Return the checked settings of an app's configuration."""
        known = {PREFIX + name: name for name in cls.__dataclass_fields__}
        values = {
            name: conf.get(key)
            for key, name in known.items()
            if conf.get(key) is not None
        }
        _refuse_unknown(conf, known)
        if main:
            values.setdefault("app", main)
        if not values.get("dsn"):
            message = (
                "pecker_dsn is not set: give it the connection string of a PostgreSQL"
                " database, for instance 'postgresql://user@host/database'"
            )
            raise Misconfigured(message)
        if "app" not in values:
            message = (
                "pecker_app is not set and the app has no name: write Celery('proj')"
                " or set pecker_app = 'proj'; tables belong to one app, by its name"
            )
            raise Misconfigured(message)
        for name, value in values.items():
            _check(name, value)
        _check_holds(values)
        return cls(**values)  # type: ignore[arg-type]  # checked one by one above


def _refuse_unknown(conf: Mapping[str, object], known: Mapping[str, str]) -> None:
    # An app's configuration that was not read yet shows its prefix in `data` only.
    read = getattr(conf, "data", conf)
    namespace = getattr(read, "prefix", None) or ""
    for key in conf:
        # Under a namespace Celery lists keys as they were written: CELERY_PECKER_DSN
        named = key.removeprefix(namespace) if namespace else key
        name = named.lower() if named != key else named
        if name.startswith(PREFIX) and name not in known:
            allowed = ", ".join(sorted(known))
            message = f"{key} is not a setting of celery-pecker; allowed are {allowed}"
            raise Misconfigured(message)


TEXTS = {
    "dsn",
    "app",
    "gate",
    "metrics_address",
    "heartbeat_dir",
    "intake_token",
}
SECRETS = {"dsn", "intake_token", "alarms_to"}
MAPPINGS = {"alarms", "alarms_to"}
LISTS = {"allowed_tasks", "intake_tasks"}
SWITCHES = {"redis_guard", "worker", "tracing", "outbox_local", "observers"}
COUNTS = {
    "local_threads": (1, 1_000),
    "history": (0, 100_000),
    "metrics_port": (0, 65_535),
    "outbox_limit": (1_000, 500_000_000),
    "outbox_attempts": (1, 10_000),
    "outbox_log": (0, 10_000_000),
    "observers_hosts": (1, 100),
    "observers_capacity": (1, 10_000_000),
    "observers_max_memory_per_host": (10_000, 1_000_000_000),
    "observers_start_rate": (1, 1_000_000),
    "observers_history": (0, 10_000_000),
}


def _check(name: str, value: object) -> None:
    key = PREFIX + name
    if name in TEXTS:
        if not isinstance(value, str) or not value or "\0" in value:
            shown = type(value).__name__ if name in SECRETS else repr(value)
            message = f"{key} must be a non-empty string, not {shown}"
            raise Misconfigured(message)
    elif name == "schema":
        _check_schema(key, value)
    elif name in MAPPINGS:
        _check_mapping(name, value)
    elif name in SWITCHES:
        if not isinstance(value, bool):
            message = f"{key} must be True or False, not {value!r}"
            raise Misconfigured(message)
    elif name in LISTS:
        if not isinstance(value, (list, tuple)) or not all(
            isinstance(one, str) and one for one in value
        ):
            message = f"{key} must be a list of non-empty strings, not {value!r}"
            raise Misconfigured(message)
    elif name in COUNTS:
        _check_count(name, value)
    else:
        _check_seconds(name, value)


def _check_mapping(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        shown = type(value).__name__ if name in SECRETS else repr(value)
        message = f"{PREFIX}{name} must be a dict, not {shown}"
        raise Misconfigured(message)


def _check_count(name: str, value: object) -> None:
    least, most = COUNTS[name]
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not least <= value <= most
    ):
        message = (
            f"{PREFIX}{name} must be a whole number from {least} to {most},"
            f" not {value!r}"
        )
        raise Misconfigured(message)


def _check_holds(values: Mapping[str, object]) -> None:
    default = Settings.__dataclass_fields__
    first, most = (
        values.get(name, default[name].default)
        for name in ("outbox_backoff", "outbox_backoff_most")
    )
    if not 0 < first <= most:  # type: ignore[operator]  # numbers, as checked
        message = (
            f"{PREFIX}outbox_backoff must be above zero and at most"
            f" {PREFIX}outbox_backoff_most ({most!r}), not {first!r}"
        )
        raise Misconfigured(message)


def _check_schema(key: str, value: object) -> None:
    if (
        not isinstance(value, str)
        or not 0 < len(value.encode()) <= MAX_IDENTIFIER
        or "\0" in value
        or "{" in value
        or "%" in value
    ):
        message = (
            f"{key} must be the name of a PostgreSQL schema"
            f" (1 to {MAX_IDENTIFIER} bytes, without NUL, '{{' or '%'),"
            f" not {value!r}"
        )
        raise Misconfigured(message)


ABOVE_ZERO = ("timeout", "interval", "hold", "lease")


def _check_seconds(name: str, value: object) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not 0 <= value <= LONGEST
        or (value == 0 and name.endswith(ABOVE_ZERO))
    ):
        least = "above zero" if name.endswith(ABOVE_ZERO) else "from zero"
        message = (
            f"{PREFIX}{name} must be a number of seconds {least} to {LONGEST},"
            f" not {value!r}"
        )
        raise Misconfigured(message)

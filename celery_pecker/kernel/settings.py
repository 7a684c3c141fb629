"""The settings of the house, read once and checked at the edge (I11)."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Annotated, Any

from celery_pecker.kernel.declared import (
    TEXT,
    Declared,
    Kind,
    PositiveSeconds,
    Switch,
    whole,
)
from celery_pecker.kernel.errors import Misconfigured

PREFIX = "pecker_"
MAX_IDENTIFIER = 63
"""Bytes in a PostgreSQL identifier."""
MAX_PORT = 65_535


def _is_schema(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value.encode()) <= MAX_IDENTIFIER
        and not {*value} & {*"\0{%"}
    )


def _is_place(value: object) -> bool:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return bool(host) and port.isdecimal() and 0 < int(port) <= MAX_PORT


def _is_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(one, str) and one for one in value
    )


SCHEMA = Kind(
    f"the name of a PostgreSQL schema (1 to {MAX_IDENTIFIER} bytes,"
    " without NUL, '{' or '%')",
    _is_schema,
)
PLACE = Kind("an address and a port, as in '127.0.0.1:9808'", _is_place)
ROLES = Kind(
    "a set of 'scheduler', 'outbox' and 'observers'",
    lambda value: (
        isinstance(value, AbstractSet | Sequence)
        and not isinstance(value, str)
        and all(one in ("scheduler", "outbox", "observers") for one in value)
    ),
    convert=lambda _, value: tuple(sorted(value)),
)
NAMES = Kind("a list of non-empty strings", _is_names)
DICT = Kind("a dict", lambda value: isinstance(value, Mapping))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Declared):
    """What ``pecker_*`` settings of a Celery app say. Durations in seconds."""

    PREFIX = PREFIX
    PACKAGE = "celery-pecker"

    dsn: Annotated[str, TEXT] = field(repr=False)
    """Where PostgreSQL is, for schedulers, workers and commands: a libpq connection
    string or URL. `application_name` is set if you do not set it. Several hosts share
    the time for connecting; one that did not answer is tried after the others for a
    minute."""
    app: Annotated[str, TEXT]
    """Which app owns the schema; set it when an app is renamed."""
    app_version: Annotated[str | None, TEXT] = None
    """The version of your code, as a deploy names it: the first scheduler that runs it
    puts a mark into the [charts](../how-to/history.md)."""
    schema: Annotated[str, SCHEMA] = "public"
    """The PostgreSQL schema of the tables; it belongs to one app."""
    database_timeout: PositiveSeconds = 2.0
    """Seconds for each statement, also for the check at the start of a run; and for
    connecting, for all hosts of the DSN together: at least 2 where no run waits. With
    `connect_timeout` in the DSN each host has that many seconds instead, except where a
    run waits."""
    broker_timeout: PositiveSeconds = 2.0
    """Seconds for connecting to the broker and for each of its answers. On Redis,
    `socket_timeout` and `socket_connect_timeout` in `broker_transport_options` take
    precedence. Sentinels share the time: each is asked once, for its part of it, unless
    `sentinel_kwargs` has these two."""
    gate: Annotated[str | None, TEXT] = None
    """Dotted path of a callable `(app) -> Gate`, asked before each claim which entries
    to leave out (`()` for none; anything but a collection of names is refused at the
    start, and holds nothing later); see {py:class}`celery_pecker.kernel.gate.Gate` in
    [the API](api.md)."""
    worker: Annotated[Sequence[str], ROLES] = field(default=(), hash=False)
    """What this app's workers are beside their pools, a set: `"scheduler"`, so that [no
    beat process](../how-to/workers-only.md) is needed; `"outbox"`, to run what was
    recorded with [`outbox="local"`](../how-to/outbox-until-done.md); `"observers"`, to
    supervise hosts of [observers](../how-to/observers.md)."""
    local_threads: Annotated[int, whole(1, 1_000)] = 8
    """How many [local runs](../how-to/local-runs.md) one worker has at once."""
    history: Annotated[int, whole(0, 100_000)] = 600
    """How many slots of each entry keep their [reports](tables.md#pecker_history), for
    people. `0`: none, and [how runs ended](tables.md#pecker_outcomes) is not known
    either; schedulers remove what there is of both, so set it for all processes of an
    app."""
    metrics: Annotated[str | None, PLACE] = None
    """Where a scheduler answers [Prometheus and probes](metrics.md); `None`:
    nowhere."""
    tracing: Switch = False
    """Whether [OpenTelemetry spans](metrics.md#spans) lead from the claim to the task
    and its subtasks."""
    heartbeat_dir: Annotated[str | None, TEXT] = None
    """Where each scheduler shows that it is alive, for [`pecker health
    --live`](../how-to/probes.md); `None`: `celery-pecker-<uid>` in the temporary
    folder, which is refused where other users may write into it. A folder that you name
    is yours to guard."""
    outbox_message_bytes: Annotated[int, whole(1_000, 500_000_000)] = 8_000_000
    """Bytes that a message in an [outbox](../how-to/outbox.md) may have, headers
    included."""
    outbox_lease: PositiveSeconds = 30.0
    """For how long a relay keeps a batch that it claimed. Where it dies, another one
    takes the batch over after that; it must be well above `pecker_database_timeout` and
    `pecker_broker_timeout`."""
    intake_tasks: Annotated[Sequence[str], NAMES] = field(default=(), hash=False)
    """Names of the tasks that requests to the [intake](../how-to/outbox-intake.md) may
    record, or patterns such as `billing.*`."""
    outbox_backoff: PositiveSeconds = 60.0
    """Seconds for which the first run of a task with `outbox="until_done"` or `"local"`
    keeps other runs of it away, and after which it is tried again where it failed;
    doubled with each run, up to an hour. A message that the broker lost is sent again
    after the same time."""
    outbox_attempts: Annotated[int, whole(1, 10_000)] = 20
    """After how many failed runs such a task is parked, unless the task says so itself
    (`outbox_attempts=`)."""
    outbox_history: Annotated[int, whole(0, 10_000_000)] = 10_000
    """How many of such tasks are kept in
    [`pecker_outbox_done`](tables.md#pecker_outbox_done) once they are done; `0`: none.
    Rates are counted there: where it holds less than the runs of a minute they are too
    low ([*empty in*](cli.md#celery--a-proj-pecker-outbox))."""
    observers_hosts: Annotated[int, whole(1, 100)] = 1
    """Host processes of each worker, or of each `pecker observe`."""
    observers_capacity: Annotated[int | None, whole(1, 10_000_000)] = None
    """The weights that one host may hold together; `None`: [worked
    out](../how-to/observers.md#capacity) from cores and memory."""
    observers_memory_bytes: Annotated[
        int | None, whole(10_000_000, 1_000_000_000_000)
    ] = None
    """Bytes of memory, with those of its processes (`isolation="process"`), above which
    a host is [replaced](../how-to/observers.md#memory): another one is started beside
    it and takes over. A host that drains is not replaced. `None`: no limit."""
    observers_lease: PositiveSeconds = 5.0
    """Seconds for which a host holds its observers after its last renewal; where it
    dies together with its supervisor, others take over after that."""
    alarms: Annotated[Mapping[str, Any] | None, DICT] = field(default=None, hash=False)
    """Rules of [alarms](../how-to/alarms.md), a dict by their names, beside `silent`
    and `failing`, which go to the log without any setting; a rule that is `None` is
    taken out."""
    alarms_to: Annotated[Mapping[str, str] | None, DICT] = field(
        default=None, repr=False, hash=False
    )
    """Where notices go beside the log: Apprise URLs and dotted paths of callables, a
    dict by the names that rules use."""
    flower_url: Annotated[str | None, TEXT] = None
    """Where people find Flower, as ``https://flower.example.com``: each notice of an
    [alarm](../how-to/alarms.md) carries the address of its page there."""
    show_arguments: Switch = True
    """Whether pages, commands and their JSON show what recorded tasks and observers
    were called with (arguments, headers, cursors). `False`: they say that it is hidden.
    The tables, and code that calls `status`, have it in any case."""
    allowed_tasks: Annotated[Sequence[str] | None, NAMES] = field(
        default=None, hash=False
    )
    """Names of the tasks that [stored schedules](../how-to/stored-schedules.md) may
    store and run, or patterns such as `billing.*`; `None`: all. Flower's page changes
    schedules only where it is set."""

    @classmethod
    def read(cls, conf: Mapping[str, object], *, main: str | None) -> "Settings":
        """Return the checked settings of an app's configuration."""
        values = cls.given(conf)
        if main:
            values.setdefault("app", main)
        if not values.get("dsn"):
            raise Misconfigured(
                "pecker_dsn is not set: give it the connection string of a PostgreSQL"
                " database, for instance 'postgresql://user@host/database'"
            )
        if "app" not in values:
            raise Misconfigured(
                "pecker_app is not set and the app has no name: write Celery('proj')"
                " or set pecker_app = 'proj'; tables belong to one app, by its name"
            )
        return cls(**cls.checked(values))

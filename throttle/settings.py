"""The settings, read once and checked at the edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from celery_pecker.kernel.declared import (
    TEXT,
    Declared,
    Kind,
    Switch,
    between,
    is_number,
)
from throttle import addresses
from throttle.errors import Misconfigured
from throttle.limits import one_of, read_limits
from throttle.model import Estimator, Limit, Policy

PREFIX = "throttle_"


def _token(key: str, value: str) -> str:
    if not value.isascii() or not value.isprintable() or " " in value:
        message = f"{key} must be printable ASCII without spaces"
        raise Misconfigured(message)
    return value


def _number(least: float, most: float) -> Kind:
    return between(least, most, f"a number from {least:,} to {most:,}", is_number)


def _whole(most: int) -> Kind:
    return between(0, most, f"a whole number from 0 to {most:,}")


REDIS = replace(TEXT, convert=addresses.redis)
SERVICE = replace(TEXT, convert=addresses.service)
TOKEN = replace(TEXT, convert=_token)
ROUTE = Kind(
    "a dotted path, 'package.module.function', or the function itself",
    lambda value: callable(value) or (isinstance(value, str) and bool(value)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Declared):
    """What ``throttle_*`` settings of a Celery app say. Durations in seconds."""

    PREFIX = PREFIX
    PACKAGE = "throttle"
    REFUSAL = Misconfigured

    redis_url: Annotated[str | None, REDIS] = field(default=None, repr=False)
    """The Redis that counts: `redis://`, `rediss://`, `unix://`. Not the broker's if
    you can: its memory is small (windows live 10 s), its commands are not."""
    service_url: Annotated[str | None, SERVICE] = None
    """[The service](../how-to/throttle-service.md) to report to, instead of Redis."""
    service_token: Annotated[str | None, TOKEN] = field(default=None, repr=False)
    """What that service asks for."""
    control_token: Annotated[str | None, TOKEN] = field(default=None, repr=False)
    """What that service asks for where a limit is changed for a while (`adjust`), so
    that what only reports cannot; `None`: `throttle_service_token` does. Set it for the
    service and for people who use `throttle limit`."""
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """What each database bears per second, see below."""
    route: Annotated[str | Callable[..., object] | None, ROUTE] = None
    """Dotted path of a callable `(task, args, kwargs, headers)` that answers with a
    database, a pair of database and tenant, or `None`: nothing holds the task. A task's
    option `throttle="main"` comes first."""
    estimator: Annotated[Estimator, one_of(Estimator)] = Estimator.WEIGHTED
    """How traffic is estimated from the windows: `"weighted"` or `"fast"`, see
    [windows](../explanation/throttle-windows.md)."""
    policy: Annotated[Policy, one_of(Policy)] = Policy.SAFE
    """While Redis is away: `"open"`, `"closed"`, `"safe"` (half of the last share,
    counted by each worker alone); a limit may have its own."""
    shadow: Switch = False
    """Everything but the holding: what would have been held is counted."""
    prior: Annotated[float, _number(0.001, 1_000_000)] = 10.0
    """Operations that a task is thought to cost before one of its kind has run."""
    hold_messages: Annotated[int, _whole(10_000_000)] = 20_000
    """Messages that a worker holds at most."""
    hold_bytes: Annotated[int, _whole(100_000_000_000)] = 64_000_000
    """Bytes of messages that a worker holds at most."""
    hold_seconds: Annotated[float, _number(1, 86_400)] = 900.0
    """The longest hold on RabbitMQ, whose limit is 30 minutes by default; then the
    message is handed back."""
    queues: Mapping[str, str] = field(default_factory=dict)
    """Queues whose tasks all go to one database, `{"reports": "main"}`: such a queue is
    paused where others [overflow](../how-to/throttle-overflow.md)."""
    parking: Annotated[str, TEXT] = "throttle.parking"
    """Parking queues are called so, then the database and the queue that the messages
    came from, with dots between."""
    prefix: Annotated[str, TEXT] = "throttle"
    """How keys in Redis begin; two systems on one Redis need two."""

    @classmethod
    def read(cls, conf: Mapping[str, object]) -> Settings:
        """Return the checked settings of an app's configuration."""
        read = cls.checked(cls.given(conf))
        read["limits"] = read_limits(
            read.get("limits", {}),
            policy=read.get("policy", Policy.SAFE),
            shadow=read.get("shadow", False),
        )
        read["queues"] = _queues(read.get("queues", {}), read["limits"])
        settings = cls(**read)
        settings._check_together()
        return settings

    @property
    def enabled(self) -> bool:
        """Return whether workers of this app have a gate."""
        return bool(self.limits) and bool(self.redis_url or self.service_url)

    def _check_together(self) -> None:
        if self.limits and not (self.redis_url or self.service_url):
            message = (
                "throttle_limits needs throttle_redis_url (or throttle_service_url):"
                " where traffic is counted, for instance 'redis://localhost:6379/1'"
            )
            raise Misconfigured(message)
        for limit in self.limits.values():
            if limit.watch is not None:
                key = f"{PREFIX}limits[{limit.database!r}]['watch']['dsn']"
                addresses.postgres(key, limit.watch.dsn)
        if self.service_url and not self.service_token:
            message = (
                "throttle_service_url needs throttle_service_token, the one that"
                " `celery -A proj throttle serve` was started with"
            )
            raise Misconfigured(message)


def _queues(value: object, limits: Mapping[str, Limit]) -> dict[str, str]:
    if not isinstance(value, Mapping):
        message = (
            "throttle_queues must map names of queues to databases,"
            f" {{'reports': 'main'}}, not {value!r}"
        )
        raise Misconfigured(message)
    for queue, database in value.items():
        if not isinstance(database, str) or database not in limits:
            message = (
                f"throttle_queues[{queue!r}] is {database!r}, which has no limit;"
                f" allowed are {_listed(limits)}"
            )
            raise Misconfigured(message)
    return dict(value)


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "none: no limit is set"


def settings_of(where: object) -> Settings:
    """Return the settings of an app, of its configuration, or as they are."""
    if isinstance(where, Settings):
        return where
    return Settings.read(getattr(where, "conf", where))  # type: ignore[arg-type]  # as an app has it

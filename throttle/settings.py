"""The settings, read once and checked at the edge."""

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
MESSAGE_BYTES = 3_200
"""What a held message takes in a worker at least, however small its body is."""


def _token(key: str, value: str) -> str:
    if not value.isascii() or not value.isprintable() or " " in value:
        raise Misconfigured(f"{key} must be printable ASCII without spaces")
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
    """The Redis that counts: `redis://`, `rediss://`, `unix://`. If you can, another
    one than the broker's: it needs little memory (windows live 10 s), but many
    commands."""
    service_url: Annotated[str | None, SERVICE] = None
    """[The service](../how-to/throttle-service.md) to report to, instead of Redis."""
    service_token: Annotated[str | None, TOKEN] = field(default=None, repr=False)
    """The token that the service asks for."""
    control_token: Annotated[str | None, TOKEN] = field(default=None, repr=False)
    """The token that the service asks for where a limit is changed for a while
    (`adjust`), so that what only reports cannot; `None`: `throttle_service_token`. Set
    it for the service and for people who use `throttle limit`."""
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
    """Whether nothing is held: what would have been held is counted."""
    hold_bytes: Annotated[int, _whole(100_000_000_000)] = 64_000_000
    """Bytes of messages that a worker holds at most, and a message for each 3,200 of
    them."""
    hold_timeout: Annotated[float, _number(1, 86_400)] = 900.0
    """The longest hold on RabbitMQ, whose limit is 30 minutes by default; then the
    message is handed back."""
    prefix: Annotated[str, TEXT] = "throttle"
    """How keys in Redis begin, and names of [parking
    queues](../how-to/throttle-overflow.md); two systems on one Redis or broker need
    two."""

    @classmethod
    def read(cls, conf: Mapping[str, object]) -> "Settings":
        """Return the checked settings of an app's configuration."""
        read = cls.checked(cls.given(conf))
        read["limits"] = read_limits(
            read.get("limits", {}),
            policy=read.get("policy", Policy.SAFE),
            shadow=read.get("shadow", False),
        )
        settings = cls(**read)
        settings._check_together()
        return settings

    @property
    def hold_messages(self) -> int:
        """Messages that a worker holds at most."""
        return self.hold_bytes // MESSAGE_BYTES

    @property
    def parking(self) -> str:
        """Return how names of parking queues begin."""
        return f"{self.prefix}.parking"

    @property
    def queues(self) -> dict[str, str]:
        """Return the database of each queue whose tasks all go to one."""
        limits = self.limits.values()
        return {queue: one.database for one in limits for queue in one.queues}

    @property
    def enabled(self) -> bool:
        """Return whether workers of this app have a gate."""
        return bool(self.limits) and bool(self.redis_url or self.service_url)

    def _check_together(self) -> None:
        if self.limits and not (self.redis_url or self.service_url):
            raise Misconfigured(
                "throttle_limits needs throttle_redis_url (or throttle_service_url):"
                " where traffic is counted, for instance 'redis://localhost:6379/1'"
            )
        for limit in self.limits.values():
            if limit.watch is not None:
                key = f"{PREFIX}limits[{limit.database!r}]['watch']['dsn']"
                addresses.postgres(key, limit.watch.dsn)
        if self.service_url and not self.service_token:
            raise Misconfigured(
                "throttle_service_url needs throttle_service_token, the one that"
                " `celery -A proj throttle serve` was started with"
            )


def settings_of(where: object) -> Settings:
    """Return the settings of an app, of its configuration, or as they are."""
    if isinstance(where, Settings):
        return where
    return Settings.read(getattr(where, "conf", where))  # type: ignore[arg-type]  # as an app has it

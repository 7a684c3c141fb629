"""The settings, read once and checked at the edge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from throttle import addresses
from throttle.errors import Misconfigured
from throttle.limits import read_limits
from throttle.model import Estimator, Limit, Policy

PREFIX = "throttle_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What ``throttle_*`` settings of a Celery app say. Durations in seconds."""

    redis_url: str | None = field(default=None, repr=False)
    """The Redis that counts: ``redis://host:6379/1``. Not the broker's, if possible."""
    service_url: str | None = None
    """The service to report to instead of Redis: ``http://host:8585``."""
    service_token: str | None = field(default=None, repr=False)
    """What the service asks for, and what it is sent."""
    control_token: str | None = field(default=None, repr=False)
    """What the service asks for where a person changes a limit; None: the same."""
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """What each database bears: ``{"main": 5000}``."""
    route: str | Callable[..., object] | None = None
    """Dotted path of ``(task, args, kwargs, headers) -> database``."""
    estimator: Estimator = Estimator.WEIGHTED
    """How traffic is computed: ``weighted`` or ``fast``."""
    policy: Policy = Policy.SAFE
    """While Redis is away: ``open``, ``closed``, ``safe``; a limit may have its own."""
    shadow: bool = False
    """Nothing is held, what would have been is counted."""
    prior: float = 10.0
    """Operations that a task is thought to cost before one of its kind has run."""
    hold_messages: int = 20_000
    """Messages that a worker holds at most."""
    hold_bytes: int = 64_000_000
    """Bytes of messages that a worker holds at most."""
    hold_seconds: float = 900.0
    """The longest hold on RabbitMQ, then the message is handed back."""
    queues: Mapping[str, str] = field(default_factory=dict)
    """Queues that serve one database only: ``{"reports": "main"}``."""
    parking: str = "throttle.parking"
    """Parking queues are called so, with the database and the queue behind dots."""
    prefix: str = "throttle"
    """Keys in Redis start so: two systems on one Redis need two."""

    @classmethod
    def read(cls, conf: Mapping[str, object]) -> Settings:
        """Return the checked settings of an app's configuration."""
        known = {PREFIX + name: name for name in cls.__dataclass_fields__}
        _refuse_unknown(conf, known)
        options = {
            name: conf.get(key)
            for key, name in known.items()
            if conf.get(key) is not None
        }
        read: dict[str, object] = {}
        for name, value in options.items():
            if name not in {"limits", "queues"}:
                read[name] = CHECKS[name](PREFIX + name, value)
        policy = read.get("policy", Policy.SAFE)
        shadow = read.get("shadow", False)
        read["limits"] = read_limits(
            options.get("limits", {}), policy=Policy(str(policy)), shadow=bool(shadow)
        )
        read["queues"] = _queues(options.get("queues", {}), read["limits"])
        settings = cls(**read)  # type: ignore[arg-type]  # checked one by one above
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


def mentioned(conf: Mapping[str, object]) -> bool:
    """Return whether a configuration has any setting of ours, rightly spelt or not."""
    return any(conf.get(key) is not None for key, _ in _ours(conf))


def _ours(conf: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield each of our settings as it was written, and its lower-case name."""
    # An app's configuration that was not read yet shows its prefix in `data` only.
    read = getattr(conf, "data", conf)
    namespace = getattr(read, "prefix", None) or ""
    for key in conf:
        # Under a namespace Celery lists keys as they were written
        named = key.removeprefix(namespace) if namespace else key
        name = named.lower() if named != key else named
        if name.startswith(PREFIX):
            yield key, name


def _refuse_unknown(conf: Mapping[str, object], known: Mapping[str, str]) -> None:
    for key, name in _ours(conf):
        if name not in known:
            allowed = ", ".join(sorted(known))
            message = f"{key} is not a setting of throttle; allowed are {allowed}"
            raise Misconfigured(message)


def _queues(value: object, limits: object) -> dict[str, str]:
    assert isinstance(limits, Mapping)  # noqa: S101 — read_limits' own answer
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


# One check for each kind of value


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        shown = type(value).__name__ if "token" in key else repr(value)
        message = f"{key} must be a non-empty string, not {shown}"
        raise Misconfigured(message)
    return value


def _token(key: str, value: object) -> str:
    token = _text(key, value)
    if not token.isascii() or not token.isprintable() or " " in token:
        message = f"{key} must be printable ASCII without spaces"
        raise Misconfigured(message)
    return token


def _redis(key: str, value: object) -> str:
    return addresses.redis(key, _text(key, value))


def _service(key: str, value: object) -> str:
    return addresses.service(key, _text(key, value))


def _route(key: str, value: object) -> object:
    if not callable(value) and not (isinstance(value, str) and value):
        message = (
            f"{key} must be a dotted path, 'package.module.function', or the function"
            f" itself, not {value!r}"
        )
        raise Misconfigured(message)
    return value


def _switch(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        message = f"{key} must be True or False, not {value!r}"
        raise Misconfigured(message)
    return value


def _one_of(kinds: type[Estimator | Policy]) -> Callable[[str, object], object]:
    def check(key: str, value: object) -> object:
        if value not in list(kinds):
            allowed = ", ".join(repr(str(one)) for one in kinds)
            message = f"{key} must be one of {allowed}, not {value!r}"
            raise Misconfigured(message)
        return kinds(str(value))

    return check


def _number(least: float, most: float) -> Callable[[str, object], float]:
    return _between(least, most, float, "number")


def _whole(least: int, most: int) -> Callable[[str, object], float]:
    return _between(least, most, int, "whole number")


def _between(
    least: float, most: float, kind: type[float], what: str
) -> Callable[[str, object], float]:
    def check(key: str, value: object) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, kind))
            or not least <= value <= most
        ):
            message = (
                f"{key} must be a {what} from {least:,} to {most:,}, not {value!r}"
            )
            raise Misconfigured(message)
        return value

    return check


CHECKS: Mapping[str, Callable[[str, object], object]] = {
    "redis_url": _redis,
    "service_url": _service,
    "service_token": _token,
    "control_token": _token,
    "route": _route,
    "estimator": _one_of(Estimator),
    "policy": _one_of(Policy),
    "shadow": _switch,
    "prior": _number(0.001, 1_000_000),
    "hold_messages": _whole(0, 10_000_000),
    "hold_bytes": _whole(0, 100_000_000_000),
    "hold_seconds": _number(1, 86_400),
    "parking": _text,
    "prefix": _text,
}


def settings_of(where: object) -> Settings:
    """Return the settings of an app, of its configuration, or as they are."""
    if isinstance(where, Settings):
        return where
    return Settings.read(getattr(where, "conf", where))  # type: ignore[arg-type]  # as an app has it

"""What each database bears: ``throttle_limits``, and a dispatcher's quota of it."""

import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from celery_pecker.kernel.declared import SWITCH, TEXT, Kind, is_number
from throttle.errors import Misconfigured
from throttle.model import Amount, Estimator, Limit, Policy, Watch

ALLOWED = ("operations", "seconds", "policy", "shadow", "tenants", "watch", "queues")
WATCHED = ("active", "wal_rate", "lag")
LONGEST_NAME = 60
"""Bytes of a database's name: it has to fit into shared memory."""


def read_limits(value: object, *, policy: Policy, shadow: bool) -> dict[str, Limit]:
    """Return the checked limits by database.

    A mapping, or pairs of name and limit; a limit is a number of operations per second
    or a mapping with `operations` and what else it has.
    """
    limits: dict[str, Limit] = {}
    for name, limit in _pairs(value):
        check_name(name, "throttle_limits: ")
        if name in limits:
            raise Misconfigured(
                f"throttle_limits has two limits for {name!r}; leave one"
            )
        limits[name] = _limit(name, limit, policy=policy, shadow=shadow)
    owners: dict[str, str] = {}
    for name, one in limits.items():
        for queue in one.queues:
            if (other := owners.setdefault(queue, name)) != name:
                raise Misconfigured(
                    f"throttle_limits[{name!r}]['queues'] has {queue!r}, and so has"
                    f" {other!r}; leave one"
                )
    folded: dict[str, str] = {}
    for name in limits:
        other = folded.setdefault(name.strip().casefold(), name)
        if other != name:
            raise Misconfigured(
                f"throttle_limits has {other!r} and {name!r}, which look like two"
                " limits for one database; leave one"
            )
    return limits


def _pairs(value: object) -> Iterable[tuple[Any, object]]:
    if isinstance(value, Mapping):
        return value.items()
    pair = 2
    if isinstance(value, (list, tuple)) and all(
        isinstance(one, (list, tuple)) and len(one) == pair for one in value
    ):
        return [(one[0], one[1]) for one in value]
    raise Misconfigured(
        "throttle_limits must map databases to limits, {'main': 5000}"
        f" (operations per second), not {type(value).__name__}"
    )


def check_name(name: object, where: str = "") -> str:
    """Return the name of a database that can be a key, or say what is allowed."""
    if (
        not isinstance(name, str)
        or not name.strip()
        or len(name.encode()) > LONGEST_NAME
        or any(character in name for character in "\0{}:")
    ):
        raise Misconfigured(
            f"{where}{name!r} is no name of a database: 1 to {LONGEST_NAME} bytes,"
            " without NUL, '{', '}' or ':'"
        )
    return name


def _limit(name: str, limit: object, *, policy: Policy, shadow: bool) -> Limit:
    key = f"throttle_limits[{name!r}]"
    parts = limit if isinstance(limit, Mapping) else {"operations": limit}
    _refuse_others(key, parts, ALLOWED)
    if "operations" not in parts:
        raise Misconfigured(f"{key} needs 'operations', the limit per second")
    seconds = parts.get("seconds")
    # Named as it was written: a number alone, or one among others
    whole = f"{key}['operations']" if parts is limit else key
    return Limit(
        database=name,
        operations=_checked(whole, parts["operations"], POSITIVE),
        seconds=None
        if seconds is None
        else _checked(f"{key}['seconds']", seconds, POSITIVE),
        policy=_checked(f"{key}['policy']", parts.get("policy", policy), POLICY),
        shadow=_checked(f"{key}['shadow']", parts.get("shadow", shadow), SWITCH),
        tenants=_weights(f"{key}['tenants']", parts.get("tenants", {})),
        watch=_watch(f"{key}['watch']", parts.get("watch")),
        queues=_checked(f"{key}['queues']", parts.get("queues", ()), QUEUES),
    )


def one_of(kinds: type[Estimator | Policy]) -> Kind:
    """Return the kind of the members, or their texts, of an enumeration."""
    allowed = ", ".join(repr(str(one)) for one in kinds)
    return Kind(
        f"one of {allowed}",
        lambda value: value in list(kinds),
        lambda _, value: kinds(str(value)),
    )


POSITIVE = Kind(
    "a number above zero",
    lambda value: is_number(value, math.ulp(0.0), sys.float_info.max),
    lambda _, value: float(value),
)
POLICY = one_of(Policy)
QUEUES = Kind(
    "a list of names of queues",
    lambda value: isinstance(value, (list, tuple)) and all(map(TEXT.is_allowed, value)),
    lambda _, value: tuple(value),
)


def _checked(key: str, value: object, kind: Kind) -> Any:
    """Return a value as its kind reads it, or say what is allowed."""
    if not kind.is_allowed(value):
        raise Misconfigured(f"{key} must be {kind.allowed}, not {value!r}")
    return kind.convert(key, value)


def _refuse_others(
    key: str, parts: Mapping[Any, object], allowed: Iterable[str]
) -> None:
    others = [one for one in parts if one not in allowed]
    if others:
        raise Misconfigured(
            f"{key} has {others[0]!r}; allowed are {', '.join(allowed)}"
        )


def _weights(key: str, value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise Misconfigured(
            f"{key} must map tenants to weights, {{'acme': 3}}, not {value!r}"
        )
    return {
        str(name): _checked(f"{key}[{name!r}]", weight, POSITIVE)
        for name, weight in value.items()
    }


def _watch(key: str, value: object) -> Watch | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("dsn"), str):
        raise Misconfigured(
            f"{key} must have 'dsn', the PostgreSQL to ask, and one of "
            + ", ".join(WATCHED)
        )
    _refuse_others(key, value, ("dsn", *WATCHED))
    figures = {
        name: _checked(f"{key}[{name!r}]", value[name], POSITIVE)
        for name in WATCHED
        if value.get(name) is not None
    }
    if not figures:
        raise Misconfigured(f"{key} watches nothing: set one of {', '.join(WATCHED)}")
    return Watch(dsn=value["dsn"], **figures)


IDLE = 100.0
"""Tasks per cycle while a database does nothing else."""
SAFE = 0.5
LEAST = 5.0
"""Tasks per cycle that policy `safe` leaves at least: what was heard last may have been
a full database, and the store may be away for hours."""


def quota(limit: Limit, traffic: Amount, factor: float = 1.0) -> float:
    """Return ``max((limit - traffic) * 100 / limit, 0)`` of the scarcer dimension.

    The limit is the one in force: `factor` is what the second signal has left of it.
    0 means that the cycle starts nothing on this database.
    """
    if factor <= 0:
        return 0.0
    left = [_left(limit.operations * factor, traffic.operations)]
    if limit.seconds is not None:
        left.append(_left(limit.seconds * factor, traffic.seconds))
    return max(min(left), 0.0)


def _left(limit: float, traffic: float) -> float:
    # Rounded, or what is left of 0.7 of 300 would be 0.9999999999999973 tasks: none.
    return round((limit - traffic) * IDLE / limit, 9)


def quota_without_answer(policy: Policy, last: float | None) -> float:
    """Return the quota without an answer; `last` is the quota of the last one.

    ``safe``: half of it, no less than 5; if there never was an answer, half of an idle
    database's.
    """
    match policy:
        case Policy.OPEN:
            return float("inf")
        case Policy.CLOSED:
            return 0.0
        case Policy.SAFE:
            return max((IDLE if last is None else last) * SAFE, LEAST)

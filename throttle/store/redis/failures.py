"""Sort what Redis can raise: away, or never going to work."""

from __future__ import annotations

from collections.abc import Mapping

from redis import exceptions as redis_errors

from throttle.errors import Misconfigured, StoreUnavailable

FOREIGN = "has something of another program under our keys: set throttle_prefix"
ALL = (
    redis_errors.RedisError,
    OSError,
    # What the client's parser and our own reading raise on the answers of a server
    # that is no Redis
    ValueError,
    TypeError,
    IndexError,
    OverflowError,
    MemoryError,
    RecursionError,
)
"""All that a call of the client may raise."""
NO_REDIS = "answers, but not as a Redis does"
RIGHTS = (
    "does not let this user do what is needed: EVAL, EVALSHA and what the scripts"
    " call, on the keys of throttle_prefix"
)
REPLICA = (
    "is a read-only replica: name the primary, or sentinels that know it"
    " (sentinel://…?master_name=…)"
)
ANSWERS = (
    redis_errors.ResponseError,
    redis_errors.AuthenticationError,
    redis_errors.AuthorizationError,
)
HEALS = (
    "OOM",
    "OutOfMemory",
    "LOADING",
    "BUSY",
    "TryAgain",
    "ClusterDown",
    "MasterDown",
    "AskError",
)
"""Answers of a Redis that will recover by itself, or by its operator."""
STAYS: Mapping[str, str] = {
    "WRONGPASS": "does not take the user name and the password",
    "invalid password": "does not take the user name and the password",
    "invalid username-password": "does not take the user name and the password",
    "NOAUTH": "asks for a password",
    "Authentication required": "asks for a password",
    "without any password": "wants no password",
    "NoPermission": RIGHTS,
    "NOPERM": RIGHTS,
    "no permissions": RIGHTS,
    "user executing the script can't": RIGHTS,
    "ReadOnly": REPLICA,
    "READONLY": REPLICA,
    "read only replica": REPLICA,
    "WRONGTYPE": FOREIGN,
    "user_script": FOREIGN,
}
"""Answers that will stay so, and what is the matter: the first that is in the text.

By their text, for what a script is refused comes as an error of the script.
"""


def away(place: str, error: BaseException) -> StoreUnavailable:
    """Return the message for the time in which policies hold."""
    return StoreUnavailable(f"Redis at {place} is away: {_line(error)}")


def final(place: str, error: BaseException) -> Misconfigured | StoreUnavailable:
    """Return the message at start: an answer that will stay so names its setting."""
    why = _stays(error)
    if why is None:
        return away(place, error)
    return Misconfigured(f"throttle_redis_url: {place} {why} ({_line(error)})")


def _stays(error: BaseException) -> str | None:
    text = f"{type(error).__name__} {error}"
    if isinstance(error, ANSWERS):
        if any(word in text for word in HEALS):
            return None
        known = (why for word, why in STAYS.items() if word in text)
        return next(known, "refuses what is needed")
    if isinstance(error, redis_errors.InvalidResponse):
        return NO_REDIS
    if isinstance(error, (redis_errors.RedisError, OSError)):
        return None
    return NO_REDIS


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__

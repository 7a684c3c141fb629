"""What Redis can raise, told apart: away, or never going to work."""

from __future__ import annotations

from redis import exceptions as said

from throttle.errors import Away, Misconfigured

ALL = (
    said.RedisError,
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

FOREIGN = "has something of another program under our keys: set throttle_prefix"
HEALS = (
    said.BusyLoadingError,
    said.TryAgainError,
    said.ClusterDownError,
    said.MasterDownError,
    said.AskError,
    said.OutOfMemoryError,
)
"""Answers of a Redis that will be well again by itself, or by its operator."""
NO_REDIS = "answers, but not as a Redis does"
STAYS: tuple[tuple[type[Exception], str, str], ...] = (
    # Kind, what its text begins with or has in it, what is the matter
    (
        said.ReadOnlyError,
        "",
        (
            "is a read-only replica: name the primary, or sentinels that know it"
            " (sentinel://…?master_name=…)"
        ),
    ),
    (said.InvalidResponse, "", NO_REDIS),
    (said.AuthenticationError, "", "does not take the user name and the password"),
    (said.ResponseError, "WRONGPASS", "does not take the user name and the password"),
    (said.ResponseError, "NOAUTH", "asks for a password"),
    (
        said.NoPermissionError,
        "",
        (
            "does not let this user do what is needed: EVAL, EVALSHA and what"
            " the scripts call, on the keys of throttle_prefix"
        ),
    ),
    (said.ResponseError, "WRONGTYPE", FOREIGN),
    (said.ResponseError, "Bad data format", FOREIGN),
    (said.ResponseError, "", "refuses what is needed"),
)


def away(place: str, error: BaseException) -> Away:
    """Return what is said while policies hold."""
    return Away(f"Redis at {place} is away: {_line(error)}")


def final(place: str, error: BaseException) -> Misconfigured | Away:
    """Return what is said at start: an answer that will stay so names its setting."""
    if isinstance(error, HEALS) or "OOM" in str(error):
        return away(place, error)
    for kind, word, why in STAYS:
        if isinstance(error, kind) and word in str(error):
            return Misconfigured(f"throttle_redis_url: {place} {why} ({_line(error)})")
    if isinstance(error, (said.RedisError, OSError)):
        return away(place, error)
    return Misconfigured(f"throttle_redis_url: {place} {NO_REDIS} ({_line(error)})")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__

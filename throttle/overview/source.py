"""The store that an app's settings name."""

from __future__ import annotations

from typing import Protocol

from throttle.errors import Misconfigured
from throttle.model import Store
from throttle.settings import Settings

PATIENCE = 0.5
"""Seconds that people's questions wait for Redis; a worker's wait less."""
UNSET = (
    "throttle_redis_url (or throttle_service_url) is not set: it says where traffic is"
    " counted, for instance 'redis://localhost:6379/1'"
)


class CheckedStore(Store, Protocol):
    """A store that says what is wrong with its address."""

    def check(self) -> None:
        """It is there and can be used; raises Misconfigured or Away."""
        ...


def open_store(settings: Settings, *, timeout: float = PATIENCE) -> CheckedStore:
    """Return the store to look at: Redis, or the service before it.

    Raises Misconfigured if the settings name none. Nothing is connected yet.
    """
    if settings.service_url and settings.service_token:
        from throttle.store.http import HttpStore  # noqa: PLC0415  # one of two

        return HttpStore(settings.service_url, settings.service_token, timeout=timeout)
    if settings.redis_url:
        from throttle.store.redis import RedisStore  # noqa: PLC0415  # one of two

        return RedisStore(
            settings.redis_url,
            prefix=settings.prefix,
            estimator=settings.estimator,
            timeout=timeout,
        )
    raise Misconfigured(UNSET)


def where(settings: Settings) -> str:
    """Return where traffic is counted, without what nobody should read."""
    url = settings.service_url or settings.redis_url or "nowhere"
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2].partition('?')[0]}"

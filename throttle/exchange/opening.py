"""The settings of whoever asks, and the store that they name."""

from __future__ import annotations

from typing import Any

from throttle.errors import Misconfigured
from throttle.model import Store
from throttle.settings import Settings


def open_store(settings: Settings) -> Store:
    """Return Redis, or the service before it. Nothing is connected yet.

    It waits for an answer no longer than an exchange may.

    Raises:
        Misconfigured: Neither is named, or its address is none.
    """
    # Imported here: a process needs the client of one of the two.
    if settings.service_url and settings.service_token:
        from throttle.store.http import HttpStore  # noqa: PLC0415

        return HttpStore(settings.service_url, settings.service_token)
    if settings.redis_url:
        from throttle.store.redis import RedisStore  # noqa: PLC0415

        return RedisStore(
            settings.redis_url, prefix=settings.prefix, estimator=settings.estimator
        )
    message = (
        "throttle_redis_url (or throttle_service_url) is not set: it says where"
        " traffic is counted, for instance 'redis://localhost:6379/1'"
    )
    raise Misconfigured(message)


def settings_of(where: Any) -> Settings:
    """Return the settings of an app, of its configuration, or as they are."""
    if isinstance(where, Settings):
        return where
    return Settings.read(getattr(where, "conf", where))

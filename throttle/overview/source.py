"""The store that people look at, and its address as they may read it."""

from __future__ import annotations

from throttle import store
from throttle.settings import Settings

READ_TIMEOUT = 0.5
"""Seconds that people's questions wait for Redis; a worker's wait less."""


def open_store(settings: Settings) -> store.CheckedStore:
    """Return Redis, or the service before it; Misconfigured if neither is named."""
    return store.open_store(settings, timeout=READ_TIMEOUT)


def where(settings: Settings) -> str:
    """Return where traffic is counted, without what nobody should read."""
    url = settings.service_url or settings.redis_url or "nowhere"
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2].partition('?')[0]}"

"""Where processes meet: `throttle.model.Store`, in Redis or in the service before it.

`open_store` returns the one that the settings name; `adjust` sets a limit at run time,
for a while, with a name beside it.

``redis/``  one script per exchange: counts, traffic, shares
``http``    the same over HTTP, for processes that may not reach Redis
``wire``    the form of that, `fields` below it
"""

# Python loads it at the first connection, which a thread of ours makes. A process that
# is forked in that moment has half of it for ever: no name of a host is resolved there
# (`LookupError: unknown encoding: idna`), by us or by other code.
import encodings.idna  # noqa: F401 — see above
from datetime import timedelta

from celery_pecker.kernel.clock import now
from throttle.errors import Misconfigured
from throttle.model import Limit, Store
from throttle.settings import Settings
from throttle.units import ADJUSTED, ADJUSTED_FOR

UNSET = (
    "throttle_redis_url (or throttle_service_url) is not set: it says where traffic is"
    " counted, for instance 'redis://localhost:6379/1'"
)


def open_store(settings: Settings, *, timeout: float | None = None) -> Store:
    """Return Redis, or the service before it. Nothing is connected yet.

    It waits for an answer so many seconds; None: no longer than an exchange may.

    Raises:
        Misconfigured: Neither is named, or its address is none.
    """
    # Imported late: a process needs the client of one of the two.
    if settings.service_url and settings.service_token:
        from throttle.store import http  # noqa: PLC0415

        return http.HttpStore(
            settings.service_url,
            settings.service_token,
            control_token=settings.control_token,
            timeout=http.TIMEOUT if timeout is None else timeout,
        )
    if settings.redis_url:
        from throttle.store.redis import store  # noqa: PLC0415

        return store.RedisStore(
            settings.redis_url,
            prefix=settings.prefix,
            estimator=settings.estimator,
            timeout=store.TIMEOUT if timeout is None else timeout,
        )
    raise Misconfigured(UNSET)


LONGEST = ADJUSTED_FOR
"""Seconds."""
LONGEST_NAME = 100


def adjust(
    store: Store, limit: Limit, operations: float | None, seconds: float, who: str
) -> str:
    """Set a database's limit for so many seconds; None: that of the settings.

    What is limited in seconds changes in the same proportion. Return what people are
    shown of it. Raises `Misconfigured` for what cannot be, and `StoreUnavailable`.
    """
    if operations is None:
        store.adjust(limit.database, 1.0, "", 0.0)
        return f"the limit of the settings, {limit.operations:g} operations/s"
    factor = operations / limit.operations
    if not 0 < factor <= ADJUSTED:
        most = limit.operations * ADJUSTED
        raise Misconfigured(
            f"operations must be above 0 and at most {most:g}, not {operations!r}"
        )
    if not 1 <= seconds <= LONGEST:
        raise Misconfigured(f"seconds must be 1 to {LONGEST}, not {seconds!r}")
    until = (now() + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S UTC")
    message = f"{operations:g} operations/s until {until}, set by {who[:LONGEST_NAME]}"
    store.adjust(limit.database, factor, message, seconds)
    return message

"""Asking PostgreSQL to cancel a statement whose connection is given up.

That is a connection of its own and may hang as the first one did: so in a thread, in
bounded time, and never more than a few at once. It is a courtesy: what a dead route
keeps from PostgreSQL, its own `statement_timeout` ends.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import capabilities, generators, waiting

logger = logging.getLogger(__name__)

CANCEL_TIMEOUT = 5.0
AT_ONCE = 8
_free = threading.BoundedSemaphore(AT_ONCE)


def cancel_in_thread(pgconn: Any) -> None:
    """Ask the server from another thread, unless too many are being asked."""
    if not capabilities.has_cancel_safe():  # older libpq waits without bound
        return
    with suppress(psycopg.Error):
        request = pgconn.cancel_conn()
        if not _free.acquire(blocking=False):
            logger.warning("pecker: too many statements to cancel: one goes on")
            return
        threading.Thread(
            target=_cancel, args=(request,), name="pecker-cancel", daemon=True
        ).start()


def _cancel(request: Any) -> None:
    try:
        request.start()
        waiting.wait_conn(
            generators.cancel(request), interval=0.1, timeout=CANCEL_TIMEOUT
        )
    except psycopg.Error as error:
        logger.info("pecker: a statement could not be cancelled: %s", error)
    finally:
        _free.release()

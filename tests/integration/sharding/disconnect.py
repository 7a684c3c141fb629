"""The end of an app that has asked for results on Redis."""

from __future__ import annotations

import gc
import warnings
from typing import Any

from celery import Celery


def disconnect(app: Celery) -> None:
    """Leave nothing of this process connected.

    A result unsubscribes when it is collected, some of them in a circle. On a
    subscription that is closed that makes a new connection, which nobody closes: a
    later test sees it as a socket that was left open. So the subscription goes, too.
    """
    backend: Any = app.backend
    with warnings.catch_warnings():
        # A socket that an earlier test has left in a circle is no fault of this one
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    backend.result_consumer.stop()
    backend.result_consumer._pubsub = None
    backend.client.close()
    backend.client.connection_pool.disconnect()
    app.close()

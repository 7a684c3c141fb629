"""The supervisor of the observers of one worker."""

from __future__ import annotations

from typing import Any

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.schema_check import StartRefused
from celery_pecker.observers.app import observers_of
from celery_pecker.observers.hosts.supervisor import Supervisor


def supervisor(worker: Any) -> Supervisor:
    """Return it, not yet started; what is misconfigured ends the worker."""
    try:
        return _made(worker)
    except Misconfigured as error:
        raise StartRefused(str(error)) from error


def _made(worker: Any) -> Supervisor:
    observers = observers_of(worker.app)
    if observers is None:
        message = (
            "pecker_observers is set, and the app has no observers: make them with"
            " Observers(app)"
        )
        raise Misconfigured(message)
    _ = observers.settings  # refuses what is neither True nor False
    return Supervisor(observers, name=worker.hostname)

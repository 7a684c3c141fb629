"""Settings of the admin, checked by ``manage.py check`` and before a server starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

from celery_pecker.django import databases, migrating

READ: tuple[Callable[[], object], ...] = (
    databases.alias,
    databases.outboxes,
    migrating.switch,
)


def settings(**_: Any) -> list[CheckMessage]:
    """Return what is wrong with each of them."""
    wrong: list[CheckMessage] = []
    for read in READ:
        try:
            read()
        except ImproperlyConfigured as error:
            wrong.append(Error(str(error), id="celery_pecker.E001"))
    return wrong

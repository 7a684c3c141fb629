"""Take pecker's steps before those of Django's apps, in ``manage.py migrate``.

A hook and no migration of Django's: a migration runs once, so each step would have to
be numbered a second time. The numbered line stays the only one, and it only goes
forward: there is nothing that ``migrate`` could reverse.
"""

import sys
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import connections, router
from psycopg import pq
from psycopg.conninfo import make_conninfo

from celery_pecker.django import databases, project
from celery_pecker.kernel import migrations
from celery_pecker.kernel.errors import PeckerError

SWITCH = "PECKER_ADMIN_MIGRATE"


def before(*, using: str, verbosity: int = 1, stdout: Any = None, **_: Any) -> None:
    """Take the steps that the database lacks, if it is the one of the tables.

    Raises:
        CommandError: a step could not be taken, or a setting is not valid.
    """
    try:
        _take(using, verbosity, stdout or sys.stdout)
    except (ImproperlyConfigured, PeckerError) as error:
        raise CommandError(str(error)) from error


def _take(using: str, verbosity: int, stdout: Any) -> None:
    def say(text: str) -> None:
        if verbosity >= 1:
            stdout.write(f"  {text}\n")

    if using != databases.alias() or switch() is False:
        return
    if not router.allow_migrate(using, "celery_pecker"):
        return
    reason = None if switch() else reason_to_skip(using)
    if reason is not None:
        say(f"Tables of celery-pecker are left alone: {reason}")
        return
    for step in migrations.migrate(address(using), schema=databases.schema()):
        say(f"Applying celery_pecker step {step.version:04} {step.name}... OK")


def switch() -> bool | None:
    """Return what the settings say; None: go by the addresses.

    Raises:
        ImproperlyConfigured: it is neither True nor False nor None.
    """
    value = getattr(settings, SWITCH, None)
    if value is not None and not isinstance(value, bool):
        raise ImproperlyConfigured(
            f"{SWITCH} must be True, False or None, not {value!r}"
        )
    return value


def reason_to_skip(alias: str) -> str | None:
    """Return why nothing is done in a database; None if it has the tables."""
    try:
        return project.why_without_tables(alias)
    except ImproperlyConfigured as error:
        return str(error)


def address(alias: str) -> str:
    """Return how Django reaches a database, test databases included, for libpq."""
    wrapper = connections[alias]
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    params = {
        name: value
        for name, value in wrapper.get_connection_params().items()
        if name in known and value is not None
    }
    role = wrapper.settings_dict["OPTIONS"].get("assume_role")
    if role:
        escaped = str(role).replace("\\", "\\\\").replace(" ", "\\ ")
        params["options"] = f"{params.get('options', '')} -c role={escaped}".strip()
    return make_conninfo("", **params)


READ: tuple[Callable[[], object], ...] = (
    databases.alias,
    databases.outboxes,
    switch,
)


def check_settings(**_: Any) -> list[CheckMessage]:
    """Return what is wrong with each setting of the admin: for ``manage.py check``."""
    wrong: list[CheckMessage] = []
    for read in READ:
        try:
            read()
        except ImproperlyConfigured as error:
            wrong.append(Error(str(error), id="celery_pecker.E001"))
    return wrong

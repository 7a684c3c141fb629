"""The Celery app of a Django project, and whether the admin's database has its tables.

What stood in DATABASES when Django began counts: a test database has another name.
"""

import os
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from celery import Celery, _state
from celery.app.utils import find_app
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

from celery_pecker.django import databases
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.settings import Settings

APP = "PECKER_ADMIN_APP"
NO_APP = (
    "no Celery app is loaded: import it in the project's __init__.py, as Celery's"
    f" documentation has it, or name it by {APP}, as in 'mysite.celery:app'"
)

_began: dict[str, Any] = {"app": None, "databases": {}}


def begin() -> None:
    """Note the current Celery app, and where databases are; called once, at the start.

    Celery's current app is one of the thread that made it: threads that answer requests
    see another one, which has no settings.
    """
    # Not celery.current_app, which makes an app where there is none.
    _began["app"] = vars(_state)["_tls"].current_app
    _began["databases"] = {
        alias: {
            **database.get("OPTIONS", {}),
            "dbname": database.get("NAME"),
            "user": database.get("USER"),
            "host": database.get("HOST"),
            "port": database.get("PORT"),
        }
        for alias, database in settings.DATABASES.items()
    }


def celery_app() -> Celery:
    """Return the Celery app of the project.

    Raises:
        ImproperlyConfigured: there is none.
    """
    path = getattr(settings, APP, None)
    if not path:
        if _began["app"] is None:
            raise ImproperlyConfigured(NO_APP)
        app: Celery = _began["app"]
        return app
    try:
        named: object = find_app(path)
    except (AttributeError, ImportError, ValueError) as error:
        raise ImproperlyConfigured(
            f"{APP} is {path!r}, which cannot be loaded: {error}"
        ) from error
    if not isinstance(named, Celery):
        raise ImproperlyConfigured(
            f"{APP} is {path!r}; allowed is where a Celery app is, not {named!r}"
        )
    return named


def app_settings() -> Settings:
    """Return the settings of the app, checked.

    Raises:
        ImproperlyConfigured: there is no app, or they are not valid.
    """
    app = celery_app()
    try:
        pecker = Settings.read(app.conf, main=app.main)
        Database.of(pecker, role="django")  # refuses what is no DSN
    except Misconfigured as error:
        raise ImproperlyConfigured(str(error)) from error
    return pecker


def why_without_tables(alias: str) -> str | None:
    """Return why a database does not have the app's tables; None if it has.

    Raises:
        ImproperlyConfigured: there is no app, or its settings are not valid.
    """
    theirs = app_settings()
    if connections[alias].vendor != "postgresql":
        return f"the database {alias!r} is {connections[alias].vendor}, not PostgreSQL"
    if theirs.schema != databases.schema():
        return (
            f"pecker_schema is {theirs.schema!r}, but the admin's schema"
            f" ({databases.SCHEMA}) is {databases.schema()!r}"
        )
    ours = _began["databases"][alias]
    if not same(conninfo_to_dict(theirs.dsn), ours, os.environ):
        return f"pecker_dsn names another database than DATABASES[{alias!r}]"
    return None


LOOPBACK = "localhost"
LOCAL = {"", LOOPBACK, "127.0.0.1", "::1"}
PORT = "5432"

Params = Mapping[str, object]
"""As `psycopg.conninfo.conninfo_to_dict` returns them."""


def same(one: Params, other: Params, environ: Mapping[str, str]) -> bool:
    """Return whether the database is the same, and one of the hosts at least.

    Args:
        one: a connection string, parsed.
        other: the other one.
        environ: variables of the process, such as PGHOST.
    """
    services = {_text(params, "service") for params in (one, other)}
    if services != {""}:
        return len(services) == 1
    return _name(one, environ) == _name(other, environ) and bool(
        _hosts(one, environ) & _hosts(other, environ)
    )


def _text(params: Params, key: str) -> str:
    value = params.get(key)
    return "" if value is None else str(value)


def _name(params: Params, environ: Mapping[str, str]) -> str:
    user = _text(params, "user") or environ.get("PGUSER", "")
    return _text(params, "dbname") or environ.get("PGDATABASE", "") or user


def _hosts(params: Params, environ: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return hosts with their ports; each way to this machine counts as one."""
    named = _text(params, "host") or _text(params, "hostaddr")
    names = (named or environ.get("PGHOST", "")).split(",")
    ports = (_text(params, "port") or environ.get("PGPORT", "")).split(",")
    if len(ports) == 1:
        ports = ports * len(names)
    pairs = zip_longest(names, ports, fillvalue="")
    return {(_host(name.strip()), port.strip() or PORT) for name, port in pairs}


def _host(name: str) -> str:
    local = name.lower() in LOCAL or name.startswith(("/", "@"))
    return LOOPBACK if local else name.lower()

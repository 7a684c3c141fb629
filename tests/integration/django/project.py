"""A Django project that has our admin, asked line by line. A process of its own.

Django has one set of settings for each process: this module is them.
A line of standard input is a request as JSON; the answer is a line of JSON.
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from typing import Any

import django
from celery import Celery
from django.core.management import CommandError, call_command
from django.db.models.signals import pre_save
from django.test.utils import override_settings
from psycopg.conninfo import conninfo_to_dict

given: dict[str, Any] = conninfo_to_dict(os.environ["PROJECT_DSN"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("PROJECT_USERS", ":memory:"),
    },
    "outbox": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "USER": given.get("user", ""),
        "PASSWORD": given.get("password", ""),
        "HOST": given["host"],
        "PORT": given.get("port", ""),
    },
}
PECKER_ADMIN_DATABASE = os.environ.get("PROJECT_ALIAS", "outbox")
if "PROJECT_EU" in os.environ:
    eu = conninfo_to_dict(os.environ["PROJECT_EU"])
    DATABASES["eu"] = {**DATABASES["outbox"], "NAME": eu["dbname"], "PORT": eu["port"]}
    PECKER_ADMIN_OUTBOXES = {"main": "outbox", "eu": "eu"}
CELERY_PECKER_SCHEMA = os.environ.get("PROJECT_SCHEMA", "public")
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "celery_pecker.django",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
if __name__ != "__main__" and "PROJECT_PECKER_DSN" in os.environ:
    app = Celery("proj", broker="memory://")
    app.conf.pecker_dsn = os.environ["PROJECT_PECKER_DSN"]
    app.conf.beat_schedule = {"in code": {"task": "proj.code", "schedule": 60.0}}
    app.conf.update(json.loads(os.environ.get("PROJECT_CONF", "{}")))

    @app.task(name="proj.report")
    def report() -> None:
        """Be offered to who fills in a form."""

    other = Celery("other", broker="memory://", set_as_current=False)
    other.conf.pecker_dsn = f"{os.environ['PROJECT_PECKER_DSN']}_other"
ALLOWED_HOSTS = ["testserver", "127.0.0.1"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ROOT_URLCONF = "tests.integration.django.addresses"
SECRET_KEY = "a test's own"  # noqa: S105
STATIC_URL = "/static/"
USE_TZ = True


class Forbids:
    """A router that keeps our tables out of each database."""

    def allow_migrate(self, db: str, app_label: str, **_: Any) -> bool | None:
        """Say no for our app, nothing for others."""
        del db
        return False if app_label == "celery_pecker" else None


def main() -> None:
    """Answer requests until there are no more."""
    django.setup()
    call_command("migrate", verbosity=0)
    from django.contrib.auth.models import Permission, User  # noqa: PLC0415
    from django.test import Client  # noqa: PLC0415

    pre_save.connect(fail, sender="admin.LogEntry")
    User.objects.create_superuser("boss")
    User.objects.create_user("nobody", is_staff=True)
    reader = User.objects.create_user("reader", is_staff=True)
    watcher = User.objects.create_user("watcher", is_staff=True)
    editor = User.objects.create_user("editor", is_staff=True)
    for user, codenames in (
        (reader, ["view_outboxmessage"]),
        (watcher, ["view_schedule"]),
        (editor, ["view_schedule", "change_schedule"]),
    ):
        found = Permission.objects.filter(codename__in=codenames)
        assert found.count() == len(codenames)
        user.user_permissions.set(found)
    clients = {}
    for user in User.objects.all():
        clients[user.get_username()] = Client(raise_request_exception=False)
        clients[user.get_username()].force_login(user)
    print("{}", flush=True)  # noqa: T201
    for line in sys.stdin:
        print(json.dumps(answer(clients, json.loads(line))), flush=True)  # noqa: T201


def answer(clients: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Return what a request or a command of manage.py was answered."""
    if "command" in asked:
        out = io.StringIO()
        try:
            with override_settings(**asked["settings"]):
                call_command(*asked["command"], stdout=out)
        except SystemExit as error:
            return {"status": error.code, "out": out.getvalue()}
        except CommandError as error:
            return {"status": 1, "out": str(error)}
        return {"status": 0, "out": out.getvalue()}
    if "serve" in asked:
        return serve(clients[asked["serve"]])
    if "test_database" in asked:
        return {"steps": test_database(asked["test_database"])}
    client = clients[asked["user"]]
    reply = getattr(client, asked["method"])(asked["path"], asked["data"], follow=True)
    return {
        "status": reply.status_code,
        "html": reply.content.decode(),
        "path": reply.request["PATH_INFO"],
    }


def fail(instance: Any, **_: Any) -> None:
    """Fail where the admin logs what was done with an object of that name."""
    if instance.object_repr.startswith("fails"):
        message = "the test wants it"
        raise RuntimeError(message)


def serve(client: Any) -> dict[str, Any]:
    """Serve a browser over HTTP from now on; return where, and a session's key.

    A thread of its own has connections of its own: the database of users is a file.
    """
    from django.contrib.staticfiles.handlers import (  # noqa: PLC0415
        StaticFilesHandler,
    )
    from django.core.handlers.wsgi import WSGIHandler  # noqa: PLC0415
    from django.core.servers.basehttp import (  # noqa: PLC0415
        ThreadedWSGIServer,
        WSGIRequestHandler,
    )

    server = ThreadedWSGIServer(("127.0.0.1", 0), WSGIRequestHandler)
    server.set_app(StaticFilesHandler(WSGIHandler()))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return {"port": server.server_port, "session": client.cookies["sessionid"].value}


def test_database(alias: str) -> list[int]:
    """Return the steps of our tables in a test database, as test runners make it."""
    from django.db import connections  # noqa: PLC0415
    from django.test.utils import (  # noqa: PLC0415
        setup_databases,
        teardown_databases,
    )

    made = setup_databases(0, interactive=False, aliases={"default", alias})
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute("select version from pecker_migrations order by version")
            return [version for (version,) in cursor.fetchall()]
    finally:
        teardown_databases(made, 0)


if __name__ == "__main__":
    main()

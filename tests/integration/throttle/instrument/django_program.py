"""A Django program with two databases: what is counted of each. A process of its own.

Django has one set of settings for each process, and other tests have theirs.
"""

from __future__ import annotations

import threading
from typing import Any

import django
import pytest
from django.conf import settings
from django.db import connections, models, transaction
from django.db.utils import DatabaseError
from psycopg.conninfo import conninfo_to_dict

from tests.told import told
from throttle import instrument
from throttle.errors import Misconfigured
from throttle.meter import Meter

meter = Meter()


def configure(dsn: str, file: str) -> None:
    """The settings are there."""
    given: dict[str, Any] = conninfo_to_dict(dsn)
    default = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "USER": given.get("user", ""),
        "PASSWORD": given.get("password", ""),
        "HOST": given["host"],
        "PORT": given.get("port", ""),
    }
    local = {"ENGINE": "django.db.backends.sqlite3", "NAME": file}
    settings.configure(DATABASES={"default": default, "local": local}, USE_TZ=True)
    django.setup()


def counted() -> dict[str, tuple[int, int]]:
    """Return operations and rows since it was asked last."""
    read = meter.read().databases
    return {name: (int(one[0]), int(one[2])) for name, one in read.items()}


def main(dsn: str, file: str) -> None:
    """Ask both databases, and say by an error what was counted wrongly."""
    configure(dsn, file)

    class Thing(models.Model):
        """A row."""

        class Meta:
            """Where it is."""

            app_label = "things"

        def __str__(self) -> str:
            return "a thing"

    with pytest.raises(Misconfigured, match="allowed are default, local"):
        instrument.django({"nonsense": "main"}, meter=meter)

    # One connection is there before, one is not; twice is once
    with connections["default"].cursor() as cursor:
        cursor.execute("select 1")
    instrument.django({"default": "main", "local": "small"}, meter=meter)
    instrument.django({"default": "main", "local": "small"}, meter=meter)
    for alias in ("default", "local"):
        with connections[alias].schema_editor() as editor:
            editor.create_model(Thing)
    counted()
    for alias, name in (("default", "main"), ("local", "small")):
        # SQLite's driver does not always say how many rows there were
        known = alias == "default"
        things = Thing.objects.using(alias)
        things.create()
        assert counted()[name] == (1, int(known)), alias
        with transaction.atomic(using=alias):
            things.bulk_create(Thing() for _ in range(4))
        # and a commit; on SQLite it does not pass Django's cursors, but BEGIN does
        assert counted()[name] == (2, 4 * known), alias
        assert things.count() == 5
        assert counted()[name][0] == 1, alias
        with pytest.raises(DatabaseError), connections[alias].cursor() as cursor:
            cursor.execute("select nonsense")
        assert counted() == {name: (1, 0)}, alias

    others(Thing)


def others(thing: Any) -> None:
    """Cursors on the server, other threads, new connections, and none at all."""
    # What a server-side cursor fetches
    assert len(list(thing.objects.iterator(chunk_size=2))) == 5
    assert counted()["main"][1] == 5

    # A connection of another thread
    def ask() -> None:
        thing.objects.count()
        connections.close_all()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert counted()["main"][0] >= 1

    # A new connection of the same thread counts once
    connections["default"].close()
    thing.objects.count()
    assert counted()["main"][0] >= 1
    thing.objects.count()
    assert counted() == {"main": (1, 1)}
    connections["local"].close()
    counted()
    thing.objects.using("local").count()
    assert counted()["small"][0] == 1
    connections["local"].close()
    counted()
    thing.objects.using("local").count()
    assert counted()["small"][0] == 1

    instrument.uninstall(instrument.django)
    for alias in ("default", "local"):
        assert thing.objects.using(alias).count() == 5
    assert counted() == {}

    instrument.django(meter=meter, timing=False)
    for alias in ("default", "local"):
        assert thing.objects.using(alias).count() == 5
    assert counted() == {"default": (1, 0), "local": (1, 0)}


if __name__ == "__main__":
    main(*told())

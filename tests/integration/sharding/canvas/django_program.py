"""A Django program that calls jobs inside of transactions. A process of its own.

Django has one set of settings for each process: this module is them, too.
"""

from __future__ import annotations

import os
from typing import Any

import django
import psycopg
from celery import Celery
from django.db import transaction
from psycopg.conninfo import conninfo_to_dict

from celery_sharding import Sharding, sharded

DSN, BROKER = os.environ["PROGRAM_DSN"], os.environ["PROGRAM_BROKER"]
given: dict[str, Any] = conninfo_to_dict(DSN)
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "USER": given.get("user", ""),
        "PASSWORD": given.get("password", ""),
        "HOST": given["host"],
        "PORT": given.get("port", ""),
    }
}
INSTALLED_APPS: list[str] = []
USE_TZ = True


class Undone(Exception):
    """The transaction is rolled back."""


def jobs() -> list[str]:
    """Return the tasks of all jobs that were submitted."""
    with psycopg.connect(DSN) as connection:
        found = connection.execute("select task from pecker_jobs order by job")
        return [task for (task,) in found.fetchall()]


def main() -> None:
    """Call jobs in transactions, and say by an error what was submitted wrongly."""
    app = Celery("under_django", broker=BROKER)
    app.conf.update(pecker_dsn=DSN, task_default_queue=os.environ["PROGRAM_QUEUE"])
    sharding = Sharding(app)

    @sharding.task(name="django.rows")
    def rows(shard: Any) -> None: ...

    @app.task(name="django.add")
    def add(one: int) -> int:
        return one

    django.setup()
    # What is called on commit is called, or not; what is called at once is
    for end in (None, Undone):
        try:
            with transaction.atomic():
                rows.delay_on_commit([1, 2])
                rows.apply_async_on_commit(([1],), sharding={"concurrency": 3})
                transaction.on_commit(sharded(add.s(), [1]).delay)
                assert jobs() == [], end
                if end is not None:
                    raise end
        except Undone:
            assert jobs() == []
            continue
        assert jobs() == ["django.rows", "django.rows", "celery_sharding.each"], jobs()
        with psycopg.connect(DSN) as connection:
            connection.execute("delete from pecker_jobs")
    rows.delay_on_commit([1])
    assert jobs() == ["django.rows"], "outside of a transaction it is called at once"


if __name__ == "__main__":
    main()

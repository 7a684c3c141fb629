"""Where the tables are, as Django's settings say."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction

from celery_pecker.kernel.sql import render, statements

DATABASE, OUTBOXES, SCHEMA, NAMESPACED = (
    "PECKER_ADMIN_DATABASE",
    "PECKER_ADMIN_OUTBOXES",
    "PECKER_ADMIN_SCHEMA",
    "CELERY_PECKER_SCHEMA",
)


def alias() -> str:
    """Return the alias of the database with the tables."""
    name = getattr(settings, DATABASE, "default")
    if name not in settings.DATABASES:
        allowed = ", ".join(sorted(settings.DATABASES))
        raise ImproperlyConfigured(
            f"{DATABASE} is {name!r}; allowed are those of DATABASES: {allowed}"
        )
    return str(name)


def outboxes() -> dict[str, str]:
    """Return the alias of each outbox by its name, the first of them first.

    Raises:
        ImproperlyConfigured: an alias is none of DATABASES, or there is no outbox.
    """
    aliases = getattr(settings, OUTBOXES, None)
    if aliases is None:
        return {"default": alias()}
    if not isinstance(aliases, dict) or not aliases:
        raise ImproperlyConfigured(
            f"{OUTBOXES} is {aliases!r}; allowed is a dict of the names of outboxes and"
            ' their aliases of DATABASES, as {"default": "default", "eu": "eu"}'
        )
    for name, place in aliases.items():
        if place not in settings.DATABASES:
            allowed = ", ".join(sorted(settings.DATABASES))
            raise ImproperlyConfigured(
                f"{OUTBOXES} has {name!r}: {place!r}; allowed are aliases of"
                f" DATABASES: {allowed}"
            )
    return {str(name): str(place) for name, place in aliases.items()}


def schema() -> str:
    """Return their schema."""
    default = getattr(settings, NAMESPACED, None) or "public"
    return str(getattr(settings, SCHEMA, None) or default)


def shows_arguments() -> bool:
    """Return whether people see what recorded tasks are called with."""
    return bool(getattr(settings, ARGUMENTS, True))


def table(name: str) -> str:
    """Return a table's name with its schema, quoted: Django leaves it as it is."""
    parts = (part.replace('"', '""') for part in (schema(), name))
    return ".".join(f'"{part}"' for part in parts)


ARGUMENTS = "CELERY_PECKER_SHOW_ARGUMENTS"
R = TypeVar("R")
SECONDS = 5
"""For which a list may be looked for, statement by statement."""


class Alias:
    """A database of Django, asked as one of ours."""

    def __init__(self, alias: str, schema: str) -> None:
        self.alias = alias
        self.schema = schema

    def run(self, label: str, **params: Any) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a statement. Raises Django's errors."""
        return self._asked(label, params)[1]

    def read(self, of: Callable[..., R], label: str, **params: Any) -> Sequence[R]:
        """Return what is made of each row, of its columns by name."""
        names, rows = self._asked(label, params)
        return [of(**dict(zip(names, row, strict=True))) for row in rows]

    def _asked(self, label: str, params: Any) -> tuple[list[str], list[Any]]:
        text = render(statements()[label], self.schema)
        with connections[self.alias].cursor() as cursor:
            cursor.execute(text, {"now": None, **params})
            return [column[0] for column in cursor.description], cursor.fetchall()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run what is inside together, or not at all."""
        with transaction.atomic(using=self.alias):
            yield

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Let the server end what takes longer than `SECONDS` inside of the block."""
        with self.transaction():
            self.run("bound_statements", milliseconds=str(SECONDS * 1000))
            yield

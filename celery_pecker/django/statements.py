"""Run our labelled statements over a connection of Django."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connections, transaction

from celery_pecker.kernel.sql import render, statements

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
        text = render(statements()[label], self.schema)
        with connections[self.alias].cursor() as cursor:
            cursor.execute(text, params)
            rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def read(self, of: Callable[..., R], label: str, **params: Any) -> Sequence[R]:
        """Return what is made of each row, of its columns by name."""
        text = render(statements()[label], self.schema)
        with connections[self.alias].cursor() as cursor:
            cursor.execute(text, params)
            names = [column[0] for column in cursor.description]
            return [of(**dict(zip(names, row, strict=True))) for row in cursor]

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

"""Statements of ours, with the schema named. Nothing else is ever put into SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import LiteralString

from psycopg import sql

from celery_pecker.kernel.sql import statements


def render(text: str, schema: str) -> LiteralString:
    """Return a statement or migration with its schema named.

    LiteralString is honest: the text comes from our own files, and the schema is
    quoted as an identifier.
    """
    quoted = sql.Identifier(schema).as_string(None)
    return text.replace("{schema}", quoted)


@cache
def rendered(package: str, schema: str) -> Mapping[str, LiteralString]:
    """Return the statements of a package by label, with their schema named."""
    texts = statements(package).items()
    return MappingProxyType({label: render(text, schema) for label, text in texts})


def types_of(text: str) -> Sequence[str]:
    """Return the types of a copy's columns, as its comment says."""
    _, types, rest = text.partition("-- types: ")
    return rest.partition("\n")[0].split() if types else ()

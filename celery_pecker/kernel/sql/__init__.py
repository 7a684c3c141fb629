"""The statements of the house, as text, by their label.

Every statement stands in a ``.sql`` file and begins with its label,
``/* celery_pecker:claim_due */``. The label is the delimiter in the file, the name in
code, the name in errors and metrics, and the first words that ``pg_stat_activity``
shows: written once, it serves everyone. It leads because a trailing comment is cut
off there (``track_activity_query_size``).

``{schema}`` stands for the configured schema, quoted; it is the only thing ever put
into a statement's text, once, when a database seam is made. Setting ``search_path``
instead would leak to other clients behind a transaction pooler, and tests need it
free to shadow ``clock_timestamp()``.

Packages that stand on the kernel have statements too, labelled with their own name, in
a ``sql`` package of their own; the line of migrations is this one for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

OURS = "celery_pecker"
_LABEL = re.compile(r"^/\* (\w+):(\w+) \*/$", re.MULTILINE)
_MIGRATION = re.compile(r"^(\d{4})_(\w+)\.sql$")
_TABLE = re.compile(r"create table \{schema\}\.(\w+)")
_READABLE_FROM = re.compile(r"^-- readable from: (\d+)$", re.MULTILINE)


class Migration(NamedTuple):
    """One step of the schema."""

    version: int
    name: str
    readable_from: int
    """The oldest schema number whose code can live with the tables after it."""
    text: str


@cache
def statements(package: str = OURS) -> MappingProxyType[str, str]:
    """Return every labelled statement of a package, label first in its text."""
    labelled: dict[str, str] = {}
    for label, text in _read(package):
        if label in labelled:
            message = f"two statements are labelled {package}:{label}"
            raise ValueError(message)
        labelled[label] = text
    return MappingProxyType(labelled)


def _read(package: str) -> Iterator[tuple[str, str]]:
    folder = files(__name__ if package == OURS else f"{package}.sql")
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        text = file.read_text(encoding="utf-8")
        marks = [*_LABEL.finditer(text)]
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        for mark, end in zip(marks, ends, strict=True):
            if mark.group(1) != package:
                message = f"{file.name}: {mark.group()} is no label of {package}"
                raise ValueError(message)
            yield mark.group(2), text[mark.start() : end].strip()


@cache
def tables() -> tuple[str, ...]:
    """Return the names of all tables that the migrations create, in their order."""
    steps = "\n".join(step.text for step in migrations())
    return tuple(_TABLE.findall(steps))


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the one numbered line of migrations, oldest first."""
    numbered = []
    folder = files(__name__) / "migrations"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        named = _MIGRATION.match(file.name)
        if not named:
            continue
        text = file.read_text(encoding="utf-8")
        readable = _READABLE_FROM.search(text)
        if not readable:
            message = f"{file.name} does not say '-- readable from: N'"
            raise ValueError(message)
        numbered.append(
            Migration(int(named[1]), named[2], int(readable[1]), text.strip())
        )
    return tuple(numbered)

"""The statements of the house, as text, by their label.

Every statement stands in a ``.sql`` file and begins with its label,
``/* celery_pecker:claim_due */``. The label is the delimiter in the file, the name in
code, the name in errors and metrics, and the first words that ``pg_stat_activity``
shows: written once, it serves everyone. It leads because a trailing comment is cut
off there (``track_activity_query_size``).

``{schema}`` stands for the configured schema, quoted; it is put into a statement's
text once, when a database seam is made, and nothing else ever is. Setting
``search_path`` instead would leak to other clients behind a transaction pooler, and
tests need it free to shadow ``clock_timestamp()``.

What several statements share stands once, as a part with a label like
``/* part:clock */``, and ``{clock}`` in a statement stands for it; ``$1`` of a part is
the argument of ``{us(task.executed_at)}``. ``{excluded(task, args)}`` stands for
``task = excluded.task, args = excluded.args``. Parts are put in when the files are
read, with nothing that comes from outside: the server gets each statement whole. A
migration has them, too; what a released one has stays as it is.

A migration says what a table or a column is in a comment above it that begins with
``--:``; PostgreSQL gets it as ``comment on``, for all who look at the database.

Packages that stand on the kernel have statements too, labelled with their own name, in
a ``sql`` package of their own; the line of migrations is this one for all.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import LiteralString, NamedTuple

from psycopg import sql

OURS = "celery_pecker"
PART = "part"
_LABEL = re.compile(r"^/\* (\w+):(\w+) \*/$", re.MULTILINE)
_USE = re.compile(r"\{(?!schema\})(\w+)(?:\(([^{}]*)\))?\}")
_MIGRATION = re.compile(r"^(\d{4})_(\w+)\.sql$")
_TABLE = re.compile(r"create table \{schema\}\.(\w+)")
_DESCRIBED = re.compile(
    r"(?:^--: .*\n)*^create table \{schema\}\.(\w+) \(\n(?s:.*?)^\)[^;]*;$",
    re.MULTILINE,
)
_TOLD = re.compile(r"((?:^ *--: .*\n)+) *(\w+) ", re.MULTILINE)
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
    return MappingProxyType(
        {
            label: _whole(text, package)
            for (owner, label), text in _labelled(package).items()
            if owner == package
        }
    )


def _whole(text: str, package: str = OURS) -> str:
    """Return a text of a package with its parts put in."""
    known = {**_labelled(OURS), **_labelled(package)}

    def part(use: re.Match[str]) -> str:
        if use[1] == "excluded":
            columns = [column.strip() for column in use[2].split(",")]
            return ", ".join(f"{name} = excluded.{name}" for name in columns)
        text = known.get((PART, use[1]))
        if text is None:
            raise ValueError(f"no part of {package}'s statements is labelled {use[1]}")
        lines = [line for line in text.splitlines()[1:] if not line.startswith("--")]
        return _USE.sub(part, "\n".join(lines).replace("$1", use[2] or ""))

    return _USE.sub(part, text)


@cache
def _labelled(package: str) -> Mapping[tuple[str, str], str]:
    """Return statements and parts of a package by the two words of their labels."""
    labelled: dict[tuple[str, str], str] = {}
    for name, text in _files(package):
        marks = [*_LABEL.finditer(text)]
        ends = [mark.start() for mark in marks[1:]] + [len(text)]
        for mark, end in zip(marks, ends, strict=True):
            if mark[1] not in {package, PART}:
                raise ValueError(f"{name}: {mark.group()} is no label of {package}")
            if (mark[1], mark[2]) in labelled:
                raise ValueError(f"two statements are labelled {mark[1]}:{mark[2]}")
            labelled[mark[1], mark[2]] = text[mark.start() : end].strip()
    return labelled


def _files(package: str) -> Iterator[tuple[str, str]]:
    folder = files(__name__ if package == OURS else f"{package}.sql")
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            yield file.name, file.read_text(encoding="utf-8")


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
            raise ValueError(f"{file.name} does not say '-- readable from: N'")
        numbered.append(
            Migration(
                int(named[1]),
                named[2],
                int(readable[1]),
                _DESCRIBED.sub(_with_comments, _whole(text.strip())),
            )
        )
    return tuple(numbered)


def _with_comments(table: re.Match[str]) -> str:
    """Return a table, then as `comment on` what is told of it and its columns."""
    named = f"{{schema}}.{table[1]}"
    comments = [_TOLD.sub(lambda told: told[0].removeprefix(told[1]), table[0])]
    for lines, word in _TOLD.findall(table[0]):
        told = " ".join(
            line.strip().removeprefix("--: ") for line in lines.splitlines()
        )
        on = f"table {named}" if word == "create" else f"column {named}.{word}"
        comments.append(
            "comment on {} is\n    '{}';".format(on, told.replace("'", "''"))
        )
    return "\n".join(comments)


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

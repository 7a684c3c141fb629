"""Render views on the command line."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, tzinfo
from functools import wraps
from operator import itemgetter
from typing import Any

import click
from rich.text import Text

from celery_pecker.surfaces.console.context import CommandContext
from celery_pecker.surfaces.console.instants import for_people
from celery_pecker.surfaces.console.listing import Listing
from celery_pecker.surfaces.views import phrases
from celery_pecker.surfaces.views.model import Column, Table, View

STYLES = {
    "done": "green",
    "running": "green",
    "asked": "cyan",
    "missed": "yellow",
    "idle": "dim",
    "refused": "yellow",
    "bad": "bold red",
}
"""Of each shape of a state."""

WORDS: Mapping[str, Callable[[Any], object]] = {
    "duration": phrases.duration,
    "count": phrases.count,
    "rate": phrases.pace,
    "part": itemgetter(0),
}
NOTHING: Mapping[str, Callable[[Any], str]] = {}


def visible(text: str) -> str:
    """Return a text without what would move the cursor or colour the rest."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


OPTIONS: Mapping[str, str] = {
    "name": "Those of this {} only.",
    "search": "{}.",
    "choice": "Those in this state only: {}.",
    "flag": "{}.",
    "age": "Those that are older: 5m, 2h, 3d.",
}
"""What help says of a filter of each kind, by its choices or its label."""


def filters(table: Table, *but: str) -> Callable[[Any], Any]:
    """Decorate a command: filters of a page's table are its options, `but` for some.

    It gets them as its `query`, as a page gets its address.
    """
    mine = [one for one in table.filters if one.key not in but]

    def decorate(command: Any) -> Any:
        @wraps(command)
        def call(*given: Any, **options: Any) -> None:
            said = {one.key: options.pop(one.key) for one in mine}
            query = {
                key: "1" if one is True else one for key, one in said.items() if one
            }
            command(*given, query=query, **options)

        for one in reversed(mine):
            words = ", ".join(one.choices)
            call = click.option(
                f"--{one.key.replace('_', '-')}",
                is_flag=one.kind == "flag",
                type=click.Choice(one.choices) if words else None,
                metavar=one.key.upper() if words else None,
                help=OPTIONS[one.kind].format(words or one.label).capitalize(),
            )(call)
        return call

    return decorate


def print_figures(context: CommandContext, view: View, summary: Any) -> None:
    """Print each figure of a view with its note, a line each."""
    wide = max(len(one.label) for one in view.figures)
    for one in view.figures:
        card = one.read(summary)
        words = f"{one.label:<{wide}}  {card.text}, {card.note}"
        context.console.print(Text(words))


def print_table(
    context: CommandContext, table: Table, rows: Iterable[Any], **how: Any
) -> None:
    """Print a listing; nothing where there are no rows."""
    found = listing(context, table, rows, **how)
    if found.row_count:
        context.console.print(found)


def listing(
    context: CommandContext,
    table: Table,
    rows: Iterable[Any],
    *,
    title: str = "",
    without: Collection[str] = (),
    by_hand: Mapping[str, Callable[[Any], str]] = NOTHING,
) -> Listing:
    """Return rows under the columns of a view, `without` some of them and of notes.

    What a column says `by_hand` of a row is given by the column's key.
    """
    fields = table.fields
    keys = [key for column in table.shown for key in (column.key, *column.notes)]
    columns = [fields[key] for key in keys if key not in without]
    columns = [column for column in columns if column.width != "aside"]
    # The name stands first: it is the head of a row where a line is too short.
    columns.sort(key=lambda column: column.kind != "name")
    right = {column.label for column in columns if column.number}
    made = Listing(*(column.label for column in columns), right=right, title=title)
    for row in rows:
        made.add_row(
            *(
                by_hand[one.key](row)
                if one.key in by_hand
                else _text(context, table, one, row)
                for one in columns
            )
        )
    return made


def _text(context: CommandContext, table: Table, column: Column, row: Any) -> Text:
    value = column.of(row)
    style = STYLES.get(table.states.get(value, "")) if column.kind == "state" else ""
    return Text(visible(cell_words(column, value, context.zone)), style or "")


def cell_words(column: Column, value: Any, zone: tzinfo = UTC) -> str:
    """Return what stands in a column of a row, as a terminal has it."""
    if value is None:
        return phrases.NONE if column.number else ""
    if column.kind == "instant":
        return for_people(value, zone)
    return str(WORDS.get(column.kind, str)(value))

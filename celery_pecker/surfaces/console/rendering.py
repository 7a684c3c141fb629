"""Render views on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, tzinfo
from operator import itemgetter
from typing import Any

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
    "bad": "bold red",
}
"""Of each shape of a state."""

WORDS: Mapping[str, Callable[[Any], object]] = {
    "duration": phrases.duration,
    "count": phrases.count,
    "rate": phrases.pace,
    "part": itemgetter(0),
}


def visible(text: str) -> str:
    """Return a text without what would move the cursor or colour the rest."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def print_figures(context: CommandContext, view: View, summary: Any) -> None:
    """Print each figure of a view with its note, a line each."""
    wide = max(len(one.label) for one in view.figures)
    for one in view.figures:
        words = f"{one.label:<{wide}}  {one.text(summary)}, {one.note(summary)}"
        context.console.print(Text(words))


def print_table(context: CommandContext, table: Table, rows: Iterable[Any]) -> None:
    """Print rows under the columns of a view; nothing where there are none."""
    fields = table.fields
    columns: list[Column] = []
    for column in table.shown:
        columns += [column, *(fields[note] for note in column.notes)]
    columns = [column for column in columns if column.width != "aside"]
    # The name stands first: it is the head of a row where a line is too short.
    columns.sort(key=lambda column: column.kind != "name")
    right = {column.label for column in columns if column.number}
    listing = Listing(*(column.label for column in columns), right=right)
    for row in rows:
        listing.add_row(*(_text(context, table, one, row) for one in columns))
    if listing.row_count:
        context.console.print(listing)


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

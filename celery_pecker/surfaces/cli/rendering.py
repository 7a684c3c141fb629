"""Render tables of views on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from celery_pecker.kernel.lease import SECOND
from celery_pecker.surfaces.cli.context import NONE, Context, seconds
from celery_pecker.surfaces.console import instants
from celery_pecker.surfaces.console.listing import Listing
from celery_pecker.surfaces.views.model import Column, Table, View


def print_figures(context: Context, view: View, summary: Any) -> None:
    """Print each figure of a view with its note, a line each."""
    wide = max(len(one.label) for one in view.figures)
    for one in view.figures:
        words = f"{one.label:<{wide}}  {one.text(summary)}, {one.note(summary)}"
        context.print("", words)


def print_table(context: Context, table: Table, rows: Iterable[Any]) -> None:
    """Print rows under the columns of a view; nothing where there are none."""
    columns: list[Column] = []
    for column in table.columns:
        notes = [
            Column(key=note, label=note.replace("_", " ")) for note in column.notes
        ]
        columns += [column, *notes]
    # The name stands first: it is the head of a row where a line is too short.
    columns.sort(key=lambda column: column.kind != "name")
    right = {column.label for column in columns if column.number}
    listing = Listing(*(column.label for column in columns), right=right)
    for row in rows:
        listing.add_row(*(_text(context, one, row) for one in columns))
    if listing.row_count:
        context.console.print(listing)


def _text(context: Context, column: Column, row: Any) -> str:
    value = column.of(row)
    if value is None:
        return NONE if column.number else ""
    if column.kind == "instant":
        return instants.for_people(value, context.zone)
    if column.kind == "duration":
        return seconds(round(value * SECOND))
    return f"{value:.1f}" if column.kind == "rate" else str(value)

"""``throttle top``: how the databases stand, live."""

import json as jsons
import shutil

import click
from rich.console import Console
from rich.live import Live

from celery_pecker.surfaces.console.context import WHOLE_LINES, number, turns
from celery_pecker.surfaces.console.exits import YES, interrupted
from throttle.cli.context import Context, document, of_database
from throttle.cli.screen import Screen
from throttle.overview import Picture, where


@Context.command()
@click.option("--once", is_flag=True, help="One look, printed.")
@number("--every", 0.1, 60.0, "Seconds between two looks.", 0.5)
@click.option("--times", type=click.IntRange(1), help="End after so many looks.")
@of_database
def top(
    context: Context,
    *,
    once: bool,
    every: float,
    times: int | None,
    database: str | None,
) -> None:
    """Show traffic against the limit, shares and what is held, until Ctrl-C.

    With --json one line for each look; with --once and --json one document.
    """
    screen = Screen(where(context.settings), context.zone)
    if once:
        picture = context.picture(database)
        if not context.print_json(document(picture)):
            _print(context.console, screen, picture)
        return
    with interrupted(YES):
        if context.json:
            for _ in turns(every, times):
                click.echo(jsons.dumps(document(context.picture(database))))
            return
        _live(context, screen, every, times, database)


def _live(
    context: Context,
    screen: Screen,
    every: float,
    times: int | None,
    database: str | None,
) -> None:
    console = Console(highlight=False)
    picture: Picture = context.picture(database)
    full = console.is_terminal
    if not full:
        console.width = _wide(console)
    live = Live(console=console, auto_refresh=False, screen=full, transient=False)
    try:
        with live:
            for nth in turns(every, times):
                if nth:
                    picture = context.picture(database)
                screen.remember(picture)
                high = console.height if full else None
                live.update(screen.drawn(picture, _wide(console), high), refresh=True)
    finally:
        if full:  # what was seen last stays, also after Ctrl-C
            _print(console, screen, picture)


def _print(console: Console, screen: Screen, picture: Picture) -> None:
    wide, whole = _wide(console), not console.is_terminal
    if whole:  # it takes a pipe for 80 letters wide, and cuts to that
        console.width = WHOLE_LINES
    console.print(screen.drawn(picture, wide, whole=whole))


def _wide(console: Console) -> int:
    """Return the letters of a line; a pipe gets what a report can show."""
    if console.is_terminal:
        return console.width
    return shutil.get_terminal_size((120, 24)).columns

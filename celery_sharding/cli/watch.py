"""``sharding watch``: a progress bar for each layer, until the job has ended.

A job as bars: one for each layer, with rate and eta.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.clock import pause as sleep
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.surfaces.console.context import number
from celery_pecker.surfaces.console.exits import interrupted
from celery_pecker.surfaces.console.rendering import STYLES, visible
from celery_pecker.surfaces.views.phrases import duration, pace
from celery_sharding.cli.context import NO, UNKNOWN, Context, of_job
from celery_sharding.cli.listing import document
from celery_sharding.ledger.reading import Reading
from celery_sharding.ledger.rows import JobRow
from celery_sharding.model import LayerProgress, Outcome, Stage
from celery_sharding.overview import JobPace, State, verdict
from celery_sharding.views import STATES, around, percent, state_of

BAR = 40
ROOM = 6
"""Lines of a terminal that are no layer's."""
FEWEST = 3


class Screen:
    """Draws looks at a job, and remembers how fast it went from one to the next."""

    def __init__(self) -> None:
        self.pace = JobPace()

    def drawn(
        self, row: JobRow, layers: Sequence[LayerProgress], *, high: int = 24
    ) -> RenderableType:
        """Return the job as it stands, in at most so many lines."""
        self.pace.see(row)
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(width=BAR)
        for _ in range(5):
            table.add_column(justify="right", no_wrap=True)
        most = max(high - ROOM, FEWEST)
        first = around(row.layer, len(layers), most)
        shown = layers[first : first + most]
        if first:
            _more(table, first, "above")
        for layer in shown:
            self._layer(table, row, layer)
        if below := len(layers) - first - len(shown):
            _more(table, below, "to come")
        if len(layers) != 1:
            runs = row.stage is Stage.SHARDING
            rate = self.pace.rate if runs else row.progress().rate
            eta = self.pace.eta if runs else row.elapsed
            _bar(table, Text("all"), row, pace(rate), Text(duration(eta), "cyan"))
        return Group(_head(row), table)

    def _layer(self, table: Table, row: JobRow, layer: LayerProgress) -> None:
        runs = row.stage is Stage.SHARDING and layer.layer == row.layer
        left = max(layer.total - layer.done - layer.failed, 0)
        rate, eta = "", ""
        if runs:
            rate = pace(self.pace.rate)
            if self.pace.rate and left and not row.paused:
                eta = duration(left / self.pace.rate)
        elif layer.closed_at and layer.started_at:
            eta = f"took {duration(layer.closed_at - layer.started_at)}"
        label = Text(f"layer {layer.layer + 1}", style="bold" if runs else "")
        _bar(table, label, layer, rate, Text(eta, style="cyan" if runs else "dim"))


def _bar(
    table: Table, label: Text, of: JobRow | LayerProgress, rate: str, eta: Text
) -> None:
    """Add the bar of a job or a layer: an empty layer is done."""
    ended = of.done + of.failed
    fraction = of.progress().fraction if isinstance(of, JobRow) else of.fraction
    table.add_row(
        label,
        ProgressBar(
            total=max(of.total, 1),
            completed=min(ended, of.total) if of.total else 1,
        ),
        percent(fraction, 1),
        f"{ended:,}/{of.total:,}",
        Text(f"{of.failed:,} failed" if of.failed else "", style="red"),
        rate,
        eta,
    )


def line(row: JobRow, seen: JobPace) -> str:
    """Return how a job stands as one line, for a log."""
    ended = row.done + row.failed
    parts = [
        f"{verdict(row).state:<13}",
        f"layer {min(row.layer + 1, max(row.layers, 1))}/{row.layers}",
        f"{percent(row.progress().fraction, 1):>6}",
        f"{ended:,}/{row.total:,}",
        f"{row.failed:,} failed",
        pace(seen.rate),
    ]
    if seen.eta is not None:
        parts.append(f"{duration(seen.eta)} left")
    return "  ".join(parts)


def _head(row: JobRow) -> Text:
    stands = verdict(row)
    state = state_of(row)
    head = Text(state, style=STYLES[STATES[state]])
    head.append(f"  {visible(row.task)}", "bold")
    head.append(f"  {row.task_id}", "dim")
    style = "red" if stands.state in {State.FAILED, State.STARVED} else ""
    return head.append(f"\n{visible(stands.why)}", style)


def _more(table: Table, many: int, where: str) -> None:
    table.add_row(Text(f"{many} {where}", style="dim"), *[""] * 6)


AWAY = 60.0
"""Seconds without an answer from PostgreSQL after which the command ends."""


@Context.command()
@of_job
@number("--every", 0.1, 3_600.0, "Seconds between two looks.", 0.5)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1),
    help="Seconds after which to stop, with exit code 3; else until it has ended.",
)
def watch(
    context: Context, *, task_id: str, every: float, timeout: float | None
) -> None:
    """Show how far a job is until it has ended: a bar for each layer, rate and eta.

    Exit code 0: it succeeded; 1: it failed or was cancelled; 3: unknown, it had
    not ended in time. With --json one line for each look; in a pipe one for each per
    cent.
    """
    watching = Watching(context.ledger.reading, task_id, every, timeout)
    with interrupted(UNKNOWN):  # the job goes on
        _show(context, watching)
    last = watching.last
    if last is None or last.stage is not Stage.ENDED:
        context.leave(UNKNOWN)
    if last.outcome is not Outcome.SUCCEEDED:
        context.leave(NO)


@dataclass
class Watching:
    """Looks at a job, one after the other, until there is nothing more to see."""

    reading: Reading
    task_id: str
    every: float
    timeout: float | None
    last: JobRow | None = None

    def looks(
        self,
    ) -> Iterator[tuple[JobRow, Sequence[LayerProgress]] | DatabaseUnavailable]:
        """Yield views of the job, or why there is none, until its end or the timeout.

        Raises DatabaseUnavailable when the first look gets no answer, or there was
        none for a minute.
        """
        began = answered = SYSTEM.monotonic()
        while True:
            try:
                row = self.reading.job(self.task_id)
                layers = self.reading.layers(row.leading)
            except DatabaseUnavailable as error:
                if self.last is None or SYSTEM.monotonic() - answered > AWAY:
                    raise
                yield error
            else:
                answered = SYSTEM.monotonic()
                self.last = row
                yield row, layers
                if row.stage is Stage.ENDED:
                    return
            left = self.every
            if self.timeout is not None:
                left = min(left, began + self.timeout - SYSTEM.monotonic())
                if left <= 0:
                    return
            sleep(left)


def _show(context: Context, watching: Watching) -> None:
    if context.json:
        _show_json(context, watching)
        return
    console = Console(highlight=False)
    if console.is_terminal:
        _show_live(console, watching)
    else:
        _show_lines(watching)


def _show_json(context: Context, watching: Watching) -> None:
    for seen in watching.looks():
        if not isinstance(seen, DatabaseUnavailable):
            row, layers = seen
            context.print_line({**document(row), "by_layer": layers})


def _show_live(console: Console, watching: Watching) -> None:
    screen = Screen()
    with Live(console=console, auto_refresh=False) as live:
        drawn: RenderableType = ""
        for seen in watching.looks():
            if isinstance(seen, DatabaseUnavailable):
                live.update(Group(drawn, Text(str(seen), "red")), refresh=True)
                continue
            row, layers = seen
            drawn = screen.drawn(row, layers, high=console.height)
            live.update(drawn, refresh=True)


def _show_lines(watching: Watching) -> None:
    """Print a line whenever there is news of at least one per cent."""
    screen, shown = Screen(), None
    for seen in watching.looks():
        if isinstance(seen, DatabaseUnavailable):
            continue
        row, _ = seen
        screen.pace.see(row)
        news = (row.stage, row.paused, row.layer, int(row.progress().percent))
        if news != shown:
            click.echo(line(row, screen.pace))
        shown = news

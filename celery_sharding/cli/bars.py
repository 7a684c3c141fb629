"""A job as bars: one for each layer, with rate and eta."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from celery_pecker.surfaces.console.rendering import STYLES, visible
from celery_pecker.surfaces.views.phrases import duration, pace
from celery_sharding.ledger.rows import JobRow, LayerRow
from celery_sharding.model import Stage
from celery_sharding.overview import Pace, State, verdict
from celery_sharding.views import STATES, around, percent

BAR = 40
ROOM = 6
"""Lines of a terminal that are no layer's."""
FEWEST = 3


class Screen:
    """Draws looks at a job, and remembers how fast it went from one to the next."""

    def __init__(self) -> None:
        self.pace = Pace()

    def drawn(
        self, row: JobRow, layers: list[LayerRow], *, high: int = 24
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

    def _layer(self, table: Table, row: JobRow, layer: LayerRow) -> None:
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
    table: Table, label: Text, of: JobRow | LayerRow, rate: str, eta: Text
) -> None:
    """Add the bar of a job or a layer: an empty layer is done."""
    ended = of.done + of.failed
    fraction = (
        of.progress().fraction if isinstance(of, JobRow) else of.progress.fraction
    )
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


def line(row: JobRow, seen: Pace) -> str:
    """Return how a job stands as one line, for a log."""
    ended = row.done + row.failed
    parts = [
        f"{verdict(row).state:<10}",
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
    head = Text(f"{stands.state.value}", style=STYLES[STATES[stands.state]])
    head.append(f"  {visible(row.task)}", "bold")
    head.append(f"  {row.task_id}", "dim")
    style = "red" if stands.state in {State.FAILED, State.STARVED} else ""
    return head.append(f"\n{visible(stands.why)}", style)


def _more(table: Table, many: int, where: str) -> None:
    table.add_row(Text(f"{many} {where}", style="dim"), *[""] * 6)

"""A job as bars: one for each layer, with rate and eta."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from celery_sharding.cli.formatting import STYLES, duration, percent, rate, visible
from celery_sharding.ledger.rows import JobRow, LayerRow
from celery_sharding.model import Stage
from celery_sharding.overview import Pace, State, verdict

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
        shown, above, below = around(layers, row.layer, max(high - ROOM, FEWEST))
        if above:
            _more(table, above, "above")
        for layer in shown:
            self._layer(table, row, layer)
        if below:
            _more(table, below, "to come")
        if len(layers) != 1:
            self._whole(table, row)
        return Group(_head(row), table)

    def _layer(self, table: Table, row: JobRow, layer: LayerRow) -> None:
        ended = layer.done + layer.failed
        runs = row.stage is Stage.SHARDING and layer.layer == row.layer
        left = max(layer.total - ended, 0)
        pace, eta = "", ""
        if runs:
            pace = rate(self.pace.rate)
            if self.pace.rate and left and not row.paused:
                eta = duration(left / self.pace.rate)
        elif layer.closed_at and layer.started_at:
            eta = f"took {duration(layer.closed_at - layer.started_at)}"
        label = f"layer {layer.layer + 1}"
        table.add_row(
            Text(label, style="bold" if runs else ""),
            ProgressBar(total=max(layer.total, 1), completed=_of(ended, layer.total)),
            percent(layer.progress.fraction),
            f"{ended:,}/{layer.total:,}",
            _failed(layer.failed),
            pace,
            Text(eta, style="cyan" if runs else "dim"),
        )

    def _whole(self, table: Table, row: JobRow) -> None:
        ended = row.done + row.failed
        runs = row.stage is Stage.SHARDING
        table.add_row(
            "all",
            ProgressBar(total=max(row.total, 1), completed=_of(ended, row.total)),
            percent(row.progress().fraction),
            f"{ended:,}/{row.total:,}",
            _failed(row.failed),
            rate(self.pace.rate if runs else row.progress().rate),
            Text(duration(self.pace.eta) if runs else duration(row.elapsed), "cyan"),
        )


def around(
    layers: list[LayerRow], layer: int, most: int
) -> tuple[list[LayerRow], int, int]:
    """Return at most so many layers about the one that runs, and how many are left out.

    Above them, and below.
    """
    first = min(max(layer - most // 2, 0), max(len(layers) - most, 0))
    shown = layers[first : first + most]
    return shown, first, len(layers) - first - len(shown)


def line(row: JobRow, pace: Pace) -> str:
    """Return how a job stands as one line, for a log."""
    ended = row.done + row.failed
    parts = [
        f"{verdict(row).state:<10}",
        f"layer {min(row.layer + 1, max(row.layers, 1))}/{row.layers}",
        f"{percent(row.progress().fraction):>6}",
        f"{ended:,}/{row.total:,}",
        f"{row.failed:,} failed",
        rate(pace.rate),
    ]
    if pace.eta is not None:
        parts.append(f"{duration(pace.eta)} left")
    return "  ".join(parts)


def _head(row: JobRow) -> Text:
    stands = verdict(row)
    head = Text(f"{stands.state.value}", style=STYLES[stands.state])
    head.append(f"  {visible(row.task)}", "bold")
    head.append(f"  {row.task_id}", "dim")
    style = "red" if stands.state in {State.FAILED, State.STARVED} else ""
    return head.append(f"\n{visible(stands.why)}", style)


def _of(ended: int, total: int) -> int:
    """Return how much of a bar is full: an empty layer is done."""
    return min(ended, total) if total else 1


def _failed(failed: int) -> Text:
    return Text(f"{failed:,} failed" if failed else "", style="red")


def _more(table: Table, many: int, where: str) -> None:
    table.add_row(Text(f"{many} {where}", style="dim"), *[""] * 6)

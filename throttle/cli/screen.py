"""A picture as text: bars against the limit, who waits, where."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sized
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from throttle.overview import Picture, State, Status
from throttle.overview.judge import TOLERANCE, counted, duration

STYLES = {
    State.OVER: "bold white on red",
    State.HOLDING: "bold black on yellow",
    State.LOWERED: "bold black on cyan",
    State.UNGUARDED: "bold black on white",
    State.CALM: "bold black on green",
    State.UNLIMITED: "reverse",
}
BARS = "▁▂▃▄▅▆▇█"
PARTS = " ▏▎▍▌▋▊▉"
TRACK = "on grey23"
"""Behind a bar, so that its end is seen where there is nothing."""
REMEMBERED = 600
MOST = 8
"""Workers and tenants that are shown when nobody says how high the screen is."""
HEAD, ROWS = 3, 4
"""Lines above the databases, and of each without its notes and workers."""
BESIDE = 90
"""Letters of a line from which two tables stand beside each other."""
FIGURES = 44
"""Letters beside a bar, so that all bars are as long and can be compared."""


class Screen:
    """Draws pictures, and remembers the traffic of those before."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._traffic: dict[str, deque[float]] = {}

    def remember(self, picture: Picture) -> None:
        """The traffic of this picture is in the line of those that follow."""
        for status in picture.databases:
            known = self._traffic.setdefault(status.name, deque(maxlen=REMEMBERED))
            known.append(0.0 if picture.away else status.used)

    def drawn(
        self, picture: Picture, wide: int, high: int | None = None
    ) -> RenderableType:
        """Return the picture for so many letters, and so many lines if it matters."""
        wide = max(min(wide, 140), 40)
        parts: list[RenderableType] = [*self._head(picture, wide)]
        left = None if high is None else high - HEAD - sum(map(bare, picture.databases))
        for status in picture.databases:
            rows = min(needed(status, wide), MOST if left is None else max(left, 0))
            left = None if left is None else left - rows
            parts += self._block(status, wide, rows, stale=bool(picture.away))
        if not picture.databases:
            parts.append(Text("Nothing is counted and nothing has a limit."))
        return Group(*parts)

    def _head(self, picture: Picture, wide: int) -> Iterable[RenderableType]:
        at = datetime.fromtimestamp(picture.at, UTC).astimezone()
        workers = {one.id for status in picture.databases for one in status.workers}
        line = Text()
        line.append("throttle ", "bold")
        line.append(
            f"{at:%H:%M:%S}  {counted(len(workers), 'worker')},"
            f" {counted(picture.held, 'task')} held,"
            f" by the {picture.estimator} estimator  "
        )
        line.append(visible(self._where), "dim")
        line.truncate(wide, overflow="ellipsis")
        yield line
        if picture.away:
            yield Text(
                f"No answer for {duration(picture.since)}: {visible(picture.away)}."
                " Workers go by the policy of each limit; below is what was seen last.",
                "bold white on red",
            )
        yield Text()

    def _block(
        self, status: Status, wide: int, rows: int, *, stale: bool
    ) -> Iterable[RenderableType]:
        title = Text()
        title.append(f" {status.state.upper()} ", STYLES[status.state])
        title.append(f" {visible(status.name)}", "bold")
        if status.shadow:
            title.append(" (shadow)", "magenta")
        title.append(f"  {status.said}")
        yield dimmed(title, stale)
        for note in status.notes:
            yield dimmed(Text(f"  ! {visible(note)}", "yellow"), stale)
        yield dimmed(_bar(status, wide), stale)
        if status.workers or status.name in self._traffic:
            yield dimmed(self._line(status, wide), stale)
        if rows > 1:
            each = rows if wide >= BESIDE else rows // (1 + bool(status.tenants))
            tables = [*_tables(status, max(each - 1, 1))]
            if tables:
                yield Padding(side_by_side(tables, wide), (0, 0, 0, 2))
        yield Text()

    def _line(self, status: Status, wide: int) -> Text:
        """Return what went on lately, and what came of it."""
        line = Text("  ")
        known = self._traffic.get(status.name)
        if known and len(known) > 1:
            line.append(spark([*known][-min(wide // 3, 40) :]), "cyan")
            line.append("  ")
        if not status.workers:
            return line
        parts = [f"held {status.held:,}"]
        if status.held_bytes:
            parts.append(size(status.held_bytes))
        if status.parked:
            parts.append(f"parked {status.parked:,}")
        parts.append(f"admitted {rate(status.rate, status.admitted)}")
        if status.shadow or status.would_hold:
            parts.append(f"would hold {rate(status.would_rate, status.would_hold)}")
        line.append("  ".join(parts))
        return line


def bare(status: Status) -> int:
    """Return how many lines a database takes without its tables."""
    return ROWS + len(status.notes)


def needed(status: Status, wide: int) -> int:
    """Return how many lines the tables of a database would take."""
    tables = [len(one) + 1 for one in (status.workers, status.tenants) if one]
    return (max if wide >= BESIDE else sum)(tables or [0])


def dimmed(text: Text, stale: bool) -> Text:
    """Return the text, faint if it is of a while ago."""
    if stale:
        text.stylize("dim")
    return text


def _bar(status: Status, wide: int) -> Text:
    """Return the traffic as a bar: full is the limit, its mark the one in force."""
    told = _amounts(status)
    line = Text("  ")
    if status.operations is None:
        return line + Text(told)
    length = max(wide - FIGURES, 12)
    drawn = bar(status.used * status.factor, length)
    mark = min(int(status.factor * length), length)
    style = {State.OVER: "red", State.HOLDING: "yellow"}.get(status.state, "green")
    line.append(drawn[:mark], f"{style} {TRACK}")
    if mark < length:
        line.append("┃", f"cyan {TRACK}")
        line.append(drawn[mark + 1 :], f"red {TRACK}")
    line.append("│", "red bold" if status.used > TOLERANCE else "")
    return line + Text(f" {told}")


def _amounts(status: Status) -> str:
    operations = f"{status.traffic.operations:,.0f}"
    if status.operations is None:
        busy = status.traffic.seconds
        return f"{operations} operations/s, {busy:.1f} connections busy"
    in_force = status.operations * status.factor
    told = f"{status.used:4.0%}  {operations} of {in_force:,.0f}/s"
    if status.factor < 1:
        told += f" (else {status.operations:,.0f})"
    if status.seconds is not None:
        busy = status.seconds * status.factor
        told += f", {status.traffic.seconds:.1f} of {busy:g} busy"
    return told


def _tables(status: Status, rows: int) -> Iterable[Table]:
    if status.workers:
        table = plain_table("worker", "share", "", "held", "oldest", "admitted")
        for worker in status.workers[: fitting(status.workers, rows)]:
            table.add_row(
                Text(visible(worker.name)),
                f"{worker.share:.0%}",
                Text(bar(worker.share, 8), f"cyan {TRACK}"),
                f"{worker.held:,}",
                duration(worker.oldest) if worker.held else "",
                rate(worker.rate, worker.admitted),
            )
        _rest(table, len(status.workers) - fitting(status.workers, rows))
        yield table
    if status.tenants:
        table = plain_table("tenant", "held", "admitted")
        for tenant in status.tenants[: fitting(status.tenants, rows)]:
            table.add_row(
                Text(visible(tenant.name) or "(none)"),
                f"{tenant.held:,}",
                rate(tenant.rate),
            )
        _rest(table, len(status.tenants) - fitting(status.tenants, rows))
        yield table


def fitting(all_: Sized, rows: int) -> int:
    """Return how many are shown in so many lines, one of which may say "more"."""
    return len(all_) if len(all_) <= rows else rows - 1


def _rest(table: Table, left: int) -> None:
    if left > 0:
        table.add_row(Text(f"… {left} more", "dim"))


def plain_table(first: str, *others: str) -> Table:
    """Return a table without lines; all but the first column are figures."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(first, overflow="ellipsis", no_wrap=True, max_width=40)
    for name in others:
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    return table


def side_by_side(tables: list[Table], wide: int) -> RenderableType:
    """Return the tables beside each other where there is room, else below."""
    grid = Table.grid(padding=(0, 4, 0, 0))
    if wide < BESIDE:
        for table in tables:
            grid.add_row(table)
    else:
        grid.add_row(*tables)
    return grid


def bar(part: float, length: int) -> str:
    """Return so much of a line, to the eighth of a letter, filled up with blanks."""
    eighths = round(min(max(part, 0.0), 1.0) * length * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (PARTS[rest] if rest else "")).ljust(length)


def spark(parts: list[float]) -> str:
    """Return a line of small bars; the highest is the limit, or what is above it."""
    highest = max(1.0, *parts)
    last = len(BARS) - 1
    return "".join(BARS[min(round(one / highest * last), last)] for one in parts)


def rate(per_second: float | None, total: int | None = None) -> str:
    """Return how many per second, or in all while that is not known."""
    if per_second is None:
        return "-" if total is None else f"{total:,} in all"
    decimals = 1 if 0 < per_second < 10 else 0  # noqa: PLR2004 — a digit more
    return f"{per_second:,.{decimals}f}/s"


def size(number: int) -> str:
    """Return bytes for people."""
    value = float(number)
    for unit in ("B", "kB", "MB"):
        if value < 1000:  # noqa: PLR2004 — the next unit
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def visible(text: str) -> str:
    """Return a text without what would move the cursor or colour the rest."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)

"""A picture as text: bars against the limit, what waits, where."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Sized
from datetime import UTC, datetime, tzinfo
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from celery_pecker.surfaces.console.context import WHOLE_LINES
from celery_pecker.surfaces.console.rendering import cell_words, visible
from celery_pecker.surfaces.views.model import Table as Described
from celery_pecker.surfaces.views.phrases import plural
from throttle.overview import TOLERANCE, Picture, State, Status, Tenant, Worker
from throttle.views import TENANTS, WORKERS, amounts, flow, outage, workers

BARS = "▁▂▃▄▅▆▇█"
PARTS = " ▏▎▍▌▋▊▉"
BESIDE = 110
"""Letters of a line from which two tables stand beside each other."""
OF_WORKER, OF_TENANT = 54, 31
"""Letters of a table's line beside the name: figures are never cut, names are."""


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


def short(name: str, longest: int) -> str:
    """Return a name of no more letters than that: its middle is left out.

    Names of workers differ at their beginning, or at their end.
    """
    if len(name) <= longest:
        return name
    end = longest // 2
    return f"{name[: longest - end - 1]}…{name[-end:]}"


def needed(status: Status, wide: int) -> int:
    """Return how many lines the tables of a database would take."""
    tables = [len(one) + 1 for one in (status.workers, status.tenants) if one]
    return (max if wide >= BESIDE else sum)(tables or [0])


def dealt(status: Status, wide: int, rows: int) -> tuple[int, int]:
    """Return how many lines workers have, and tenants, below the heads of their tables.

    Below each other each gets half, and what the other one does not need.
    """
    if wide >= BESIDE:
        return rows - 1, rows - 1
    workers, tenants = (
        len(one) + 1 if one else 0 for one in (status.workers, status.tenants)
    )
    last = min(tenants, max((rows + 1) // 2, rows - workers))
    return max(rows - last - 1, 0), max(last - 1, 0)


def longest_name(wide: int) -> int:
    """Return how many letters of a name there is room for."""
    if wide < BESIDE:
        return max(wide - OF_WORKER, 8)
    return (wide - OF_WORKER - OF_TENANT) // 2


def fitting(all_: Sized, rows: int) -> int:
    """Return how many are shown in so many lines, one of which may say "more"."""
    return len(all_) if len(all_) <= rows else rows - 1


STYLES = {
    State.OVER: "bold white on red",
    State.HOLDING: "bold black on yellow",
    State.LOWERED: "bold black on cyan",
    State.UNGUARDED: "bold black on white",
    State.CALM: "bold black on green",
    State.UNLIMITED: "reverse",
}
TRACK = "on grey23"
"""Behind a bar, so that its end is seen where there is nothing."""
REMEMBERED = 600
MOST = 8
"""Workers and tenants that are shown where the screen's height is not known."""
HEAD, ROWS = 3, 4
"""Lines above the databases, and of each without its notes and workers."""
FIGURES = 44
"""Letters beside a bar, so that all bars are as long and can be compared."""


class Screen:
    """Draws pictures, and remembers the traffic of those before."""

    def __init__(self, where: str, zone: tzinfo = UTC) -> None:
        self._where = where
        self._zone = zone
        self._longest = WHOLE_LINES
        self._traffic: dict[str, deque[float]] = {}

    def remember(self, picture: Picture) -> None:
        """Add the traffic of this picture to the line of the next ones."""
        for status in picture.databases:
            known = self._traffic.setdefault(status.name, deque(maxlen=REMEMBERED))
            known.append(0.0 if picture.away else status.used)

    def drawn(
        self,
        picture: Picture,
        wide: int,
        high: int | None = None,
        *,
        whole: bool = False,
    ) -> RenderableType:
        """Return the picture for so many letters, and so many lines if it matters.

        With `whole` names are not shortened, and lines may be longer.
        """
        wide = max(min(wide, 140), 40)
        self._longest = WHOLE_LINES if whole else longest_name(wide)
        parts: list[RenderableType] = [*self._head(picture, wide)]
        rows = room(picture.databases, wide, high)
        for status in picture.databases:
            parts += self._block(
                status, wide, rows[status.name], stale=bool(picture.away)
            )
        if not picture.databases:
            parts.append(Text("Nothing is counted and nothing has a limit."))
        return Group(*parts)

    def _head(self, picture: Picture, wide: int) -> Iterable[RenderableType]:
        at = datetime.fromtimestamp(picture.at, self._zone)
        line = Text()
        line.append("throttle ", "bold")
        line.append(
            f"{at:%H:%M:%S %Z}  {plural(workers(picture), 'worker')},"
            f" {plural(picture.held, 'task')} held,"
            f" by the {picture.estimator} estimator  "
        )
        line.append(visible(self._where), "dim")
        line.truncate(max(wide, self._longest), overflow="ellipsis")
        yield line
        if picture.away:
            yield Text(visible(outage(picture)), "bold white on red")
        yield Text()

    def _block(
        self, status: Status, wide: int, rows: int, *, stale: bool
    ) -> Iterable[RenderableType]:
        yield dimmed(_title(status), stale)
        for note in _notes(status):
            yield dimmed(note, stale)
        yield dimmed(_bar(status, wide), stale)
        if status.workers or status.name in self._traffic:
            yield dimmed(self._line(status, wide), stale)
        if rows > 1:
            tables = [*_tables(status, dealt(status, wide, rows), self._longest)]
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
        return line.append("  ".join(flow(status)))


def room(databases: Iterable[Status], wide: int, high: int | None) -> Mapping[str, int]:
    """Return how many lines the tables of each database may take.

    Databases with waiting tasks come first: they are what a reader looks for.
    """
    rows: dict[str, int] = {}
    known = sorted(databases, key=lambda status: not status.held)
    left = None
    if high is not None:
        left = high - HEAD - sum(bare(status, wide) for status in known)
    for status in known:
        rows[status.name] = min(
            needed(status, wide), MOST if left is None else max(left, 0)
        )
        left = None if left is None else left - rows[status.name]
    return rows


def bare(status: Status, wide: int) -> int:
    """Return how many lines a database takes without its tables."""
    words = [_title(status), *_notes(status)]
    return ROWS - 1 + sum(len(wrap(one.plain, wide)) for one in words)


def dimmed(text: Text, stale: bool) -> Text:
    """Return the text, faint if it is of a while ago."""
    if stale:
        text.stylize("dim")
    return text


def _title(status: Status) -> Text:
    title = Text()
    title.append(f" {status.state.upper()} ", STYLES[status.state])
    title.append(f" {visible(status.name)}", "bold")
    if status.shadow:
        title.append(" (shadow)", "magenta")
    return title.append(f"  {visible(status.summary)}")


def _notes(status: Status) -> list[Text]:
    return [Text(f"  ! {visible(note)}", "yellow") for note in status.notes]


def _bar(status: Status, wide: int) -> Text:
    """Return the traffic as a bar: full is the limit, its mark the one in force."""
    line = Text("  ")
    if status.operations is None:
        return line + Text(amounts(status))
    length = max(wide - FIGURES, 12)
    drawn = bar(status.used * status.factor, length)
    mark = min(int(status.factor * length), length)
    style = {State.OVER: "red", State.HOLDING: "yellow"}.get(status.state, "green")
    line.append(drawn[:mark], f"{style} {TRACK}")
    if mark < length:
        line.append("┃", f"cyan {TRACK}")
        line.append(drawn[mark + 1 :], f"red {TRACK}")
    line.append("│", "red bold" if status.used > TOLERANCE else "")
    return line + Text(f" {status.used:4.0%}  {amounts(status)}")


def _tables(status: Status, rows: tuple[int, int], longest: int) -> Iterable[Table]:
    both: tuple[tuple[Described, Sequence[Worker | Tenant]], ...] = (
        (WORKERS, status.workers),
        (TENANTS, status.tenants),
    )
    for (described, all_), most in zip(both, rows, strict=True):
        if all_ and most:
            yield _table(described, all_, fitting(all_, most), longest)


def _table(
    described: Described, all_: Sequence[Worker | Tenant], most: int, longest: int
) -> Table:
    """Return the first rows under the columns of a view; names are shortened."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in described.columns:
        right = "right" if column.number else "left"
        table.add_column(column.label, justify=right, no_wrap=True)  # type: ignore[arg-type]
    for row in all_[:most]:
        cells: list[Text] = []
        for column in described.columns:
            value = column.of(row)
            words = visible(cell_words(column, value))
            cells.append(
                Text(short(words, longest) if column.kind == "name" else words)
            )
            if column.kind == "part":
                cells[-1].append(f" {bar(value[1], 8)}", f"cyan {TRACK}")
        table.add_row(*cells)
    if len(all_) > most:
        table.add_row(Text(f"… {len(all_) - most} more", "dim"))
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

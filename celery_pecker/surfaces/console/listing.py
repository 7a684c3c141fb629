"""Rows under heads, of which nothing is cut however short a line is."""

from collections.abc import Collection

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

GAP = 2
"""Letters between two columns."""


class Listing:
    """A table where a line has room for its columns; else a block for each row.

    The first cell of a row is its name: in a block it stands alone, and below it the
    others with their heads, as many on a line as there is room for. A name that is
    longer than a line goes on on the next.
    """

    def __init__(
        self, *heads: str, right: Collection[str] = (), title: str = ""
    ) -> None:
        self.title = title
        self.heads = heads
        self.rows: list[list[Text]] = []
        self._right = right

    @property
    def row_count(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    def add_row(self, *cells: str | Text) -> None:
        """Add a row; a text may look like markup and is none."""
        self.rows.append([Text(c) if isinstance(c, str) else c for c in cells])

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> RenderResult:
        """Draw it, as rich asks for it."""
        yield self.drawn(options.max_width)

    def drawn(self, wide: int) -> RenderableType:
        """Return it for lines of so many letters."""
        columns = zip(*[map(Text, self.heads), *self.rows], strict=True)
        needed = [max(cell_len(cell.plain) for cell in column) for column in columns]
        if sum(needed) + GAP * (len(needed) - 1) <= wide:
            return self._table()
        parts = [Text(self.title, "italic")] if self.title else []
        for name, *cells in self.rows:
            parts += [name, *self._below(cells, wide)]
        for part in parts:
            part.overflow, part.no_wrap = "fold", False
        return Group(*parts)

    def _table(self) -> Table:
        table = Table(
            title=self.title or None, title_justify="left", box=None, pad_edge=False
        )
        for head in self.heads:
            right = "right" if head in self._right else "left"
            table.add_column(head, justify=right, no_wrap=True, header_style="dim")  # type: ignore[arg-type]
        for row in self.rows:
            table.add_row(*row)
        return table

    def _below(self, cells: list[Text], wide: int) -> list[Text]:
        lines: list[Text] = []
        for head, cell in zip(self.heads[1:], cells, strict=True):
            if not cell.plain:
                continue
            pair = Text.assemble((f"{head} ", "dim"), cell) if head else cell
            if lines and cell_len(lines[-1].plain) + GAP + pair.cell_len <= wide:
                lines[-1].append(" " * GAP).append_text(pair)
            else:
                lines.append(Text("  ").append_text(pair))
        return lines

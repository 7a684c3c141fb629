"""A run as a picture: traffic, limit and what is held, over time.

    Recording      what was seen of one database, moment by moment
    written, read  recordings as JSON, and back
    draw           from recordings to a picture (SVG), in light and in dark: pure

    Path("run.svg").write_text(draw([recording], title="Rush hour"))

Several recordings share one scale, so that a run with the gate and one without can be
laid side by side and compared by eye. A panel for each: its figures, the traffic
against the limit (what is above it in a colour of its own), and below it how many tasks
waited. The colours are such as colour-blind people tell apart.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import NamedTuple

from throttle.errors import Misconfigured

VERSION = 1


class Moment(NamedTuple):
    """What was seen at one look."""

    at: float
    """Seconds since the recording began."""
    traffic: float
    """Operations per second, by the estimator of the recording."""
    limit: float
    """The limit in force, operations per second."""
    held: int
    admitted: int
    """Since the recording began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A run of one database."""

    database: str
    title: str = ""
    """Above its picture; default the database."""
    estimator: str
    moments: tuple[Moment, ...]
    gaps: tuple[tuple[float, float], ...] = ()
    """From when to when nothing was seen: the store was away."""

    @property
    def seconds(self) -> float:
        """Return how long it took."""
        return self.moments[-1].at if self.moments else 0.0

    @property
    def peak(self) -> float:
        """Return the most traffic."""
        return max((one.traffic for one in self.moments), default=0.0)

    @property
    def over(self) -> float:
        """Return the most traffic, as a part of the limit in force."""
        parts = (one.traffic / one.limit for one in self.moments if one.limit > 0)
        return max(parts, default=0.0)

    @property
    def most_held(self) -> int:
        """Return the most tasks that waited at once."""
        return max((one.held for one in self.moments), default=0)

    @property
    def admitted(self) -> int:
        """Return how many tasks were let in."""
        return self.moments[-1].admitted if self.moments else 0

    @property
    def use(self) -> float | None:
        """Return the mean part of the limit used while tasks waited; None: none did."""
        parts = [one.traffic / one.limit for one in self.moments if one.held]
        return sum(parts) / len(parts) if parts else None


def written(recordings: Iterable[Recording]) -> str:
    """Return recordings as one JSON document; figures by column, which is shorter."""
    document = {
        "version": VERSION,
        "recordings": [
            {
                "database": one.database,
                "title": one.title,
                "estimator": one.estimator,
                "gaps": one.gaps,
                **{
                    name: [round(moment[place], 3) for moment in one.moments]
                    for place, name in enumerate(Moment._fields)
                },
            }
            for one in recordings
        ],
    }
    return json.dumps(document, separators=(",", ":")) + "\n"


def read(text: str) -> tuple[Recording, ...]:
    """Return the recordings of a JSON document; Misconfigured if it is none."""
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise Misconfigured(
                f"a recording of version {document['version']!r}, not {VERSION}"
            )
        return tuple(_recording(one) for one in document["recordings"])
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, Misconfigured):
            raise
        raise Misconfigured(
            f"this is no recording of `throttle record`: {error!r}"
        ) from error


def _recording(one: dict[str, Sequence[float]]) -> Recording:
    columns = zip(*(one[name] for name in Moment._fields), strict=True)
    return Recording(
        database=str(one["database"]),
        title=str(one["title"]),
        estimator=str(one["estimator"]),
        moments=tuple(
            Moment(float(at), float(traffic), float(limit), int(held), int(admitted))
            for at, traffic, limit, held, admitted in columns
        ),
        gaps=tuple((float(gap[0]), float(gap[1])) for gap in one["gaps"]),  # type: ignore[index]  # pairs
    )


STYLE = files(__package__).joinpath("chart.css").read_text(encoding="utf-8")
Points = list[tuple[float, float]]


def element(kind: str, *inside: str, **attributes: float | str) -> str:
    """Return an element of a picture; numbers to the hundredth."""
    words = [
        f'{name.strip("_").replace("_", "-")}="{_written(value)}"'
        for name, value in attributes.items()
    ]
    return f"<{kind} {' '.join(words)}>{''.join(inside)}</{kind}>"


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else f"{round(value, 2):g}"


def text(x: float, y: float, label: str, kind: str = "", fill: str = "ink") -> str:
    """Return a line of text that begins (or, by its kind, centres or ends) at x."""
    return element("text", escape(label), x=x, y=y, class_=f"f-{fill} {kind}")


def box(
    at: tuple[float, float], size: tuple[float, float], fill: str, opacity: float = 1.0
) -> str:
    """Return a filled rectangle."""
    place = {"x": at[0], "y": at[1], "width": max(size[0], 0), "height": size[1]}
    return element("rect", **place, fill_opacity=opacity, class_=f"f-{fill}")


def edge(points: Points, stroke: str, *, width: float = 1.5, dash: str = "none") -> str:
    """Return a line through the points."""
    return element(
        "polyline",
        points=_joined(points),
        stroke_width=width,
        stroke_dasharray=dash,
        class_=f"s-{stroke}",
    )


def area(points: Points, base: float, fill: str, opacity: float = 0.2) -> str:
    """Return the surface between the points and a base line."""
    closed = _joined([(points[0][0], base), *points, (points[-1][0], base)])
    return element("polygon", points=closed, fill_opacity=opacity, class_=f"f-{fill}")


def _joined(points: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


WIDTH, MARGIN, HEAD = 980.0, 24.0, 62.0
PANEL, LABELS, GUTTER = 400.0, 56.0, 28.0
"""Height of a panel; room for its labels; between two panels."""
TRAFFIC = (112.0, 272.0)
HELD = (300.0, 356.0)
"""Top and base of the two charts of a panel."""
BROAD = 600.0
"""From which width on a panel has its figures in one line."""
EXCEEDED = 1.05
"""Above so much of the limit the figure is in the colour of trouble."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where figures are on the paper; the same in all panels."""

    left: float
    width: float
    top: float
    seconds: float
    traffic: float
    held: float

    def x(self, at: float) -> float:
        """Return the place of an instant."""
        return self.left + LABELS + at / self.seconds * (self.width - LABELS)

    def y(self, value: float) -> float:
        """Return the place of operations per second."""
        return _place(self.top, TRAFFIC, value / self.traffic)

    def waiting(self, held: float) -> float:
        """Return the place of a number of tasks."""
        return _place(self.top, HELD, held / self.held)


def _place(top: float, chart: tuple[float, float], part: float) -> float:
    high, base = chart
    return top + base - min(max(part, 0.0), 1.0) * (base - high)


def draw(recordings: Sequence[Recording], *, title: str = "", columns: int = 1) -> str:
    """Return the picture as the text of an SVG file.

    Args:
        recordings: One panel each, row by row.
        title: Above all of them.
        columns: Panels beside each other: 2 compares two runs.

    """
    head = HEAD if title else MARGIN
    rows = math.ceil(len(recordings) / columns)
    width = (WIDTH - 2 * MARGIN - (columns - 1) * GUTTER) / columns
    parts = [text(MARGIN, 38, title, "title")] if title else []
    seconds = max([one.seconds for one in recordings] + [1.0])
    limits = [moment.limit for one in recordings for moment in one.moments]
    highest = max([one.peak for one in recordings] + limits + [1.0])
    held = max([one.most_held for one in recordings] + [1])
    for place, one in enumerate(recordings):
        row, column = divmod(place, columns)
        scale = Scale(
            left=MARGIN + column * (width + GUTTER),
            width=width,
            top=head + row * PANEL,
            seconds=seconds,
            traffic=rounded(highest * 1.05),
            held=rounded(held),
        )
        parts += _panel(one, scale)
    high = head + rows * PANEL
    return element(
        "svg",
        element("title", escape(title or "Traffic")),
        element("style", STYLE),
        box((0, 0), (WIDTH, high), "paper"),
        "\n".join(parts),
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        width=WIDTH,
        height=high,
        viewBox=f"0 0 {WIDTH:g} {high:g}",
    )


def _panel(one: Recording, scale: Scale) -> Iterable[str]:
    left, top = scale.left, scale.top
    yield text(left, top + 18, one.title or one.database, "head")
    yield from _figures(one, left, top, scale.width)
    yield from _grid(scale)
    for since, until in one.gaps:
        x, end = scale.x(since), scale.x(until)
        size = (max(end - x, 1.0), HELD[1] - TRAFFIC[0])
        yield box((x, top + TRAFFIC[0]), size, "away", 0.25)
        yield text(x + 3, top + TRAFFIC[0] + 12, "no answer", "small", "away")
    for moments in _unbroken(one):
        yield from _traffic(moments, scale)
        yield from _held(moments, scale)
    yield from _legend(one, scale)


def _figures(one: Recording, left: float, top: float, width: float) -> Iterable[str]:
    figures = [
        (f"{one.peak:,.0f}", "peak per second", "ink"),
        (f"{one.over:.0%}", "of the limit", "over" if one.over > EXCEEDED else "ink"),
        (f"{one.most_held:,}", "most held", "ink"),
        (f"{one.admitted:,}", "admitted", "ink"),
    ]
    if one.use is not None and width > BROAD:
        figures.append((f"{one.use:.0%}", "mean use while tasks waited", "ink"))
    step = 160.0 if width > BROAD else (width - 10) / len(figures)
    for place, (figure, label, fill) in enumerate(figures):
        yield text(left + place * step, top + 56, figure, "figure", fill)
        yield text(left + place * step, top + 74, label, "small", "soft")


def _grid(scale: Scale) -> Iterable[str]:
    left, right = scale.x(0), scale.x(scale.seconds)
    for value in steps(scale.traffic, 4):
        y = scale.y(value)
        yield edge([(left, y), (right, y)], "line", width=1)
        yield text(left - 8, y + 4, f"{value:,.0f}", "small end", "soft")
    for value in (0.0, scale.held):
        y = scale.waiting(value)
        yield edge([(left, y), (right, y)], "line", width=1)
        yield text(left - 8, y + 4, f"{value:,.0f}", "small end", "soft")
    for at in steps(scale.seconds, 6):
        label = f"{at:g} s"
        yield text(scale.x(at), scale.top + HELD[1] + 17, label, "small middle", "soft")


def _traffic(moments: Sequence[Moment], scale: Scale) -> Iterable[str]:
    base = scale.y(0)
    points: Points = [(scale.x(one.at), scale.y(one.traffic)) for one in moments]
    yield area(points, base, "traffic")
    # What is above the limit, in a colour of its own: between the two lines.
    for over, run in groupby(moments, key=lambda one: one.traffic > one.limit):
        if over:
            part = list(run)
            upper = [(scale.x(one.at), scale.y(one.traffic)) for one in part]
            lower = [(scale.x(one.at), scale.y(one.limit)) for one in part]
            first, last = upper[0][0], upper[-1][0]
            wide = max(last - first, 1.5)  # one moment is seen too
            closed = [*upper, (first + wide, lower[-1][1]), *reversed(lower)]
            yield area(closed, lower[0][1], "over", 0.75)
    yield edge(points, "traffic")
    limits = [(scale.x(one.at), scale.y(one.limit)) for one in moments]
    yield edge(limits, "limit", width=1.5, dash="6 4")


def _held(moments: Sequence[Moment], scale: Scale) -> Iterable[str]:
    points: Points = [(scale.x(one.at), scale.waiting(one.held)) for one in moments]
    yield area(points, scale.waiting(0), "held", 0.35)
    yield edge(points, "held")


def _unbroken(one: Recording) -> Iterable[Sequence[Moment]]:
    """Yield the parts of a recording in which the store answered."""
    ends = [since for since, _ in one.gaps]

    def part(moment: Moment) -> int:
        return sum(moment.at > end for end in ends)

    for _, moments in groupby(one.moments, key=part):
        yield list(moments)


def _legend(one: Recording, scale: Scale) -> Iterable[str]:
    y = scale.top + PANEL - 10
    x = scale.left + LABELS
    wide = scale.width > BROAD
    traffic = "operations/s" + (f", {one.estimator} estimator" if wide else "")
    for label, fill, step in (
        (traffic, "traffic", 210.0 if wide else 100.0),
        ("above the limit", "over", 110.0),
        ("tasks held", "held", 80.0),
    ):
        yield box((x, y - 9), (10, 10), fill, 0.8)
        yield text(x + 15, y, label, "small", "soft")
        x += step + 10
    yield edge([(x, y - 4), (x + 18, y - 4)], "limit", dash="6 4")
    yield text(x + 23, y, "limit in force" if wide else "limit", "small", "soft")


def rounded(value: float) -> float:
    """Return a round number that is no smaller, to end an axis with."""
    if value <= 1:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(
        unit * part
        for part in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
        if unit * part >= value
    )


def steps(highest: float, most: int) -> list[float]:
    """Return round numbers from 0 up to the highest, about so many."""
    raw = highest / most
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * part for part in (1, 2, 2.5, 5, 10) if unit * part >= raw * 0.99)
    return [nth * step for nth in range(int(highest / step + 1e-9) + 1)]

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
            message = f"a recording of version {document['version']!r}, not {VERSION}"
            raise Misconfigured(message)
        return tuple(_recording(one) for one in document["recordings"])
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, Misconfigured):
            raise
        message = f"this is no recording of `throttle record`: {error!r}"
        raise Misconfigured(message) from error


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


LIGHT = {
    "paper": "#ffffff",
    "ink": "#1c2733",
    "soft": "#5d6b7a",
    "line": "#e3e8ed",
    "traffic": "#0072b2",
    "limit": "#1c2733",
    "over": "#c44601",
    "held": "#bd8600",
    "away": "#868f86",
}
DARK = {
    "paper": "#12181f",
    "ink": "#e8edf2",
    "soft": "#9aa8b6",
    "line": "#2a343f",
    "traffic": "#56b4e9",
    "limit": "#e8edf2",
    "over": "#ff8552",
    "held": "#f0b429",
    "away": "#77828e",
}
# Colours are attributes, which every renderer understands; the dark scheme is CSS,
# which overrides attributes in the renderers that know about schemes.
STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue",
       "DejaVu Sans", sans-serif; font-size: 12px; }
.title { font-size: 20px; font-weight: 650; }
.head { font-size: 15px; font-weight: 650; }
.figure { font-size: 21px; font-weight: 650; }
.small { font-size: 11px; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.strong { font-weight: 650; }
"""
Points = list[tuple[float, float]]


def style() -> str:
    """Return the style sheet."""
    rules = "".join(
        f".f-{name} {{ fill: {value}; }} .s-{name} {{ stroke: {value}; }}\n"
        for name, value in DARK.items()
    )
    return f"{STYLE}@media (prefers-color-scheme: dark) {{\n{rules}}}\n"


def text(x: float, y: float, label: str, kind: str = "", fill: str = "ink") -> str:
    """Return a line of text that begins (or, by its kind, centres or ends) at x."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{LIGHT[fill]}"'
        f' class="f-{fill} {kind}">{escape(label)}</text>'
    )


def box(
    at: tuple[float, float], size: tuple[float, float], fill: str, opacity: float = 1.0
) -> str:
    """Return a filled rectangle."""
    return (
        f'<rect x="{at[0]:.1f}" y="{at[1]:.1f}" width="{max(size[0], 0):.1f}"'
        f' height="{max(size[1], 0):.1f}" fill="{LIGHT[fill]}"'
        f' fill-opacity="{opacity:g}" class="f-{fill}"/>'
    )


def edge(points: Points, stroke: str, *, width: float = 1.5, dash: str = "") -> str:
    """Return a line through the points."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<polyline points="{_joined(points)}" fill="none" stroke="{LIGHT[stroke]}"'
        f' stroke-width="{width:g}" stroke-linejoin="round"{dashed}'
        f' class="s-{stroke}"/>'
    )


def area(points: Points, base: float, fill: str, opacity: float = 0.2) -> str:
    """Return the surface between the points and a base line."""
    closed = [(points[0][0], base), *points, (points[-1][0], base)]
    return (
        f'<polygon points="{_joined(closed)}" fill="{LIGHT[fill]}"'
        f' fill-opacity="{opacity:g}" class="f-{fill}"/>'
    )


def document(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Return the whole picture, on paper of its own."""
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
            f"<title>{escape(title)}</title>",
            f"<style>{style()}</style>",
            box((0, 0), (width, height), "paper"),
            *parts,
            "</svg>\n",
        ]
    )


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
    return document(WIDTH, head + rows * PANEL, title or "Traffic", parts)


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

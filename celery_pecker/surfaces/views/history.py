"""The view of history: figures of an entry, task, queue, limit or job, with marks."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from celery_pecker.kernel.clock import MICROSECOND, from_us, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import InvalidField
from celery_pecker.kernel.figure_tables import MarkRow, marks, points
from celery_pecker.kernel.figures import (
    ADMITTED,
    AGE,
    ALL_LIMITS,
    ALL_OUTBOX,
    CANCELLED,
    DEPTH,
    HELD,
    IN_FORCE,
    KNOWN,
    LATE,
    MINUTE_US,
    OUTCOME,
    PEAK,
    RUN,
    SENT,
    SUMS,
    TRAFFIC,
    WAIT,
    Cell,
    merged,
    quantiles,
)
from celery_pecker.schedules.history.outcomes import COUNTED
from celery_pecker.schedules.history.report import Report
from celery_pecker.surfaces.views.model import (
    Card,
    Column,
    Figure,
    Query,
    Shown,
    Table,
    View,
    length_of,
)
from celery_pecker.surfaces.views.phrases import NONE, count, duration, pace, rate

OF = {**SUMS, "queue": ALL_OUTBOX, "limit": ALL_LIMITS}
"""What a name may be of, and the subject that adds up all of it."""
USUAL = "24h"
PERCENTS = (50, 95, 99)
KEYS = {one: f"{OUTCOME}{one.value}" for one in COUNTED}
MARKED = 200
"""Marks of lost runs in a chart, at most: they leave room for a deploy's."""
BAD = {*KEYS.values()} - {KEYS[Report.PUBLISHED], KEYS[Report.SUCCEEDED]}


class PointRow(NamedTuple):
    """What some minutes came to. Times are seconds; None: none was seen."""

    at: datetime
    published: int
    succeeded: int
    bad: int
    """What was not sent, or ended badly."""
    cancelled: int
    """Sharded jobs that people cancelled."""
    late_p50: float | None
    late_p95: float | None
    late_p99: float | None
    wait_p50: float | None
    wait_p95: float | None
    wait_p99: float | None
    run_p50: float | None
    run_p95: float | None
    run_p99: float | None
    sent: int
    """Outbox tasks that the broker took."""
    depth: int
    age: float
    """Of the oldest outbox task that waited."""
    admitted: int
    """Tasks that a gate let in."""
    held: float | None
    """Tasks that it held, on average."""
    traffic: float | None
    """Operations per second, on average."""
    peak: int | None
    """The most operations per second; of all limits together it is not known."""
    in_force: float | None
    """The limit in force, on average: operations per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The figures of a subject between two instants."""

    of: str
    name: str
    minutes: int
    """Of each point."""
    since_us: int
    until_us: int
    points: Sequence[PointRow]
    total: PointRow
    """Of all of it."""
    outcomes: Mapping[str, int]
    marks: Sequence[MarkRow]


def past(
    database: Database, of: str, name: str, *, length_us: int, until_us: int = 0
) -> Past:
    """Return the figures of a subject; of no name: of all of its kind.

    ``until_us``: 0 is now.
    """
    [(now_us,)] = database.run("read_clock", now=None)
    until_us = until_us or now_us
    since_us = until_us - length_us
    subject = f"{of} {name}" if name else OF[of]
    step, cells = points(database, subject, since_us, until_us, now_us)
    total = merged(cells.values())
    runs = cells
    if of != "entry":
        _, runs = points(database, SUMS["entry"], since_us, until_us, now_us)
    lost = [*_lost(runs, since_us)][-MARKED:]
    happened = [*marks(database, since_us, until_us), *lost]
    outcomes: Counter[str] = Counter()
    for report, column in COUNTED.items():
        outcomes[column] += total.get(KEYS[report], 0)
    return Past(
        of=of,
        name=name,
        minutes=step,
        since_us=since_us,
        until_us=until_us,
        points=[point(at_us, cell) for at_us, cell in cells.items()],
        total=point(since_us, total),
        outcomes=+outcomes,
        marks=sorted(happened, reverse=True),
    )


def _lost(cells: Mapping[int, Cell], since_us: int) -> Iterator[MarkRow]:
    """Give a mark for each point in which runs were lost or overran. Pure."""
    for at_us, cell in cells.items():
        for report in (Report.LOST, Report.OVERRUN):
            if runs := cell.get(KEYS[report]):
                words = "a run" if runs == 1 else f"{count(runs)} runs"
                yield MarkRow(max(at_us, since_us), COUNTED[report], words)


def point(at_us: int, cell: Cell) -> PointRow:
    """Return a cell as people read it. Pure."""
    found = quantiles(cell, 0.5, 0.95, 0.99)
    times = {
        f"{name}_p{part}": seconds
        for name, measure in (("late", LATE), ("wait", WAIT), ("run", RUN))
        for part, seconds in zip(PERCENTS, found[measure], strict=True)
    }
    return PointRow(
        at=from_us(at_us),
        published=cell.get(KEYS[Report.PUBLISHED], 0),
        succeeded=cell.get(KEYS[Report.SUCCEEDED], 0),
        bad=sum(cell.get(key, 0) for key in BAD),
        cancelled=cell.get(CANCELLED, 0),
        sent=cell.get(SENT, 0),
        depth=cell.get(DEPTH, 0),
        age=cell.get(AGE, 0) / 1_000,
        admitted=cell.get(ADMITTED, 0),
        held=_mean(cell, HELD),
        traffic=_mean(cell, TRAFFIC),
        peak=cell.get(PEAK),
        in_force=_mean(cell, IN_FORCE),
        **times,
    )


def _mean(cell: Cell, key: str) -> float | None:
    known = cell.get(KNOWN)
    return round(cell.get(key, 0) / known, 1) if known else None


# The picture: panels of series, which a page draws whatever they are of.


def _series(shown: Past, *fields: tuple[str, str, str]) -> Iterator[dict[str, Any]]:
    for field, label, tone in fields:
        values = [getattr(one, field) for one in shown.points]
        yield {"label": label, "tone": tone, "values": values}


def _panel(
    shown: Past, label: str, kind: str, *fields: tuple[str, str, str]
) -> dict[str, Any]:
    return {"label": label, "kind": kind, "series": [*_series(shown, *fields)]}


def _times(shown: Past, label: str, field: str) -> dict[str, Any]:
    parts = (("50", "calm"), ("95", "slow"), ("99", "bad"))
    named = [(f"{field}_p{part}", f"p{part}", tone) for part, tone in parts]
    return _panel(shown, label, "times", *named)


def panels(shown: Past) -> list[dict[str, Any]]:
    """Return what there is to draw of a subject, as JSON. Pure."""
    if shown.of == "limit":
        traffic = ("traffic", "mean", "done"), ("peak", "at most", "slow")
        return [
            _panel(
                shown,
                "Operations per second",
                "levels",
                *(*traffic, ("in_force", "limit in force", "calm")),
            ),
            _panel(shown, "Held on average", "levels", ("held", "held", "slow")),
            _panel(shown, "Admitted", "counts", ("admitted", "admitted", "done")),
        ]
    ended = (("succeeded", "succeeded", "done"), ("bad", "bad", "bad"))
    if shown.of == "job":
        started = ("published", "submitted", "calm")
        cancelled = ("cancelled", "cancelled", "slow")
        return [
            _panel(shown, "Submitted", "counts", started),
            _panel(shown, "Ended", "counts", *ended, cancelled),
        ]
    if shown.of != "entry":
        return [
            _panel(shown, "Sent", "counts", ("sent", "sent", "done")),
            _panel(shown, "Waiting at most", "counts", ("depth", "waiting", "slow")),
            _panel(shown, "The oldest", "times", ("age", "age", "slow")),
        ]
    return [
        _times(shown, "How late", "late"),
        _times(shown, "Wait in the queue", "wait"),
        _times(shown, "Run time", "run"),
        _panel(shown, "Runs", "counts", *ended),
    ]


def read(database: Database, query: Query) -> Shown:
    """Return what an address asks for."""
    of, until = query.get("of", "entry"), query.get("until", "")
    if of not in OF:
        raise InvalidField(f"of: {of!r} is none of {', '.join(OF)}", field="of")
    length_us = length_of(query.get("since") or USUAL) // MICROSECOND
    until_us = int(until) if until.isascii() and until.isdigit() else 0
    name = query.get("name", "")
    shown = past(database, of, name, length_us=length_us, until_us=until_us)
    return Shown(
        now_us=shown.until_us,
        summary=shown,
        rows={"marks": shown.marks},
        extra={
            "chart": {
                "of": of,
                "name": name,
                "step": shown.minutes * MINUTE_US,
                "since": shown.since_us,
                "until": shown.until_us,
                "at": [to_us(one.at) for one in shown.points],
                "panels": panels(shown),
                "marks": [one._asdict() for one in shown.marks],
            }
        },
    )


def _runs(all_: Past) -> Card:
    bad = {one: n for one, n in all_.outcomes.items() if one != "published"}
    bad.pop("succeeded", None)
    words = " · ".join(f"{count(n)} {one.replace('_', ' ')}" for one, n in bad.items())
    return Card(
        count(all_.total.succeeded),
        words or "all ended well",
        "danger" if bad else "success",
    )


def _time(field: str, label: str) -> Figure:
    def card(all_: Past) -> Card:
        p50, p95, p99 = (getattr(all_.total, f"{field}_p{n}") for n in PERCENTS)
        return Card(duration(p95), f"p50 {duration(p50)}, p99 {duration(p99)}")

    return Figure(field, label, card)


def _held(all_: Past) -> Card:
    total = all_.total
    most = NONE if total.peak is None else f"{pace(total.peak)} operations"
    held = NONE if total.held is None else rate(total.held)
    return Card(count(total.admitted), f"{held} held on average, at most {most}")


def _sent(all_: Past) -> Card:
    note = f"at most {count(all_.total.depth)} waited, {duration(all_.total.age)}"
    return Card(count(all_.total.sent), note)


def _points(name: str, *columns: Column) -> Table:
    """Return the table of a chart's points."""
    return Table(
        name=name,
        title="History",
        key="at",
        columns=(Column("at", "from", "instant"), *columns),
        empty="No figures of that time: they are written once a minute.",
        by_hand=True,
        nouns=("point", "points"),
    )


POINTS = _points(
    "points",
    Column("succeeded", "succeeded", "count"),
    Column("bad", "bad", "count", alert=True),
    *(
        Column(f"{key}_p{part}", f"{key} p{part}", "duration")
        for key in ("late", "wait", "run")
        for part in PERCENTS
    ),
)
OUTBOX_POINTS = _points(
    "outbox_points",
    Column("sent", "sent", "count"),
    Column("depth", "waiting", "count"),
    Column("age", "oldest", "duration"),
)
JOB_POINTS = _points(
    "job_points",
    Column("published", "submitted", "count"),
    Column("succeeded", "succeeded", "count"),
    Column("bad", "failed", "count", alert=True),
    Column("cancelled", "cancelled", "count"),
)
LIMIT_POINTS = _points(
    "limit_points",
    Column("admitted", "admitted", "count"),
    Column("held", "held on average", "figure"),
    Column("traffic", "operations", "rate"),
    Column("peak", "at most", "rate"),
    Column("in_force", "limit in force", "rate"),
)
MARKS = Table(
    name="marks",
    title="Marks",
    key="what",
    columns=(
        Column("at", "when", "instant", value=lambda row: from_us(row.at_us)),
        Column("kind", "what", "text"),
        Column("what", "which", "name"),
    ),
    empty="Nothing was deployed, edited or restarted, and nothing rang.",
    headed=True,
    nouns=("mark", "marks"),
)
HISTORY = View(
    name="history",
    title="History",
    read=read,
    tables=(POINTS, OUTBOX_POINTS, JOB_POINTS, LIMIT_POINTS, MARKS),
    figures=(
        Figure("runs", "Ended well", _runs),
        _time("late", "How late, p95"),
        _time("wait", "Wait in the queue, p95"),
        _time("run", "Run time, p95"),
        Figure("sent", "Outbox tasks sent", _sent),
        Figure("admitted", "Admitted before a database", _held),
    ),
)


def document(shown: Past) -> dict[str, Any]:
    """Return it for programs."""
    return {
        "of": shown.of,
        "name": shown.name,
        "minutes": shown.minutes,
        "outcomes": shown.outcomes,
        "points": [one._asdict() for one in shown.points],
        "marks": [
            {"at": from_us(one.at_us), "kind": one.kind, "what": one.what}
            for one in shown.marks
        ],
    }

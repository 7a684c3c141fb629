"""The views of sharded jobs: all of them, and one with its shards."""

import json
from dataclasses import asdict, replace
from typing import Any

from kombu.utils.json import dumps

from celery_pecker.kernel.clock import to_us
from celery_pecker.surfaces.views.error_groups import groups_table
from celery_pecker.surfaces.views.model import (
    AGE,
    ID_DIGITS,
    Act,
    Card,
    Column,
    Figure,
    Filter,
    Measure,
    NoSuchRow,
    Query,
    Samples,
    Shown,
    Table,
    View,
    number,
    of_rows,
    pair,
    until,
)
from celery_pecker.surfaces.views.phrases import count, duration, plural, rate
from celery_sharding.errors import InstanceNotFound, JobNotFound
from celery_sharding.ledger import Ledger
from celery_sharding.ledger.rows import (
    LETTERS,
    ErrorRow,
    JobFigures,
    JobRow,
    ShardRow,
    Totals,
)
from celery_sharding.model import Stage
from celery_sharding.overview import (
    ENDED,
    MEANINGS,
    Snapshot,
    State,
    in_words,
    reason,
    take_snapshot,
    verdict,
)

ROWS = 50
"""Jobs of one page."""
LAYERS = 60
"""Layers that a browser gets, at most: those about the one that runs."""
LONGEST = 400
"""Letters of an item."""
SHARD_DIGITS = 9


# What is read


def read_jobs(ledger: Ledger, query: Query) -> Shown:
    """Return one page of the jobs, the youngest first, and the figures of all."""
    totals = ledger.reading.totals()
    rows = ledger.reading.jobs(
        **chosen(query, to_us(totals.now)),
        before=number(query.get("after", ""), ID_DIGITS),
        most=ROWS + 1,
    )
    shown = rows[:ROWS]
    return Shown(
        now_us=to_us(totals.now),
        summary=totals,
        rows={"jobs": shown},
        more=len(rows) > ROWS,
        next=str(shown[-1].job) if shown else "",
    )


def chosen(query: Query, now_us: int) -> dict[str, Any]:
    """Return the jobs that filters leave, as `Reading.jobs` has it."""
    asked = JOBS_TABLE.asked(query)
    state, is_open = asked["state"], query.get("open") == "1"
    return {
        **{name: asked[name] for name in ("search", "task", "state")},
        "open_only": is_open or bool(state and state not in ENDED),
        "until": until(query, now_us),
    }


def read_job(ledger: Ledger, query: Query) -> Shown | None:
    """Return one job, with the shard that was chosen; None: there is no such job."""
    behind = pair(query.get("after", ""), SHARD_DIGITS) or (-1, -1)
    try:
        seen = take_snapshot(ledger, query.get("id", ""), errors_after=behind)
    except JobNotFound:
        return None
    shard = number(query.get("shard", ""), SHARD_DIGITS)
    last = seen.errors[-1] if seen.errors else None
    return Shown(
        now_us=to_us(seen.row.now),
        summary=seen,
        rows={
            "job": [seen.row],
            "stragglers": seen.stragglers,
            "groups": seen.groups,
            "errors": seen.errors,
        },
        notes={"groups": seen.note},
        more=seen.more_errors,
        next=f"{last.origin}.{last.place}" if last else "",
        extra={**_picture(seen), "shard": _chosen(ledger, seen.row.leading, shard)},
    )


def _picture(seen: Snapshot) -> dict[str, Any]:
    """Return what the picture of a job needs: a grid of letters, in runs of them."""
    row, first = seen.row, around(seen.row.layer, len(seen.layers))
    layers = seen.layers[first : first + LAYERS]
    shown = {one.layer for one in layers}
    return {
        "facts": _plain(row, "submitted_at started_at decided_at deadline_at run")
        | {"options": row.options, "why": reason(row)[:LONGEST]}
        | {"traceback": str((row.error or {}).get("traceback") or "")[-8_000:]},
        "layer": row.layer if row.stage is not Stage.ENDED else None,
        "layers": [_plain(one, " ".join(asdict(one))) for one in layers],
        "all_layers": len(seen.layers),
        "grid": {
            "per": seen.grid.per,
            "lines": [
                (line.layer, line.first, line.compact)
                for line in seen.grid.lines
                if line.layer in shown
            ],
        },
        "codes": {
            letter: (int(code), *MEANINGS[code]) for letter, code in LETTERS.items()
        },
        "counts": {str(int(code)): many for code, many in seen.grid.counts.items()},
    }


def around(running: int, layers: int, most: int = LAYERS) -> int:
    """Return the first of at most so many layers about the one that runs."""
    return min(max(running - most // 2, 0), max(layers - most, 0))


def _chosen(ledger: Ledger, job: int, shard: int | None) -> dict[str, Any] | None:
    try:
        row = None if shard is None else ledger.reading.shard(job, shard)
    except InstanceNotFound:
        return None
    return row and _plain(row, " ".join(row._fields))


def _plain(row: Any, names: str) -> dict[str, Any]:
    """Return fields of a row as JSON: instants in microseconds."""
    values = ((name, getattr(row, name)) for name in names.split())
    return {
        name: to_us(value) if name.endswith(("_at", "before")) and value else value
        for name, value in values
    }


# What can be done


def _act(
    name: str, label: str, says: str, states: tuple[str, ...], asks: str = ""
) -> Act:
    """Return an act on a job that follows no other."""
    retries = name == "retry"

    def call(ledger: Ledger, key: str, user: str) -> object:
        ledger.close()  # over a new connection: it must not be done twice
        ledger.reading.job(key)
        done = getattr(ledger.control, "retry_failed" if retries else name)(key)
        return done if retries else None

    def is_offered(row: JobRow) -> bool:
        return row.leader is None and (row.failed > 0 or not retries)

    return Act(
        name,
        label,
        call,
        says,
        asks=asks,
        undo=bool(asks),
        states=states,
        when=is_offered,
    )


_BUSY = (State.RUNNING, State.POSTING)
SOME_FAILED = {f"{one}, some failed": "missed" for one in _BUSY}
"""States of a job that goes on and has failed items, with their shape."""
_OPEN = (
    *("submitted", "planning", "running", "waiting", "starved", "posting"),
    *SOME_FAILED,
)
_STOPS = "workers stop at their next item: {what}."
ACTS = (
    _act("pause", "Pause", f"Paused, {_STOPS}", _OPEN),
    _act("resume", "Resume", "Goes on where it stopped: {what}.", ("paused",)),
    _act("retry", "Retry failed", "{answer:,} items run again: {what}.", tuple(ENDED)),
    _act(
        "cancel",
        "Cancel",
        f"Cancelled, {_STOPS}",
        (*_OPEN, "paused"),
        asks="No more of its items begin, and it ends as REVOKED.",
    ),
)


def _retry_these(ledger: Ledger, key: str, user: str) -> int:
    task_id, _, group = key.rpartition("/")
    ledger.close()  # over a new connection: it must not be done twice
    if items := ledger.control.retry_failed(task_id, group):
        return items
    raise NoSuchRow(f"the job {task_id} has no error {group}")


# Figures


def _noted(otherwise: str, **counts: int) -> str:
    """Return what there is some of, each with its word."""
    words = (f"{count(n)} {word.replace('_', ' ')}" for word, n in counts.items() if n)
    return " · ".join(words) or otherwise


def _open(all_: Totals) -> Card:
    idle = "at their beginning or end" if all_.jobs else "nothing to do"
    note = _noted(idle, at_their_shards=all_.sharding, paused=all_.paused)
    return Card(count(all_.jobs), note, "active")


def _held(all_: Totals) -> Card:
    slots = f"of {plural(all_.slots, 'slot')}" if all_.slots else "no slots"
    return Card(count(all_.held), slots)


def _workers(all_: Totals) -> Card:
    if all_.executors:
        return Card(count(all_.executors), plural(all_.slots, "slot"))
    return Card("0", "none is alive", "danger" if all_.jobs else "success")


def _day(all_: Totals) -> Card:
    ended = all_.succeeded + all_.failed + all_.cancelled
    well = "all succeeded" if ended else "none"
    note = _noted(well, failed=all_.failed, cancelled=all_.cancelled)
    return Card(count(ended), note, "warning" if all_.failed else "success")


FIGURES = (
    Figure("open", "Unfinished jobs", _open),
    Figure("held", "Running shards", _held),
    Figure("workers", "Workers for shards", _workers),
    Figure("day", "Ended in 24 hours", _day),
)


def _ended_items(seen: Snapshot) -> Card:
    row, ended = seen.row, seen.row.done + seen.row.failed
    note = f"{count(ended)} of {plural(row.total, 'item')}"
    return Card(percent(ended, row.total), note, "active")


def _pace(seen: Snapshot) -> Card:
    eta = seen.progress.eta
    note = took(seen.row) if eta is None else f"{duration(eta)} left"
    return Card(rate(seen.progress.rate), note, "active")


def _held_of_one(seen: Snapshot) -> Card:
    row, starved = seen.row, seen.verdict.state is State.STARVED
    note = f"at most {count(row.concurrency)} · {plural(row.executors, 'worker')} live"
    return Card(count(row.held), note, "danger" if starved else "success")


def _failed(seen: Snapshot) -> Card:
    row = seen.row
    if not row.failed:
        return Card("0", "none")
    few = row.failed * 1_000 < row.total
    part = "under 0.1%" if few else percent(row.failed, row.total)
    return Card(count(row.failed), f"{part} of all", "danger")


JOB_FIGURES = (
    Figure("items", "Items", _ended_items),
    Figure("rate", "Items per second", _pace),
    Figure("held", "Running shards", _held_of_one),
    Figure("failed", "Failed items", _failed),
)


# Metrics


def _by(name: str, text: str, label: str, field: str) -> Measure:
    """Return a measure of what a field counts by the values of a label."""

    def samples(figures: JobFigures) -> Samples:
        yield from (([one], count) for one, count in getattr(figures, field).items())

    return Measure(name, text, samples, labels=(label,))


MEASURES = (
    _by("jobs", "Open jobs", "stage", "stages"),
    _by("jobs_ended_last_day", "Jobs that ended within a day", "outcome", "outcomes"),
    _by("items", "Items of jobs whose shards run or wait", "state", "items"),
    _by("tickets", "Rights to run shards", "state", "tickets"),
    Measure("jobs_paused", "Open jobs that are paused", "paused"),
    Measure("oldest_job_seconds", "Age of the oldest open job", "oldest"),
    Measure(
        "overdue_tickets",
        "Tickets whose lease or message was lost and not yet taken up",
        "overdue",
    ),
    Measure(
        "overdue_seconds",
        "For how long the most overdue ticket has waited for a sweep",
        "overdue_seconds",
    ),
    Measure("executors", "Live workers that run shards", "executors"),
    Measure("slots", "Shards that they run at once", "slots"),
)


# Tables


def percent(part: float, whole: float) -> str:
    """Return a part of all; all of it only where nothing is left."""
    return f"{int(min(part / whole, 1.0) * 1_000) / 10:.1f}%" if whole else "-"


def took(row: JobRow) -> str:
    """Return how long a job took, or takes."""
    so_far = "took" if row.stage is Stage.ENDED else "for"
    return f"{so_far} {duration(row.elapsed)}"


def state_of(row: JobRow) -> str:
    """Return how a job stands, and whether items failed where it goes on."""
    state = verdict(row).state
    return f"{state}, some failed" if row.failed and state in _BUSY else str(state)


def _items(row: JobRow) -> tuple[str, float, float]:
    if not row.total:
        return "no items yet", 0.0, 0.0
    words = f"{percent(row.done + row.failed, row.total)} of {count(row.total)}"
    if row.layers > 1 and row.stage is not Stage.ENDED:
        words += f", layer {min(row.layer + 1, row.layers)} of {row.layers}"
    return words, row.done / row.total, row.failed / row.total


def _left(row: JobRow) -> float | None:
    eta = row.progress().eta
    return None if eta is None else eta.total_seconds()


def shard_state(row: ShardRow) -> str:
    """Return the code of a shard in words, and over how many deaths."""
    deaths = f", {plural(row.deaths, 'death')}" if row.deaths else ""
    return in_words(row.code) + deaths


def as_text(item: Any, longest: int = LONGEST) -> str:
    """Return an item as JSON, cut where it is long."""
    text = json.dumps(json.loads(dumps(item)), ensure_ascii=False)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _failed_item(row: ErrorRow) -> str:
    return as_text(row.error.item) if row.place >= 0 else "the shard as a whole"


def _failed_at(row: ErrorRow) -> str:
    error = row.error
    again = f" · attempt {error.attempt}" if error.attempt > 1 else ""
    return f"{count(error.shard)} · {in_words(error.code)}{again}"


_COLUMNS = (
    Column("state", "state", "state", value=state_of, hint="why"),
    Column("task", "job", "name", notes=("key", "task_id"), opens="/job?id="),
    Column("items", "items", "part", value=_items),
    Column(
        "rate",
        "rate",
        "rate",
        value=lambda row: row.progress().rate or None,
        width="desk",
    ),
    Column("left", "left", "duration", value=_left, width="tablet"),
    Column("failed", "failed", "count", alert=True, width="tablet"),
    Column("submitted_at", "submitted", "instant", notes=("took",), width="desk"),
    Column("took", "took", value=took, width="aside"),
    Column("why", "why", value=lambda row: verdict(row).why, width="aside"),
)
STATES = {
    **SOME_FAILED,
    "submitted": "asked",
    "planning": "asked",
    "running": "running",
    "waiting": "missed",
    "starved": "bad",
    "paused": "idle",
    "posting": "running",
    "delivering": "sent",
    "succeeded": "done",
    "partly failed": "missed",
    "failed": "bad",
    "cancelled": "refused",
}
JOBS_TABLE = Table(
    name="jobs",
    title="Jobs",
    key="task_id",
    columns=_COLUMNS,
    empty="There is no such job.",
    states=STATES,
    acts=ACTS,
    filters=(
        Filter("search", "Search names, keys and ids", kind="search"),
        Filter("open", "unfinished only", kind="flag"),
        Filter("state", "in any state", kind="choice", choices=(*map(str, State),)),
        Filter("task", "Task", known=of_rows("jobs", "task")),
        AGE,
    ),
    paged="behind",
    nouns=("job", "jobs"),
)
JOB_TABLE = replace(
    JOBS_TABLE,
    name="job",
    columns=(*_COLUMNS, Column("leader", "follows", width="aside")),
    filters=(),
    paged="",
    by_hand=True,
)
LAYERS_TABLE = Table(
    name="layers",
    title="Layers",
    key="layer",
    columns=(
        Column("layer", "layer", "count", value=lambda row: row.layer + 1),
        Column(
            "part",
            "done",
            "figure",
            value=lambda row: percent(row.fraction, 1),
        ),
        Column("total", "items", "count"),
        Column("failed", "failed", "count"),
        Column("shards", "shards", "count"),
        Column("open", "open", "count"),
    ),
    by_hand=True,
)
STRAGGLERS_TABLE = Table(
    name="stragglers",
    title="Running longest",
    key="shard",
    columns=(
        Column("shard", "shard", "count", chooses="shard"),
        Column("spent", "claimed for", "duration"),
        Column(
            "items",
            "items",
            "figure",
            value=lambda row: f"{count(row.cursor)} of {count(row.items)}",
        ),
        Column(
            "hostname",
            "worker",
            value=lambda row: row.hostname or "-",
            width="tablet",
        ),
        Column("code", "stands", value=shard_state),
    ),
    empty="No shard runs.",
    headed=True,
)
GROUPS_TABLE = groups_table(
    "Failed items by error",
    "shards",
    Act(
        "retry_these",
        "Retry these",
        _retry_these,
        "{answer:,} items run again, and then Post.",
        asks="Items with this error run again, and then Post, once more; a shard that"
        " failed as a whole runs from where it ended, or whole. Others that failed stay"
        " as they are. What had not begun when the job ended runs, too.",
        when=lambda group: not group.open,
    ),
)
ERRORS_TABLE = Table(
    name="errors",
    title="Failed items",
    key="id",
    columns=(
        Column("item", "item", "name", value=_failed_item),
        Column(
            "why",
            "why",
            value=lambda row: f"{row.error.type}: {row.error.message}",
            notes=("traceback",),
        ),
        Column("shard", "shard", value=_failed_at, width="tablet"),
        Column(
            "traceback",
            "traceback",
            "folded",
            value=lambda row: row.error.traceback or "",
            width="aside",
        ),
        Column(
            "id",
            "id",
            value=lambda row: f"{row.origin}.{row.place}.{row.error.attempt}",
            width="aside",
        ),
    ),
    empty="No item failed.",
    paged="behind",
    nouns=("item", "items"),
    headed=True,
)
JOBS = View(
    name="sharding",
    title="Sharded jobs",
    read=read_jobs,
    tables=(JOBS_TABLE,),
    figures=FIGURES,
    measures=MEASURES,
)
JOB = View(
    name="sharding-job",
    title="Sharded job",
    read=read_job,
    tables=(JOB_TABLE, LAYERS_TABLE, STRAGGLERS_TABLE, GROUPS_TABLE, ERRORS_TABLE),
    figures=JOB_FIGURES,
)

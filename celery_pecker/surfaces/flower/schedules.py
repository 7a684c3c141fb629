"""The pages of all schedules and of one: what they show and what one can do."""

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import tzinfo
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from celery import Celery

from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.kernel.last_read import LastRead
from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.engine.model import task_id
from celery_pecker.schedules.overview import ORDERS, EntryRow, Overview
from celery_pecker.schedules.overview.explain import explain
from celery_pecker.schedules.overview.model import EntryDetail
from celery_pecker.schedules.overview.reader import MOST, OVERDUE_TIMEOUT
from celery_pecker.schedules.overview.verdicts import Question
from celery_pecker.surfaces.flower.pages import Origin, Page, Query, Source
from celery_pecker.surfaces.flower.rendering import acts_of, document, rows_of
from celery_pecker.surfaces.flower.stored_schedules import (
    brief,
    changes_of,
    full,
    removed_of,
    schedules_of,
    stored_of,
    why_read_only,
)
from celery_pecker.surfaces.views import schedules as view
from celery_pecker.surfaces.views.model import Shown, skipped

if TYPE_CHECKING:
    from celery_pecker.schedules import ScheduleRow

ROWS = 50
"""On one page of the list."""
LISTED = 20
"""Slots whose tasks can be opened."""
SPARED = 10
"""Readings of all figures that would fit between two of them."""
SLOTS = 600
"""In the strip of an entry: ten minutes of a per-second entry."""


@cache
def totals_of(app: Celery) -> LastRead:
    """Return the figures of all entries of an app, read the more rarely the longer.

    Each row is counted: of 100,000 entries every two seconds for every browser, that
    would be a core of the database.
    """
    return LastRead(Overview.totals, spared=SPARED)


def read_list(source: Source, query: Query) -> dict[str, Any]:
    """Return one page of the entries, and the figures of all."""
    overview = Overview(source.database)
    order = query.get("order")
    page = overview.page(
        **view.ENTRIES.asked(query),
        order=order if order in ORDERS else view.ENTRIES.order,
        descending=query.get("descending") == "1",
        limit=ROWS,
        offset=skipped(query, ROWS),
    )
    stored = stored_of(source, [row.name for row in page.rows])
    gone = [row.name for row in page.rows if not row.declared]
    removed = removed_of(source, gone)
    rows = [
        plain(row, source, page.now_us, stored.get(row.name), row.name in removed)
        for row in page.rows
    ]
    shown = Shown(
        now_us=page.now_us,
        summary=view.SchedulesSummary(totals_of(source.app)(overview)),
        rows={view.ENTRIES.name: page.rows},
        total=page.total,
        size=ROWS,
        extra={"why": why_read_only(source.app)},
    )
    return {**document(view.SCHEDULES, shown), "rows": {view.ENTRIES.name: rows}}


def read_entry(source: Source, query: Query) -> dict[str, Any] | None:
    """Return one entry with its last slots."""
    overview = Overview(source.database)
    detail = overview.entry(query.get("name", ""), limit=SLOTS)
    if detail is None:
        return None
    name = detail.row.name
    stored = stored_of(source, [name]).get(name)
    removed = not detail.row.declared and name in removed_of(source, [name])
    holders: dict[str, int] = {}
    hosts: list[str | None] = []
    for slot in detail.slots:
        if holders.setdefault(str(slot.holder), len(hosts)) == len(hosts):
            hosts.append(slot.host)
    row = plain(detail.row, source, detail.now_us, stored, removed)
    return {
        "now": detail.now_us,
        "row": row,
        "verdict": _verdict(overview, detail, row["next_us"], source.app.timezone),
        "stored": None if stored is None else full(stored),
        "cards": {},
        "rows": {
            "changes": changes_of(source, name),
            "slots": rows_of(
                view.SLOTS,
                [
                    view.ListedSlot(
                        one, task_id(source.settings.schema, name, one.due_us, one.era)
                    )
                    for one in detail.slots[:LISTED]
                ],
            ),
        },
        "why": why_read_only(source.app),
        "declared_until": detail.declared_until_us,
        "holder_seen": detail.holder_seen_us,
        "slots": [  # without names: there are many, and they come every two seconds
            (
                slot.due_us,
                slot.state,
                slot.late_us,
                slot.era,
                str(slot.epoch),
                slot.at_us,
                holders[str(slot.holder)],
            )
            for slot in detail.slots
        ],
        "holders": [*zip(holders, hosts, strict=True)],
        "bad": _bad(detail.row, source),
        "fence": _texts(asdict(detail.fence)) if detail.fence else None,
        "pending": [_texts(asdict(pending)) for pending in detail.pending],
    }


def _verdict(
    overview: Overview, detail: EntryDetail, next_us: int | None, zone: tzinfo
) -> dict[str, object]:
    """Return why the entry runs or does not, as `explain` says it."""
    question = Question(
        name=detail.row.name,
        detail=detail,
        replicas=overview.replicas(),
        locks=overview.locks(),
        next_us=next_us,
    )
    return explain(
        question, lambda us: f"{from_us(us).astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"
    ).shown


def _bad(row: EntryRow, source: Source) -> dict[str, Any] | None:
    """Return the last bad end, and the task that Flower may know of it."""
    bad = row.outcomes.bad
    if bad is None:
        return None
    task = task_id(source.settings.schema, row.name, bad.due_us, bad.era)
    return {**asdict(bad), "task": task}


def plain(
    row: EntryRow,
    source: Source,
    now_us: int,
    stored: "ScheduleRow | None" = None,
    removed: bool = False,
) -> dict[str, Any]:
    """Return a row as JSON has it."""
    next_us, overdue_us, state = row.next_us, row.overdue_us, row.state
    if next_us is None and row.declared:
        next_us = _next(row, source, now_us, stored)
        overdue_us = max(now_us - next_us, 0) if next_us is not None else 0
        if overdue_us > OVERDUE_TIMEOUT * SECOND and not row.paused:
            state = "overdue"
    if removed:
        state = "removed"
    elif stored is not None and not stored.declared_by_code:
        if stored.problem is not None:
            state, next_us, overdue_us = "unreadable", None, 0
        elif stored.done:
            state, next_us, overdue_us = "done", None, 0
    return {
        # asdict of all of it copies the last slots one by one: a third of the page.
        **_texts({one.name: getattr(row, one.name) for one in fields(row)}),
        "outcomes": asdict(row.outcomes),
        "next_us": next_us,
        "overdue_us": overdue_us,
        "holder": str(row.holder) if row.holder else None,
        "state": state,
        "why": _why(row),
        "acts": [] if removed else ["run", "resume" if row.paused else "pause"],
        "stored": None if stored is None else brief(stored),
    }


def _next(
    row: EntryRow, source: Source, now_us: int, stored: "ScheduleRow | None"
) -> int | None:
    """Return the slot after the last: by what is stored, or by Flower's own code."""
    if stored is not None and not stored.declared_by_code:
        return None if stored.next_due is None else to_us(stored.next_due)
    return source.upcoming.next_us(
        row.name, row.schedule, last_us=row.last_us, now_us=now_us
    )


def _why(row: EntryRow) -> str:
    """Return what an entry that fails came to, on one line."""
    bad = row.outcomes.bad
    if bad is None or not row.outcomes.failing:
        return ""
    return f"{bad.state.replace('_', ' ')}: {bad.error}".rstrip(": ")


def _texts(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with the epoch as text: browsers do not count so far exactly."""
    return {**values, "epoch": str(values["epoch"])}


def find_entry(source: Source, wanted_id: str, task: str) -> Origin | None:
    """Return the entry that a task was a run of, if its last slots are known still."""
    for name, slots in Overview(source.database).slots_of_task(task):
        for one in slots:
            mine = task_id(source.settings.schema, name, one.due_us, one.era)
            if mine == wanted_id:
                return Origin({"name": name}, name)
    return None


class FlowerEdits:
    """Edits of entries; the next page shows figures of after them."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._schedules = schedules_of(source.app)
        self._totals = totals_of(source.app)

    def pause(self, name: str, *, by: str) -> None:
        """Let the slots of the entry pass."""
        self._schedules.pause(name, by=by)
        self._totals.forget()

    def resume(self, name: str, *, by: str) -> None:
        """Let the slots of the entry run again."""
        self._schedules.resume(name, by=by)
        self._totals.forget()

    def run(self, name: str, *, by: str) -> None:
        """Ask for a run now."""
        Overview(self._source.database).request_run(name, by)

    def matching(self, query: Query, *, paused: bool) -> Sequence[str]:
        """Return the names of all entries that filters leave."""
        page = Overview(self._source.database).page
        read = partial(page, **view.ENTRIES.asked(query))
        parts = range(0, read(limit=0).total, MOST)
        rows = [row for part in parts for row in read(limit=MOST, offset=part).rows]
        return [row.name for row in rows if row.paused is paused]


ACTS = acts_of(view.SCHEDULES, FlowerEdits)


def wanted(app: Celery) -> bool:
    """Return whether an app has schedules: one may use other pages alone."""
    return bool(app.conf.get("pecker_dsn"))


SCHEDULES = Page(
    name="schedules",
    title="Schedules",
    url="/schedules",
    template="schedules.html",
    view=view.SCHEDULES,
    read=read_list,
    does=ACTS,
    shown=wanted,
)
ENTRY = Page(
    name="schedule",
    title="Schedule",
    view=view.ENTRY,
    url="/schedules/entry",
    template="entry.html",
    read=read_entry,
    finds=find_entry,
    does=ACTS,
    under="schedules",
)
PAGES = (SCHEDULES, ENTRY)

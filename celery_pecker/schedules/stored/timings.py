"""When a stored schedule is due: the same for replicas, edits and people.

A plain interval is a grid that the claim works out in SQL. All else gives instants in
Python: calendars, crontab, solar, a grid with a start or an end, a single instant.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from celery import Celery
from celery.schedules import schedule

from celery_pecker.calendars import Jittered, Splayed
from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.kernel.errors import InvalidField
from celery_pecker.schedules.declarations.reading import STORED, policy
from celery_pecker.schedules.engine.bounds import Bounded, Grid, Single, latest
from celery_pecker.schedules.engine.model import (
    NEVER_US,
    Delivery,
    Entry,
    Policy,
    Recurrence,
    RunMode,
    StoredSchedule,
)
from celery_pecker.schedules.recurrence import (
    CachedRecurrence,
    in_words,
    period_us,
    recurrence,
)
from celery_pecker.schedules.stored import schedule_json
from celery_pecker.schedules.stored.checks import check_task
from celery_pecker.schedules.stored.model import Definition

SECOND = 1_000_000
SHARED = 4_096
"""Different timings that are kept, for the entries that have the same."""

Moment = datetime | None
Parts = tuple[str, str, str, Moment, Moment, Moment]
"""Schedule and policies as JSON, run, start, end, and the instant of a single run."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What entries with the same schedule and policies have in common."""

    described: str
    policy: Policy
    period_us: int | None
    recurrence: Recurrence | None
    """None: a grid, or it goes by the entry's name."""
    schedule: Any
    """The schedule."""


class Timings:
    """Reads stored rows into entries; what rows have in common is made once."""

    def __init__(self, app: Celery, conf: Mapping[str, Any] | None = None) -> None:
        self._app = app
        self._conf = app.conf if conf is None else conf
        self.allow_list = self._conf.get("pecker_allowed_tasks")
        """Names and patterns of the tasks that stored rows may run; None: all."""
        self._shared = lru_cache(maxsize=SHARED)(self._timing)

    def entry(
        self,
        wanted: Definition,
        once_at: datetime | None = None,
        *,
        name: str | None = None,
    ) -> Entry:
        """Return the entry of a definition, or of its other name.

        Raises:
            InvalidField: it cannot be read, as after an edit by hand.
        """
        when, how = (
            json.dumps(one, sort_keys=True)
            for one in (wanted.schedule, wanted.policies)
        )
        parts = when, how, wanted.run, wanted.start, wanted.end, once_at
        return self._entry(name or wanted.name, wanted.task, parts)

    def of_row(self, row: StoredSchedule) -> Entry:
        """Return the entry of a row as replicas read it; raise as `entry` does.

        Also for a task that pecker_allowed_tasks does not name: the row may have been
        written by an app without that setting, or before it was set.
        """
        check_task(row.task, self.allow_list)
        instants = (row.starts_us, row.ends_us, row.once_us if row.once else None)
        start, end, once_at = map(_instant, instants)
        parts = row.schedule, row.policies, row.run, start, end, once_at
        task = sys.intern(row.task)
        return self._entry(row.name, task, parts, version=row.version, edit=row.edit)

    def _entry(self, name: str, task: str, parts: Parts, **known: Any) -> Entry:
        timing = self._shared(*parts)
        recurs = timing.recurrence
        if recurs is None and timing.period_us is None:
            _, _, _, start, end, _ = parts
            recurs = self._recurrence(timing.schedule, name, start, end)
        return Entry(
            name=name,
            task=task,
            described=timing.described,
            policy=timing.policy,
            period_us=timing.period_us,
            recurrence=recurs,
            **known,
        )

    def words(self, wanted: Definition, once_at: datetime | None = None) -> str:
        """Return when a definition runs, in a sentence."""
        recurs = schedule_json.of_json(wanted.schedule)
        zone = self._app.timezone

        def shown(at: datetime) -> str:
            return at.astimezone(zone).isoformat(" ", "seconds")

        if isinstance(recurs, schedule_json.Once):
            return f"once, at {shown(once_at or recurs.at)}"
        text = in_words(recurs, self._app, wanted.name)
        if wanted.start is not None:
            text += f", from {shown(wanted.start)}"
        if wanted.end is not None:
            text += f", until {shown(wanted.end)}"
        if wanted.once:
            text = f"once: the first of {text}"
            text += "" if once_at is None else f" ({shown(once_at)})"
        return text

    def _timing(  # the columns of a row
        self,
        when: str,
        how: str,
        run: str,
        start: datetime | None,
        end: datetime | None,
        once_at: datetime | None,
    ) -> Timing:
        recurs = schedule_json.of_json(_read(when))
        if isinstance(recurs, schedule_json.Once) and once_at is None:
            once_at = recurs.at
        every_us = None
        instants: Recurrence | None = None
        if type(recurs) is schedule:
            every_us = int(recurs.seconds * SECOND + 0.5)
        bounded = start is not None or end is not None
        period = period_us(recurs) if not bounded and once_at is None else None
        if once_at is not None:
            instants = Single(to_us(once_at))
        elif period is None and not _goes_by_name(recurs):
            instants = self._recurrence(recurs, "", start, end)
        return Timing(
            described=_described(when, start, end, once_at),
            policy=self._policy(_read(how), run, recurs, every_us, once_at is not None),
            period_us=period,
            recurrence=instants,
            schedule=recurs,
        )

    def _recurrence(
        self, recurs: Any, name: str, start: datetime | None, end: datetime | None
    ) -> Recurrence:
        start_us, end_us = _us(start), _us(end)
        every = period_us(recurs)
        if every is not None:
            return Bounded(Grid(every, start_us), None, end_us)
        instants = recurrence(recurs, self._app, name)
        if not name and type(recurs) is not schedule:  # a relative one has no instants
            instants = CachedRecurrence(instants)
        if start is None and end is None:
            return instants
        return Bounded(instants, start_us, end_us)

    def _policy(
        self, policies: Any, run: str, recurs: Any, every_us: int | None, once: bool
    ) -> Policy:
        if not isinstance(policies, Mapping):
            raise InvalidField(
                f"policies are {policies!r}; allowed is an object", field="policies"
            )
        for key in policies:
            if key not in STORED:
                allowed = ", ".join(STORED)
                raise InvalidField(
                    f"policies has {key!r}; allowed are {allowed}", field="policies"
                )
        period = None if once else every_us
        wanted = {"run": run, **policies}
        checked = policy("", wanted, recurs, period, conf=self._conf)
        if once and "delivery" not in policies and checked.run is RunMode.DISPATCH:
            return replace(checked, delivery=Delivery.AT_LEAST_ONCE)
        return checked


def next_runs(
    entry: Entry, after_us: int, count: int, *, last_us: int | None = None
) -> list[datetime]:
    """Return the next runs of an entry after an instant, at most so many.

    ``last_us`` is the last slot of a grid; without it the grid begins at the instant.
    """
    runs: list[datetime] = []
    at_us = after_us
    if entry.period_us is not None and last_us is not None:
        at_us = max(latest(last_us, entry.period_us, after_us), last_us)
    while len(runs) < count:
        at_us = entry.next(at_us, at_us)
        if at_us >= NEVER_US:
            break
        runs.append(from_us(at_us))
    return runs


def _goes_by_name(recurs: Any) -> bool:
    return isinstance(recurs, Jittered | Splayed) and recurs.key is None


def _instant(instant_us: int | None) -> datetime | None:
    return None if instant_us is None else from_us(instant_us)


def _us(instant: datetime | None) -> int | None:
    return None if instant is None else to_us(instant)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidField(
            f"schedule is {text!r}, which is no JSON: {error}", field="schedule"
        ) from error


def _described(
    when: str, start: datetime | None, end: datetime | None, once_at: datetime | None
) -> str:
    """Return a schedule in words that are the same in each process."""
    text = json.dumps(json.loads(when), sort_keys=True)
    for name, at in (("from", start), ("until", end), ("once", once_at)):
        if at is not None:
            text += f" {name} {at.astimezone(UTC).isoformat()}"
    return text

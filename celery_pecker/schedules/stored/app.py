"""Schedules that people and programs edit while everything runs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, cast

from celery import Celery

from celery_pecker.kernel.adapters.adapter import Flow
from celery_pecker.kernel.adapters.calls import PerApp, awaited
from celery_pecker.kernel.clock import SYSTEM, new_tag, to_us
from celery_pecker.schedules.declarations.reading import STORED
from celery_pecker.schedules.declarations.validation import storable
from celery_pecker.schedules.engine.model import Delivery, Misfire, RunMode
from celery_pecker.schedules.stored.checks import (
    check_by,
    check_name,
    check_version,
    refuse,
)
from celery_pecker.schedules.stored.definition import Validator
from celery_pecker.schedules.stored.edit_plan import Edit
from celery_pecker.schedules.stored.edits import Edits, Outcomes
from celery_pecker.schedules.stored.model import Changes, Definition, Rows, ScheduleRow
from celery_pecker.schedules.stored.timings import Timings, next_runs

Seconds = float | timedelta
Instant = datetime | str
Instants = list[datetime]


class Schedules(PerApp):
    """Adds, changes, removes and shows the stored schedules of an app.

    ::

        schedules = Schedules(app)
        schedules.set("report", task="proj.report", schedule={"every": 3600})

    Every scheduler of the app follows an edit within a second. Nothing is asked of any
    server until something is called.

    Args:
        app: the Celery app whose schedulers run them.

    With ``connection=`` an edit is part of the caller's own transaction: of psycopg,
    SQLAlchemy or Django. It counts from the instant at which it is made, and takes
    effect with the commit; after a rollback there never was one.
    """

    role = "schedules"

    def __init__(self, app: Celery) -> None:
        super().__init__(app)

    @property
    def allow_list(self) -> Sequence[str] | None:
        """Names and patterns of the tasks that may be run; None: all."""
        return self.settings.allowed_tasks

    def allowed(self, task: str) -> bool:
        """Return whether a stored schedule may run the task."""
        return self._validator.allowed(task)

    def names_of_code(self) -> set[str]:
        """Return the names that this app's ``beat_schedule`` declares."""
        return {*self._validator.code()}

    def set(  # noqa: PLR0913  # all options of a schedule
        self,
        name: str,
        *,
        task: str,
        schedule: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        timeout: Seconds | None = None,
        run: RunMode | str | None = None,
        delivery: Delivery | str | None = None,
        misfire: Misfire | str | None = None,
        grace: Seconds | None = None,
        catch_up: int | None = None,
        start: Instant | None = None,
        end: Instant | None = None,
        once: bool = False,
        paused: bool | None = None,
        version: int | None = None,
        by: str | None = None,
        connection: Any = None,
    ) -> ScheduleRow:
        """Create a stored schedule, or replace its definition; return its row.

        Args:
            name: of the entry; no code may declare it.
            task: the name of the task.
            schedule: seconds, a timedelta, crontab, solar, cron, recurrence, rrule,
                jitter, splay, or JSON as ``{"cron": "0 4 * * *"}``.
            args: positional arguments of the task, as JSON can hold them.
            kwargs: its other arguments.
            options: of ``apply_async``: queue, priority, headers …
            timeout: seconds that a run may take from its slot on.
            run: ``"dispatch"`` or ``"local"``.
            delivery: ``"at_most_once"`` or ``"at_least_once"``.
            misfire: ``"skip"``, ``"coalesce"`` or ``"catch_up"``.
            grace: seconds after which a slot that was missed is not run.
            catch_up: how many missed slots are run at most.
            start: no run lies before it; naive: local time of the app's zone.
            end: no run lies after it.
            once: only the first run after the edit.
            paused: whether slots pass without a run. None: as it is.
            version: that the edit is for; 0: there must be none. None: whichever.
            by: the user, for the history; default the database's user.
            connection: whose open transaction it joins. None: it is committed at once.

        Raises:
            InvalidField: one of it is not allowed; nothing was written.
            VersionConflict: the schedule has another version; nothing was written.
        """
        policies = (timeout, delivery, misfire, grace, catch_up)
        wanted = self.check(
            name,
            task=task,
            schedule=schedule,
            args=args,
            kwargs=kwargs,
            options=options,
            policies=dict(zip(STORED, policies, strict=True)),
            run=run,
            start=start,
            end=end,
            once=once,
        )
        edit = self._validator.edit(name, version, by, paused)
        return self._set(wanted, edit, connection)

    aset = awaited(set)  # noqa: A003  # the method above

    def set_many(
        self,
        schedules: Iterable[Mapping[str, Any]],
        *,
        by: str | None = None,
        connection: Any = None,
    ) -> Rows:
        """Create or replace up to 1,000 stored schedules, all or none.

        A few statements and one commit for all of them, for hundreds of
        edits a second. Slots of all wait for that commit. Return their rows, in order.

        Args:
            schedules: the arguments of `set`, ``name`` with them, of each.
            by: the user, for edits that name none.
            connection: whose open transaction they join. None: they commit at once.

        Raises:
            InvalidField: one of them is not allowed; nothing was written.
            VersionConflict: one has another version; nothing was written.
        """
        edits = self._validator.several(schedules, by)
        rows = self._calls.run(
            lambda _: self._edits.set(edits), connection, several=True
        )
        return _rows(rows)

    def set_each(
        self,
        schedules: Iterable[Mapping[str, Any]],
        *,
        by: str | None = None,
        connection: Any = None,
    ) -> Outcomes:
        """Do as `set_many`, for those of the schedules that are not refused.

        Return in order the row of each, or the error for which the tables refuse it:
        code declares the name, it would never run, or it has another version.

        Raises:
            InvalidField: one of them is not allowed; nothing was written.
        """
        edits = self._validator.several(schedules, by)
        return self._calls.run(
            lambda _: self._edits.set(edits, each=True), connection, several=True
        )

    aset_many = awaited(set_many)

    def once(
        self, task: str, *, at: Instant, name: str | None = None, **fields: Any
    ) -> ScheduleRow:
        """Store one run of a task; return its row.

        Args:
            task: the name of the task.
            at: when; up to a minute ago is now.
            name: of the entry; default a new one.
            fields: as of `set`: args, kwargs, options, the policies, version, by,
                connection.

        Raises:
            InvalidField: one of it is not allowed; nothing was written.
            VersionConflict: the schedule has another version; nothing was written.
        """
        instant = self._validator.instant("at", at)
        if instant is None:
            refuse("at", at, "a datetime, or its text, as '2026-11-23 10:00'")
        fields |= {"task": task, "schedule": {"once": instant.isoformat()}}
        return self.set(name or f"{task} once {new_tag()}", **fields)

    aonce = awaited(once)

    def get(self, name: str, *, connection: Any = None) -> ScheduleRow | None:
        """Return a stored schedule; None if there is none, or it was removed."""
        check_name(name)
        return self._calls.run(lambda _: self._edits.get(name), connection)

    aget = awaited(get)

    def list(
        self,
        *,
        search: str | None = None,
        task: str | None = None,
        after: str | None = None,
        names: Sequence[str] | None = None,
        limit: int = 100,
        connection: Any = None,
    ) -> Rows:
        """Return stored schedules by name.

        Args:
            search: part of the name or of the task's; capitals count as small letters.
            task: of this task only.
            after: with names after this one, for the next page.
            names: of these names only.
            limit: how many at most, up to 1,000.
            connection: whose open transaction it is read in. None: one of ours.
        """
        for field, value in (("search", search), ("task", task), ("after", after)):
            if value is not None and not storable(value):
                refuse(field, value, "a text of 1 to 1000 bytes of UTF-8 without NUL")
        wanted = None if names is None else [*filter(storable, names)]
        return self._calls.run(
            lambda _: self._edits.list(
                search=search, task=task, after=after, names=wanted, limit=limit
            ),
            connection,
        )

    alist = awaited(list)  # noqa: A003  # the method above

    def remove(
        self,
        name: str,
        *,
        version: int | None = None,
        by: str | None = None,
        connection: Any = None,
    ) -> bool:
        """Remove a stored schedule; say whether there was one.

        A name that comes back within a day does not repeat what ran before.

        Raises:
            VersionConflict: the schedule has another version; nothing was written.
        """
        check_name(name)
        edit = Edit(version=check_version(version), by=check_by(by))
        return self._calls.run(
            lambda _: self._edits.remove(name, edit), connection, several=True
        )

    aremove = awaited(remove)

    def rename(
        self,
        name: str,
        to: str,
        *,
        version: int | None = None,
        by: str | None = None,
        connection: Any = None,
    ) -> ScheduleRow:
        """Give a stored schedule another name; return its row.

        Last slot, pause, history and what is asked of it go with it: its slots come as
        they would have come, each once. An `at_most_once` one that waits for a broker
        that is away is missed.

        Args:
            name: that it has.
            to: the name that it gets; no other schedule and no code may have it.
            version: that the edit is for. None: whichever.
            by: the user, for the history; default the database's user.
            connection: whose open transaction it joins. None: it is committed at once.

        Raises:
            InvalidField: the new name is not allowed, or taken.
            SlotUnderway: one of its slots is on its way to the broker: try once more.
            UnknownSchedule: none is stored under the name.
            VersionConflict: the schedule has another version; nothing was written.
        """
        check_name(name)
        if check_name(to) == name:
            refuse("name", to, "another name than it has")
        edit = self._validator.edit(to, version, by)
        return self._calls.run(
            lambda _: self._edits.rename(name, to, edit), connection, several=True
        )

    arename = awaited(rename)

    def change(self, old: str, *, connection: Any = None, **fields: Any) -> ScheduleRow:
        """Do as `set`, for a form in which the name may be another; return the row.

        One edit, in one transaction: `rename`, and `set` of what differs beside.

        Args:
            old: the name that it has.
            connection: whose open transaction it joins. None: it is committed at once.
            fields: the arguments of `set`, ``name`` with them.

        Raises:
            InvalidField, VersionConflict: as `set`; nothing was written.
            SlotUnderway, UnknownSchedule: as `rename`; nothing was written.
        """
        if check_name(fields.get("name")) == old:
            return self.set(connection=connection, **fields)
        check_name(old)
        wanted, edit = self._validator.one(fields)
        return self._calls.run(
            lambda _: self._edits.change(old, wanted, edit), connection, several=True
        )

    achange = awaited(change)

    def pause(
        self, name: str, *, by: str | None = None, connection: Any = None
    ) -> bool:
        """Let the slots of an entry, also of code, pass; say whether that is new.

        Raises:
            UnknownSchedule: there is no such entry.
        """
        return self._pause(name, True, by, connection)

    apause = awaited(pause)

    def resume(
        self, name: str, *, by: str | None = None, connection: Any = None
    ) -> bool:
        """Let the slots of an entry run, from the next one on; say whether that is new.

        Raises:
            UnknownSchedule: there is no such entry.
        """
        return self._pause(name, False, by, connection)

    aresume = awaited(resume)

    def history(
        self, name: str, *, limit: int = 100, connection: Any = None
    ) -> Changes:
        """Return the last changes of a name, newest first; 100 are kept."""
        check_name(name)
        return self._calls.run(lambda _: self._edits.history(name, limit), connection)

    ahistory = awaited(history)

    def next_runs(
        self,
        schedule: Any,
        *,
        start: Instant | None = None,
        end: Instant | None = None,
        once: bool = False,
        name: str = "preview",
        count: int = 5,
    ) -> Instants:
        """Return the next runs that a schedule would have, by this machine's clock.

        Raises:
            InvalidField: it is not allowed.
        """
        wanted = self.draft(schedule, start=start, end=end, once=once, name=name)
        entry = self.timings.entry(wanted)
        return next_runs(entry, to_us(SYSTEM.now()), 1 if wanted.once else count)

    def draft(self, schedule: Any, *, name: str = "preview", **when: Any) -> Definition:
        """Return a checked definition without a task, to be shown and not stored."""
        validator = Validator(self.app, self.timings, None)
        return validator.check(
            name, task="preview", schedule=schedule, policies={}, **when
        )

    def check(
        self,
        name: str,
        *,
        task: str,
        schedule: Any,
        policies: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Definition:
        """Return a checked definition: what `set` checks before it asks a server.

        Args:
            name: of the entry.
            task: the name of the task.
            schedule: as of `set`.
            policies: timeout, delivery, misfire, grace and catch_up, by name.
            fields: args, kwargs, options, run, start, end, once, as of `set`.

        Raises:
            InvalidField: one field is wrong.
        """
        return self._validator.check(
            name, task=task, schedule=schedule, policies=policies or {}, **fields
        )

    @cached_property
    def timings(self) -> Timings:
        """What reads rows into entries."""
        return Timings(self.app)

    def _set(self, wanted: Definition, edit: Edit, connection: Any) -> ScheduleRow:
        edits = self._edits

        def at_once_or_whole(_: object) -> Flow[ScheduleRow]:
            row = yield from edits.set_at_once(wanted, edit)
            return row or _rows((yield from edits.set([(wanted, edit)])))[0]

        if connection is not None:
            return self._calls.run(at_once_or_whole, connection)
        row = self._calls.run(lambda _: edits.set_at_once(wanted, edit), None)
        if row is not None:
            return row
        whole = self._calls.run(
            lambda _: edits.set([(wanted, edit)]), None, several=True
        )
        return _rows(whole)[0]

    def _pause(self, name: str, paused: bool, by: str | None, connection: Any) -> bool:
        check_name(name)
        by = check_by(by)
        return self._calls.run(
            lambda _: self._edits.pause(name, paused=paused, by=by),
            connection,
            several=True,
        )

    @cached_property
    def _validator(self) -> Validator:
        return Validator(self.app, self.timings, self.allow_list)

    @cached_property
    def _edits(self) -> Edits:
        settings = self.settings
        return Edits(settings.schema, app_name=settings.app, timings=self.timings)


def _rows(outcomes: Outcomes) -> Rows:
    """Return what was written, where a refusal was raised."""
    return cast("Rows", outcomes)

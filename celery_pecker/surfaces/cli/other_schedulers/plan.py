"""What becomes of each schedule of another scheduler, beside what is stored here."""

from collections.abc import Callable, Collection
from typing import Any

from celery_pecker.kernel.errors import PeckerError
from celery_pecker.schedules.stored.model import ScheduleRow
from celery_pecker.surfaces.cli.other_schedulers.values import ForeignSchedule

COMPARED = (
    *("task", "schedule", "args", "kwargs", "options"),
    *("start", "end", "once"),
)
VERDICTS = ("new", "changed", "same", "code", "refused")


def judge(
    one: ForeignSchedule,
    row: ScheduleRow | None,
    *,
    code: Collection[str],
    check: Callable[..., Any],
    own_us: int | None,
    now_us: int,
) -> None:
    """Decide what becomes of a schedule, and whether its last run is imported.

    Policies that people have chosen here stay: the others know none.

    Args:
        one: What the other scheduler stores.
        row: What is stored here under its name.
        code: Names of this app's beat_schedule.
        check: `Schedules.check`.
        own_us: Its last slot here, in microseconds.
        now_us: The database's time.

    """
    if one.name in code:
        one.verdict, one.problem = "code", None
    elif one.problem is None:
        _compare(one, row, check)
    last_us, one.last_us = one.last_us, None
    if last_us is None or one.verdict == "refused":
        return
    if last_us > now_us:
        one.note("its last run is not imported: it lies ahead of now")
    elif one.verdict != "same" or own_us is None or own_us < last_us:
        one.last_us = last_us


def _compare(
    one: ForeignSchedule, row: ScheduleRow | None, check: Callable[..., Any]
) -> None:
    paused = one.fields.pop("paused")
    policies = {} if row is None else row.policies
    if row is not None:
        one.fields["run"] = row.run
        one.version = row.version
    try:
        definition = check(one.name, policies=policies, **one.fields)
    except PeckerError as error:
        one.problem = str(error)
        return
    one.fields |= {**policies, "paused": paused}
    one.changes = changes(definition, paused=paused, row=row)
    one.verdict = "new" if row is None else "changed" if one.changes else "same"


def changes(
    definition: Any, *, paused: bool, row: ScheduleRow | None
) -> dict[str, tuple[Any, Any]]:
    """Return what is stored and what comes, of each field that differs."""
    if row is None:
        return {}
    new = {key: getattr(definition, key) for key in COMPARED} | {"paused": paused}
    old = {key: getattr(row, key) for key in new}
    return {key: (old[key], new[key]) for key in new if old[key] != new[key]}

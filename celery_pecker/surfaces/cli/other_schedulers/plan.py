"""What becomes of each schedule of another scheduler, beside what is stored here."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from celery_pecker.kernel.errors import PeckerError
from celery_pecker.schedules.stored.model import ScheduleRow
from celery_pecker.surfaces.cli.other_schedulers.values import ForeignSchedule

COMPARED = (
    *("task", "schedule", "args", "kwargs", "options"),
    *("start", "end", "once", "paused"),
)
VERDICTS = ("new", "changed", "same", "code", "refused")


@dataclass(slots=True, kw_only=True)
class Step:
    """One schedule, and what is done with it."""

    name: str
    verdict: str
    """new, changed or same; code: this app's beat_schedule has it, and its last run
    alone is imported; refused: it is not imported, `why` says for what reason."""
    changes: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Of each field that differs: what is stored, and what comes."""
    why: str | None = None
    notes: list[str] = field(default_factory=list)
    last_us: int | None = None
    """When it ran last, if that is imported."""
    version: int = 0
    """Of what is stored; 0: nothing is."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Of `Schedules.set`."""

    def note(self, text: str) -> None:
        """Note something that is not imported, or is imported with a change."""
        self.notes.append(text)

    @property
    def writes(self) -> bool:
        """Whether the definition is stored anew."""
        return self.verdict in {"new", "changed"}

    def document(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "why": self.why,
            "changes": {
                key: {"old": old, "new": new}
                for key, (old, new) in self.changes.items()
            },
            "notes": self.notes,
            "last_us": self.last_us,
        }


def plan(
    entries: Iterable[ForeignSchedule],
    stored: Mapping[str, ScheduleRow],
    *,
    code: Collection[str],
    check: Callable[..., Any],
    last: Mapping[str, int],
    now_us: int,
) -> list[Step]:
    """Return what is to be done with each, by name.

    Policies that people have chosen here stay: the others know none.

    Args:
        entries: What the other scheduler stores.
        stored: What is stored here, by name.
        code: Names of this app's beat_schedule.
        check: `Schedules.check`.
        last: The last slot of each entry here, in microseconds.
        now_us: The database's time.

    """
    steps = []
    for one in entries:
        step = _step(one, stored.get(one.name), code=code, check=check)
        _carry(step, one, last.get(one.name), now_us)
        steps.append(step)
    return sorted(steps, key=lambda step: step.name)


def _carry(step: Step, one: ForeignSchedule, own_us: int | None, now_us: int) -> None:
    """Decide whether its last run is imported."""
    if one.last_us is None or step.verdict == "refused":
        return
    if one.last_us > now_us:
        step.note("its last run is not imported: it lies ahead of now")
    elif step.verdict != "same" or own_us is None or own_us < one.last_us:
        step.last_us = one.last_us


def _step(
    one: ForeignSchedule,
    row: ScheduleRow | None,
    *,
    code: Collection[str],
    check: Callable[..., Any],
) -> Step:
    step = Step(name=one.name, verdict="refused", notes=[*one.notes])
    if one.name in code:
        step.verdict = "code"
        return step
    if one.problem is not None:
        step.why = one.problem
        return step
    arguments = {key: value for key, value in one.fields.items() if key != "paused"}
    policies = {} if row is None else row.policies
    if row is not None:
        arguments["run"] = row.run
    try:
        definition = check(one.name, policies=policies, **arguments)
    except PeckerError as error:
        step.why = str(error)
        return step
    step.arguments = {**arguments, **policies, "paused": one.fields["paused"]}
    step.version = 0 if row is None else row.version
    step.changes = changes(definition, paused=one.fields["paused"], row=row)
    step.verdict = "new" if row is None else "changed" if step.changes else "same"
    return step


def changes(
    definition: Any, *, paused: bool, row: ScheduleRow | None
) -> dict[str, tuple[Any, Any]]:
    """Return what is stored and what comes, of each field that differs."""
    if row is None:
        return {}
    new = {
        key: paused if key == "paused" else getattr(definition, key) for key in COMPARED
    }
    return {
        key: (getattr(row, key), new[key])
        for key in COMPARED
        if getattr(row, key) != new[key]
    }

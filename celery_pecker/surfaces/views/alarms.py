"""The view of alarms: what rings, what has recovered lately, where notices go."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from celery_pecker.alarms import operations
from celery_pecker.alarms.overview import AlarmRow, AlarmsOverview, RuleRow, TargetRow
from celery_pecker.kernel.clock import to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.figures import MINUTE_US
from celery_pecker.surfaces.views.model import (
    Act,
    Card,
    Column,
    Each,
    Figure,
    Filter,
    Query,
    Shown,
    Table,
    View,
    of_rows,
)
from celery_pecker.surfaces.views.phrases import count, duration, plural

ROWS = 200
LATE = 120.0
"""Seconds after which a rule that no replica has looked at is in a bad way."""


@dataclass(frozen=True, slots=True)
class AlarmsSummary:
    """The rules, and the targets of their notices."""

    rules: Sequence[RuleRow]
    targets: Sequence[TargetRow]

    @property
    def ringing(self) -> int:
        """Return how many alarms ring."""
        return sum(one.ringing for one in self.rules)

    @property
    def looked(self) -> float | None:
        """Return for how many seconds no replica has looked at the oldest rule."""
        return max((one.looked for one in self.rules), default=None)

    @property
    def failing(self) -> list[TargetRow]:
        """Return the targets that take nothing."""
        return [one for one in self.targets if one.failing_since is not None]


def summary_of(overview: AlarmsOverview) -> AlarmsSummary:
    """Return what stands in the tables now."""
    return AlarmsSummary(overview.rules(), overview.targets())


def read(database: Database, query: Query) -> Shown:
    """Return what rings and has rung, and the targets."""
    overview = AlarmsOverview(database)
    summary, asked = summary_of(overview), ALARMS_TABLE.asked(query)
    behind = query.get("after", "").split("\0")[:2]
    rows = overview.alarms(every=True, limit=ROWS + 1, behind=behind, **asked)
    shown = rows[:ROWS]
    return Shown(
        now_us=to_us(overview.now()),
        summary=summary,
        rows={"alarms": shown, "targets": summary.targets},
        more=len(rows) > ROWS,
        next=shown[-1].key if shown else "",
    )


def _ringing(all_: AlarmsSummary) -> Card:
    by = f"by {plural(len(all_.rules), 'rule')}"
    return Card(count(all_.ringing), by, "danger" if all_.ringing else "success")


def _looked(all_: AlarmsSummary) -> Card:
    note = "or less, by each rule"
    if not all_.rules:
        note = "no rule is looked at: no scheduler runs"
    if all_.looked is None:
        return Card("never", note, "danger")
    late = all_.looked > LATE
    return Card(f"{duration(all_.looked)} ago", note, "danger" if late else "success")


def _waiting(all_: AlarmsSummary) -> Card:
    waiting = count(all_.rules[0].waiting if all_.rules else 0)
    if not all_.failing:
        return Card(waiting, "no target fails")
    failing = plural(len(all_.failing), "target fails", "targets fail")
    return Card(waiting, failing, "warning")


FIGURES = (
    Figure("ringing", "Ringing", _ringing),
    Figure("looked", "Looked at", _looked),
    Figure("waiting", "Waiting notices", _waiting),
)
_of_rules = Each("rules", {"rule": "rule"})
_of_targets = Each("targets", {"target": "target"})
# A rule has a sample with 0 before it rings: an alert sees the first that does.
MEASURES = (
    _of_rules("alarms_ringing", "Ringing alarms", "ringing"),
    _of_rules(
        "alarms_looked_seconds",
        "Since a replica looked by the rule",
        lambda rule, _: max(rule.looked, 0.0),
    ),
    _of_targets(
        "alarm_notices_sent",
        "Notices that the target has taken",
        "sent",
        counter=True,
    ),
    _of_targets(
        "alarm_notices_waiting",
        "Notices that the target does not have yet",
        "waiting",
    ),
    _of_targets(
        "alarm_target_failures",
        "How often in a row the target took nothing",
        "failures",
    ),
)


def _act(
    name: str,
    says: str,
    when: Callable[[AlarmRow], bool],
    open_only: bool = True,
    **more: Any,
) -> Act:
    def call(database: Database, key: str, user: str, typed: str = "") -> None:
        until = None
        if name == "snooze":
            until = operations.until(database, typed)
        operations.change(database, name, key, user, note=typed, until=until)

    states = ("ringing", "pending") if open_only else None
    label = name.replace("-", " ").capitalize()
    return Act(name, label, call, says, when=when, states=states, **more)


ACTS = (
    _act("take", "Taken: {what}.", lambda row: row.taken_by is None, types="Note"),
    _act("give-back", "Given back: {what}.", lambda row: row.taken_by is not None),
    _act(
        "snooze",
        "Snoozed: {what}.",
        lambda row: not row.quiet,
        types="Until (30m, 8h, 2d, or an instant with its offset)",
        usual="1h",
    ),
    _act(
        "mute",
        "Muted until it is unmuted: {what}.",
        lambda row: row.muted_by is None,
        open_only=False,
    ),
    _act(
        "unmute",
        "Sent again, if it rings: {what}.",
        lambda row: bool(row.quiet),
        open_only=False,
    ),
)
AROUND_US = 30 * MINUTE_US
"""What a chart shows of before the alarm began, and of after."""
CHARTED = {"throttle": "limit", "schedules/entry": "entry", "sharding/job": "job"}
"""What the chart of an alarm is of, by the page that the alarm opens."""


def chart(row: AlarmRow) -> str:
    """Return the address of the chart of an alarm at its time, behind Flower's.

    Of an entry or a limit its own, of a job that of its task; what others are about
    shows in the chart of all entries.
    """
    of = CHARTED.get(row.opens.partition("?")[0], "")
    asked = {
        "of": of or "entry",
        "name": row.subject.rpartition(" ")[0] if of == "job" else of and row.subject,
        "since": "1h",
        "until": to_us(row.since) + AROUND_US,
    }
    return "history?" + urlencode(asked)


STATES = {"ringing": "bad", "pending": "asked", "recovered": "done"}
ALARMS_TABLE = Table(
    name="alarms",
    title="Alarms",
    key="key",
    columns=(
        Column("state", "state", "state"),
        Column(
            "subject",
            "subject",
            "name",
            notes=("rule", "severity", "handling"),
            link="opens",
        ),
        Column("detail", "what", "error", width="tablet"),
        Column("since", "since", "instant", width="tablet", link="chart"),
        Column("chart", "chart", value=chart, width="aside"),
        Column("recovered_at", "recovered", "instant", width="tablet"),
        Column("times", "times", "count", width="desk"),
        Column(
            "waiting",
            "not yet at",
            value=lambda row: ", ".join(row.waiting),
            width="desk",
        ),
    ),
    empty="Nothing rings, and nothing has within a day.",
    states=STATES,
    acts=ACTS,
    nouns=("alarm", "alarms"),
    paged="behind",
    filters=(
        Filter("subject", "Search subjects", kind="search"),
        Filter("state", "in any state", kind="choice", choices=(*STATES,)),
        Filter("rule", "Rule", known=of_rows("alarms", "rule")),
    ),
)
TARGETS = Table(
    name="targets",
    title="Targets",
    key="target",
    columns=(
        Column("target", "target", "name"),
        Column("sent", "sent", "count"),
        Column("sent_at", "last", "instant", width="tablet"),
        Column("waiting", "waiting", "count"),
        Column("failing_since", "fails since", "instant", width="tablet"),
        Column("failures", "failures", "count", width="tablet"),
        Column("last_error", "error", "error", width="tablet"),
    ),
    empty="Nothing was sent so far.",
    acts=(
        Act(
            "test",
            "Test",
            operations.test,
            "A trial waits for {what}: a scheduler sends it within seconds.",
        ),
    ),
    nouns=("target", "targets"),
    headed=True,
)
ALARMS = View(
    name="alarms",
    title="Alarms",
    read=read,
    tables=(ALARMS_TABLE, TARGETS),
    figures=FIGURES,
    measures=MEASURES,
)

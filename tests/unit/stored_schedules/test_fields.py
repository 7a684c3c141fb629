"""Fields of a form: texts and arguments mean the same, each error has a field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery

from celery_pecker.kernel.errors import InvalidField
from celery_pecker.schedules import ScheduleRow, Schedules
from celery_pecker.schedules.stored import fields
from celery_pecker.schedules.stored.form_fields import FIELDS
from tests.unit.stored_schedules.documents import DOCUMENTS

NOW = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture
def schedules() -> Schedules:
    """Give schedules whose server is never asked."""
    app = Celery("x", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn="host=x", timezone="Europe/Paris")
    return Schedules(app)


def row_of(document: dict[str, Any], **changed: Any) -> ScheduleRow:
    """Return a row with that schedule."""
    columns: dict[str, Any] = {
        "name": "report",
        "task": "proj.report",
        "args": [1],
        "kwargs": {"two": [3]},
        "options": {"queue": "slow"},
        "schedule": document,
        "words": "",
        "policies": {"timeout": 0.05, "misfire": "catch_up", "catch_up": 3},
        "run": "dispatch",
        "start": NOW,
        "end": NOW.replace(year=2027),
        "once": False,
        "once_at": None,
        "paused": True,
        "version": 4,
        "created_at": NOW,
        "changed_at": NOW,
        "changed_by": "ann",
        "last_slot": None,
        "next_due": None,
        "done": False,
        "declared_by_code": False,
        "problem": None,
        **changed,
    }
    return ScheduleRow(**columns)


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_texts_of_a_row_mean_the_row(
    document: dict[str, Any], schedules: Schedules
) -> None:
    """Each kind of schedule, whatever options it has."""
    bounds = {"start": None, "end": None} if "once" in document else {}
    row = row_of(document, once="once" in document, **bounds)
    found = fields.arguments(fields.texts(row), zone=ZoneInfo("Asia/Tokyo"))
    assert found.pop("version") == 4
    assert found.pop("paused") is True
    policies = {key: found.pop(key) for key in row.policies}
    wanted = schedules.check(found.pop("name"), policies=policies, **found)
    assert wanted.schedule == row.schedule
    assert (wanted.start, wanted.end) == (row.start, row.end)
    assert (wanted.task, wanted.args) == (row.task, row.args)
    assert (wanted.kwargs, wanted.options) == (row.kwargs, row.options)
    assert (wanted.policies, wanted.once) == (row.policies, row.once)


def test_instants_are_local_time_of_the_forms_zone(schedules: Schedules) -> None:
    """Else of the app's."""
    asked = {"name": "x", "task": "t", "kind": "once", "value": "2027-07-01 12:00"}
    zone = schedules.app.timezone
    for more, hour in (({}, 10), ({"zone": "Asia/Tokyo"}, 3)):
        document = fields.arguments({**asked, **more}, zone=zone)["schedule"]
        at = datetime.fromisoformat(document["once"])
        assert at == datetime(2027, 7, 1, hour, tzinfo=UTC)


FINE = {"name": "x", "task": "t", "kind": "every", "value": "60"}


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"name": ""}, "name"),
        ({"task": " "}, "task"),
        ({"kind": "moon"}, "kind"),
        ({"value": ""}, "value"),
        ({"value": "often"}, "value"),
        ({"value": "0.01"}, "value"),
        ({"value": "nan"}, "value"),
        ({"value": "1e999"}, "value"),
        ({"kind": "cron", "value": "61 * * * *"}, "value"),
        ({"kind": "crontab", "value": "* * * * *", "zone": "UTC"}, "zone"),
        ({"kind": "json", "value": "{"}, "value"),
        ({"kind": "json", "value": "[1]"}, "value"),
        ({"kind": "solar", "value": "sunrise"}, "value"),
        ({"kind": "once", "value": "soon"}, "value"),
        ({"zone": "Mars/Base"}, "zone"),
        ({"calendar": "CN"}, "calendar"),
        ({"days": "both"}, "days"),
        ({"jitter": "x"}, "jitter"),
        ({"splay": "x"}, "splay"),
        ({"start": "x"}, "start"),
        ({"end": "2020-01-01", "start": "2021-01-01"}, "end"),
        ({"args": "1"}, "args"),
        ({"kwargs": "[]"}, "kwargs"),
        ({"options": "{"}, "options"),
        ({"timeout": "x"}, "timeout"),
        ({"timeout": "90"}, "timeout"),
        ({"grace": "-1"}, "grace"),
        ({"catch_up": "1.5"}, "catch_up"),
        ({"misfire": "weep"}, "misfire"),
        ({"run": "here"}, "run"),
        ({"delivery": "x"}, "delivery"),
        ({"once": "perhaps"}, "once"),
        ({"version": "-1"}, "version"),
    ],
    ids=str,
)
def test_each_error_has_its_field(
    asked: dict[str, str], field: str, schedules: Schedules
) -> None:
    """Of the form, so that the page shows it beside the field."""
    found = fields.preview(schedules, {**FINE, **asked})
    if field in {"name", "task"}:  # a preview does without
        with pytest.raises(InvalidField) as no:
            fields.arguments({**FINE, **asked})
        assert no.value.field == field
        return
    assert found.field == field
    assert found.problem is not None
    assert "allowed" in found.problem


def test_a_field_that_is_none_is_refused() -> None:
    """A misspelt one would be silently left out."""
    with pytest.raises(InvalidField, match="timeouts is '5'; allowed is a field of"):
        fields.arguments({**FINE, "timeouts": "5"})


def test_a_preview_says_when_and_in_words(schedules: Schedules) -> None:
    """Before anything is stored."""
    asked = {**FINE, "kind": "cron", "value": "0 4 * * mon", "zone": "Europe/Paris"}
    found = fields.preview(schedules, asked, count=3)
    assert found.words == "at 04:00, on Monday, time of Europe/Paris"
    assert [run.astimezone(ZoneInfo("Europe/Paris")).hour for run in found.runs] == [
        *(4, 4, 4),
    ]
    assert found.problem is None


def test_a_preview_checks_the_task(schedules: Schedules) -> None:
    """As storing it would."""
    schedules.app.conf.pecker_allowed_tasks = ["proj.*"]
    assert fields.preview(schedules, FINE).field == "task"
    assert fields.preview(schedules, {**FINE, "task": "proj.x"}).problem is None


def test_every_field_has_a_label_and_errors_of_set_have_a_field() -> None:
    """Forms are made of them."""
    assert len({one.name for one in FIELDS}) == len(FIELDS)
    assert all(one.label for one in FIELDS)
    for field, shown in (("schedule", "value"), ("grace", "grace"), ("by", "name")):
        assert fields.form_field(InvalidField("x", field=field)) == shown

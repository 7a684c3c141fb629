"""Schedules as JSON: one form for each, and every bad one is refused by name."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery
from celery.schedules import BaseSchedule, schedule, solar

from celery_pecker.calendars import cron, jitter, splay
from celery_pecker.kernel.errors import InvalidField
from celery_pecker.outbox.runs.header import HEADER as ROW
from celery_pecker.runs import headers
from celery_pecker.runs.guard import BOUND, MARK
from celery_pecker.schedules import Schedules, tracing
from celery_pecker.schedules.recurrence import described
from celery_pecker.schedules.stored import fields as fields_of
from celery_pecker.schedules.stored import schedule_json
from celery_pecker.schedules.stored.checks import OURS
from celery_sharding.canvas.each_item import ITEM
from celery_sharding.messages import OPTIONS as OPTIONS_OF_CALL
from celery_sharding.messages import RUN, SENT_BY
from celery_sharding.plan.arguments import HEADER as SOURCES
from celery_sharding.stages.leases import LEFT
from tests.unit.stored_schedules.documents import FORMS, PARIS
from throttle.worker.brokers.amqp import SOURCE


@pytest.mark.parametrize(("value", "document"), FORMS, ids=str)
def test_each_schedule_has_one_form(value: Any, document: dict[str, Any]) -> None:
    """JSON to schedule to JSON is the same, and it means the same schedule."""
    assert schedule_json.to_json(value) == document
    assert schedule_json.to_json(document) == document
    if isinstance(value, BaseSchedule) and not isinstance(value, solar):
        back = schedule_json.of_json(document)
        if type(value) is type(back) and type(value) is not schedule:
            assert schedule_json.to_json(back) == schedule_json.to_json(value)


class Moon(BaseSchedule):
    """A schedule of the user's own."""


class Holidays:
    """A calendar of the user's own."""

    def is_working_day(self, day: object) -> bool:
        """Say that people work on a day."""
        return bool(day)


REFUSED: list[tuple[Any, str]] = [
    (None, r"None of NoneType can be in code only; allowed is seconds"),
    (True, r"allowed are seconds"),
    (0.09, r"every 0.09 s; allowed are 0.1 s to ten years"),
    (math.nan, r"allowed are 0.1 s to ten years"),
    (timedelta(days=9999), r"allowed are 0.1 s to ten years"),
    ("30", r"'30' of str can be in code only; allowed is seconds"),
    (Moon(), r"Moon can be in code only"),
    (cron("* * * * *", calendar=Holidays()), r"calendar is .* in code only"),
    (
        cron("* * * * *", zone=timezone(timedelta(hours=1))),
        r"zone is .* in code only; allowed is its name",
    ),
    (splay(jitter(cron("0 4 * * *"), most=5), over=9), r"allowed is jitter\(splay"),
    (
        jitter(splay(cron("0 4 * * *"), over=9, key="a"), most=5, key="b"),
        r"two keys",
    ),
    ({}, r"has no kind; allowed is"),
    ({"zone": "UTC"}, r"has no kind; allowed is"),
    ({"every": 30, "cron": "* * * * *"}, r"\['every', 'cron'\]; allowed is"),
    ({"moon": "full"}, r"has no kind; allowed is .* every, cron, crontab"),
    ({"every": "30"}, r"schedule is '30'; allowed are seconds"),
    ({"every": 30, "zone": "UTC"}, r"every has no option 'zone'; allowed are rel"),
    ({"every": 0.5, "relative": True}, r"allowed with relative is 1 s or more"),
    ({"every": 5, "relative": True, "splay": True}, r"relative is true"),
    ({"cron": "0 4 30 2 *"}, r"allowed is one that comes at all"),
    ({"cron": "61 * * * *"}, r"minute is '61'; allowed"),
    ({"cron": "0 4 * * *", "zone": "Mars/Base"}, r"zone is 'Mars/Base'; allowed"),
    ({"cron": "0 4 * * *", "zone": 7}, r"zone of cron is 7; allowed is a text"),
    ({"cron": "0 4 * * *", "calendar": "XX"}, r"calendar is 'XX'; allowed"),
    ({"cron": "0 4 * * *", "days": ["both"]}, r"days of cron .* is a text"),
    (
        {"cron": "0 4 * * *", "start": "2027-01-01", "end": "2026-01-01"},
        r"end is .*; allowed is an instant after the start",
    ),
    ({"cron": 5}, r"cron is 5; allowed is a text"),
    ({"cron": "0 4 * * *", "splay": True}, r"splay is true; allowed is that of 'eve"),
    ({"cron": "0 4 * * *", "jitter": True}, r"jitter of cron is True; allowed is a n"),
    ({"cron": "0 4 * * *", "jitter": math.nan}, r"most is nan; allowed"),
    ({"cron": "0 4 * * *", "key": "k"}, r"key is 'k'; allowed is one with jitter"),
    ({"crontab": "0 4 31 2 *"}, r"crontab is .*; allowed is one that comes at all"),
    ({"crontab": "0 4 * *"}, r"allowed are five fields"),
    ({"crontab": "0 25 * * *"}, r"hour is '25'; allowed"),
    ({"crontab": "0 4 * * *", "zone": "UTC"}, r"has no option 'zone'; allowed are non"),
    ({"crontab": "0 4 * * *", "jitter": 5}, r"has no option 'jitter'"),
    ({"recurrence": "daily"}, r"recurrence is 'daily'; allowed is an object"),
    ({"recurrence": {"level": "day"}}, r"recurrence has no 'start'"),
    ({"recurrence": {"start": "2026-01-01"}}, r"recurrence has no 'level'"),
    (
        {"recurrence": {"start": "2026-01-01", "level": "day", "every": 0}},
        r"every is 0; allowed is a whole number from 1",
    ),
    (
        {"recurrence": {"start": "2026-01-01", "level": "month", "days": [[1]]}},
        r"days is \[\[1\]\]; allowed is a list",
    ),
    ({"rrule": "FREQ=DAILY"}, r"rrule has no 'start'"),
    ({"rrule": "FREQ=NEVER", "start": "2026-01-01"}, r"FREQ is 'NEVER'; allowed"),
    ({"solar": "noon", "lat": 1, "lon": 1}, r"solar is 'noon'"),
    ({"solar": "sunrise", "lat": 91, "lon": 1}, r"lat is 91; allowed are -90 to 90"),
    ({"solar": "sunrise", "lat": 1}, r"lon is None; allowed are -180 to 180"),
    ({"once": "tomorrow"}, r"once is 'tomorrow'; allowed is an instant as"),
    ({"once": "2026-11-23 10:00"}, r"allowed is an instant as '2026-11-23T10:00:00\+"),
    ({"once": 5}, r"once is 5; allowed is an instant"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=described)
def test_what_is_no_schedule_is_refused(value: Any, message: str) -> None:
    """With its value and what is allowed."""
    with pytest.raises(InvalidField, match=message) as no:
        schedule_json.to_json(value)
    assert no.value.field == "schedule"


FINE: dict[str, Any] = {"task": "t", "schedule": 60}
FIELDS: list[tuple[dict[str, Any], str, str]] = [
    ({"name": ""}, "name", "1 to 1000 bytes"),
    ({"name": "a\0b"}, "name", "without NUL"),
    ({"name": "é" * 600}, "name", "1 to 1000 bytes"),
    ({"name": "\ud800"}, "name", "UTF-8"),
    ({"name": None}, "name", "allowed is a text"),
    ({"task": ""}, "task", "the name of a task"),
    ({"task": 5}, "task", "the name of a task"),
    ({"args": "abc"}, "args", "a list or tuple"),
    ({"args": [object()]}, "args", "what JSON can hold"),
    ({"args": [math.nan]}, "args", "what JSON can hold"),
    ({"args": [{"n": [1e16]}]}, "args", "floats below 1e16"),
    ({"kwargs": {"n": -1e300}}, "kwargs", "floats below 1e16"),
    ({"args": ["\0"]}, "args", "no NUL"),
    ({"args": ["\ud800"]}, "args", "no half of a pair"),
    ({"args": ["x" * 70_000]}, "args", "allowed are 65536"),
    ({"kwargs": [1]}, "kwargs", "a dict"),
    ({"kwargs": {1: 2}}, "kwargs", "keys that are texts"),
    (
        {"kwargs": {"at": datetime(2026, 1, 1, tzinfo=UTC)}},
        "kwargs",
        "what JSON can hold",
    ),
    ({"options": {"pecker": {}}}, "options", "policies are arguments"),
    ({"options": {"headers": 5}}, "options", "a dict under 'headers'"),
    ({"options": {"shadow": "proj.other"}}, "options", "one of queue, exchange"),
    ({"options": {"task_id": "1"}}, "options", "one of queue, exchange"),
    ({"options": {"queue": 5}}, "options", "str under 'queue'"),
    ({"options": {"priority": True}}, "options", "int under 'priority'"),
    ({"options": {"compression": "nope"}}, "options", "one that works"),
    ({"options": {"serializer": "nope"}}, "options", "one that works"),
    ({"options": {"headers": {"shadow": "x"}}}, "options", "Celery does not set"),
    ({"options": {"headers": {"update": 1}}}, "options", "Celery does not set"),
    *(
        ({"options": {"headers": {header: 1}}}, "options", "allowed is none with _")
        for header in (
            *("pecker", "pecker_deadline", "pecker_outbox", "_pecker_guarded"),
            *("sharding", "sharding_sources", "_sharding_item", "traceparent"),
            *("throttle_source", "celery_pecker_x"),
        )
    ),
    (
        {"options": {"link": [{"options": {"headers": {"sharding_run": 2}}}]}},
        "options",
        "allowed is none with _",
    ),
    ({"timeout": 61}, "timeout", "up to the period, 60 s"),
    ({"timeout": -1}, "timeout", "seconds above zero"),
    ({"timeout": "5"}, "timeout", "seconds above zero"),
    ({"run": "here"}, "run", "'dispatch', 'local'"),
    ({"run": "local", "delivery": "at_least_once"}, "delivery", "'at_most_once'"),
    ({"run": "local", "misfire": "catch_up"}, "misfire", "'skip'"),
    ({"delivery": "twice"}, "delivery", "'at_least_once'"),
    ({"misfire": "weep"}, "misfire", "'coalesce'"),
    ({"catch_up": 5}, "catch_up", "'catch_up' only"),
    ({"misfire": "catch_up", "catch_up": 0}, "catch_up", "1 to 1000"),
    ({"grace": [1]}, "grace", "seconds above zero"),
    ({"start": "soon"}, "start", "a datetime of 1970 to 8999"),
    ({"start": datetime(1, 1, 1, tzinfo=PARIS)}, "start", "a datetime of 1970"),
    ({"end": 5}, "end", "a datetime of 1970 to 8999"),
    ({"start": "2027-01-01", "end": "2026-01-01"}, "end", "none before the start"),
    ({"once": 1}, "once", "True or False"),
    (
        {"schedule": {"once": "2027-01-01T00:00:00Z"}, "end": "2028-01-01"},
        "end",
        "none beside a schedule 'once'",
    ),
    (
        {"schedule": {"once": "9999-01-01T00:00:00Z"}},
        "schedule",
        "a datetime of 1970 to 8999",
    ),
    ({"version": -1}, "version", "a whole number from 0"),
    ({"version": True}, "version", "a whole number from 0"),
    ({"by": ""}, "by", "1 to 200 characters"),
    ({"by": "x" * 201}, "by", "1 to 200 characters"),
    ({"paused": "yes"}, "paused", "True, False or None"),
]


@pytest.mark.parametrize(("fields", "field", "allowed"), FIELDS, ids=described)
def test_every_other_field_is_refused_by_name(
    fields: dict[str, Any], field: str, allowed: str
) -> None:
    """Before any server is asked: nobody answers at this address."""
    app = Celery("x", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn="host=127.0.0.1 port=1")
    wanted = {"name": "report", **FINE, **fields}
    with pytest.raises(InvalidField, match=field) as no:
        Schedules(app).set(wanted.pop("name"), **wanted)
    assert no.value.field == field
    assert allowed in str(no.value)
    assert len(str(no.value)) < 1_000


def test_naive_instants_are_local_time_of_the_app() -> None:
    """As those of its crontabs."""
    app = Celery("x", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn="host=x", timezone="Europe/Paris")
    wanted = Schedules(app).check("x", **FINE, start="2026-07-01 12:00")
    assert wanted.start == datetime(2026, 7, 1, 10, tzinfo=UTC)


def test_next_runs_need_no_server() -> None:
    """For previews: by this machine's clock, within start and end."""
    app = Celery("x", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn="host=x", pecker_allowed_tasks=["none"])
    schedules = Schedules(app)
    start = datetime(2999, 1, 1, 12, tzinfo=UTC)
    day = timedelta(days=1)
    cron_runs = schedules.next_runs(
        {"cron": "0 12 * * *"}, start=start, end=start + 2 * day
    )
    assert cron_runs == [start, start + day, start + 2 * day]
    assert schedules.next_runs(60, start=start, count=2) == [
        *(start, start + timedelta(minutes=1)),
    ]
    assert schedules.next_runs(60, start=start, once=True) == [start]
    first, second = schedules.next_runs(60, count=2)
    assert second - first == timedelta(minutes=1)
    with pytest.raises(InvalidField):
        schedules.next_runs({"cron": "x"})


OTHER = {"task": "evil", "args": [], "kwargs": {}, "options": {}}


@pytest.mark.parametrize(
    "options",
    [
        *({key: OTHER} for key in ("link", "link_error", "chord")),
        {"chain": [OTHER]},
        {"headers": {"task": "evil"}},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_do_not_get_round_the_allow_list(options: dict[str, Any]) -> None:
    """Each of them lets a worker run a task that nobody allowed."""
    app = Celery("x", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn="host=x", pecker_allowed_tasks=["proj.*"])
    fields: dict[str, Any] = {"task": "proj.a", "schedule": 60, "options": options}
    with pytest.raises(InvalidField, match="pecker_allowed_tasks") as no:
        Schedules(app).check("a", **fields)
    assert no.value.field == "options"
    app.conf.pecker_allowed_tasks = None
    assert Schedules(app).check("a", **fields).options == options


def test_named_options_and_headers_of_users_are_stored() -> None:
    """What people need of a message is not in the way of what it may not say."""
    app = Celery("x", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn="host=x", pecker_allowed_tasks=["t"])
    options = {
        "queue": "slow",
        "exchange": "x",
        "routing_key": "r",
        "priority": 3,
        "expires": 60,
        "countdown": 5,
        "time_limit": 9.5,
        "ignore_result": True,
        "serializer": "json",
        "compression": "zlib",
        "retry": None,
        "headers": {"tenant": "acme", "periodic_task_name": "report"},
    }
    assert Schedules(app).check("x", **FINE, options=options).options == options


def test_each_header_that_our_packages_read_is_refused() -> None:
    """Whatever a module names as a header, or as a mark on a request."""
    named = (
        *(headers.PECKER, headers.DEADLINE, ROW, tracing.KEY, MARK, BOUND),
        *(SENT_BY, OPTIONS_OF_CALL, RUN, SOURCES, LEFT, ITEM, SOURCE),
    )
    assert [name for name in named if not name.startswith(OURS)] == []


def test_what_is_nested_too_deep_is_refused() -> None:
    """Python's own limit is an error of the field, not a crash of the page."""
    app = Celery("x", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn="host=x")
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(InvalidField) as no:
        Schedules(app).check("a", task="t", schedule=60, args=deep)
    assert no.value.field == "args"
    text = "[" * 100_000 + "]" * 100_000
    with pytest.raises(InvalidField):
        fields_of.arguments(
            {"name": "a", "task": "t", "kind": "every", "value": "60", "args": text}
        )

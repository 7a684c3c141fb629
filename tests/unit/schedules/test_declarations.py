"""What an app's ``beat_schedule`` becomes, and what is refused of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab, schedule, solar

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.schedules.declarations.beat_schedule import PeckerEntry
from celery_pecker.schedules.declarations.reading import entries
from celery_pecker.schedules.declarations.task_entries import (
    record_duplicates,
    refuse_duplicates,
)
from celery_pecker.schedules.declarations.validation import check_beat_schedule
from celery_pecker.schedules.engine.model import (
    Delivery,
    Entry,
    Misfire,
    Policy,
    RunMode,
)

SECOND = 1_000_000
NAN, INF = float("nan"), float("inf")


class Unnamed(schedule):
    """A subclass that changes nothing."""


class Own(schedule):
    """A user's schedule, to which ``run_every`` means nothing."""

    def __init__(self) -> None:
        super().__init__(timedelta(0))

    def is_due(self, last_run_at: object) -> Any:
        """Never due."""
        return False, 60


class Duck:
    """No subclass at all: `is_due` is all that beat asks for."""

    app: object = None
    nowfun: object = None

    def now(self) -> Any:
        """Beat asks."""

    def is_due(self, last_run_at: object) -> Any:
        """Never due."""
        return False, 60


def read(beat_schedule: Any, **conf: object) -> list[Entry]:
    """Return the entries as beat would build them."""
    app = Celery("test", set_as_current=False)
    app.conf.update(conf)
    check_beat_schedule(beat_schedule)
    declared = {
        name: PeckerEntry(**dict(given, name=name, app=app))
        for name, given in beat_schedule.items()
    }
    return entries(declared, app, conf=app.conf)


def one(
    every: object = 1.0, conf: dict[str, Any] | None = None, **pecker: Any
) -> Entry:
    """Return an entry with that schedule and these policies."""
    given = {"task": "t", "schedule": every, "pecker": pecker}
    [found] = read({"sweep": given}, **(conf or {}))
    return found


def refused(beat_schedule: Any, **conf: object) -> str:
    """Return what the refusal says."""
    with pytest.raises(Misconfigured) as caught:
        read(beat_schedule, **conf)
    return str(caught.value)


def refused_policy(every: object = 10.0, **pecker: Any) -> str:
    """Return what the refusal of a policy says."""
    return refused({"sweep": {"task": "t", "schedule": every, "pecker": pecker}})


# Defaults


@pytest.mark.parametrize(
    ("every", "delivery"),
    [
        (1.0, Delivery.AT_MOST_ONCE),
        (59.999, Delivery.AT_MOST_ONCE),
        (60, Delivery.AT_LEAST_ONCE),
        (timedelta(days=1), Delivery.AT_LEAST_ONCE),
        (schedule(timedelta(days=1), relative=True), Delivery.AT_LEAST_ONCE),
        (schedule(timedelta(seconds=5), relative=True), Delivery.AT_MOST_ONCE),
        (Unnamed(timedelta(days=1)), Delivery.AT_LEAST_ONCE),
        (crontab(), Delivery.AT_LEAST_ONCE),
        (solar("sunset", 48, 2), Delivery.AT_LEAST_ONCE),
        (Own(), Delivery.AT_MOST_ONCE),
        (Duck(), Delivery.AT_MOST_ONCE),
    ],
)
def test_from_a_minute_up_a_lost_slot_is_sent_again(
    every: object, delivery: Delivery
) -> None:
    """Below, the next slot comes sooner than a second write is worth."""
    assert one(every).policy.delivery is delivery


def test_without_policies_an_entry_is_what_it_is_in_beat() -> None:
    """No timeout, no grace; missed slots coalesce."""
    expected = Policy(delivery=Delivery.AT_MOST_ONCE, misfire=Misfire.COALESCE)
    given: Any
    for given in (None, {}):
        [found] = read({"sweep": {"task": "t", "schedule": 1, "pecker": given}})
        assert found.policy == expected
        assert (found.name, found.task, found.period_us) == ("sweep", "t", SECOND)


def test_policies_are_taken_as_given() -> None:
    """Names or members, seconds or timedeltas."""
    assert one(
        120,
        timeout=timedelta(minutes=1),
        delivery=Delivery.AT_MOST_ONCE,
        misfire="catch_up",
        grace=2.5,
        catch_up=7,
    ).policy == Policy(
        delivery=Delivery.AT_MOST_ONCE,
        misfire=Misfire.CATCH_UP,
        timeout_us=60 * SECOND,
        grace_us=2_500_000,
        depth=7,
    )
    assert one(misfire="catch_up").policy.depth == 10
    assert one(misfire="skip").policy.grace_us == SECOND
    assert one(600, misfire="skip").policy.grace_us == 60 * SECOND
    relative = schedule(timedelta(seconds=600), relative=True)
    assert one(relative, misfire="skip").policy.grace_us == 60 * SECOND


def test_policies_travel_as_an_option_of_add_periodic_task() -> None:
    """And are taken out of the message's options."""
    entry = PeckerEntry(
        name="n",
        task="t",
        schedule=1.0,
        options={"queue": "q", "pecker": {"timeout": 0.5}},
        app=Celery("test", set_as_current=False),
    )
    assert entry.options == {"queue": "q"}
    assert entry.pecker == {"timeout": 0.5}
    later: Any = next(entry)
    assert later.pecker == {"timeout": 0.5}


def test_beat_cron_starting_deadline_is_the_grace_of_crontabs() -> None:
    """As in beat; other schedules and an entry's own grace are left alone."""
    conf = {"beat_cron_starting_deadline": 90}
    assert one(crontab(), conf).policy.grace_us == 90 * SECOND
    assert one(crontab(), conf, grace=5).policy.grace_us == 5 * SECOND
    assert one(1.0, conf).policy.grace_us is None
    said = refused(
        {"n": {"task": "t", "schedule": crontab()}}, beat_cron_starting_deadline="1h"
    )
    assert "beat_cron_starting_deadline is '1h'" in said
    assert "seconds above zero" in said


# Refusals: of schedules


@pytest.mark.parametrize(
    ("every", "value"),
    [
        (0, "0 s"),
        (-5.0, "-5 s"),
        (0.05, "0.05 s"),
        (NAN, "nan s"),
        (INF, "inf s"),
        (-INF, "-inf s"),
        (1e12, "1e+12 s"),
        (timedelta(0), "0 s"),
        (timedelta(seconds=-5), "-5 s"),
        (timedelta(milliseconds=50), "0.05 s"),
        (schedule(timedelta(0)), "0 s"),
        (schedule(timedelta(milliseconds=50), relative=True), "0.05 s"),
        (Unnamed(timedelta(0)), "0 s"),
    ],
)
def test_a_period_that_is_too_short_or_none_is_refused(
    every: object, value: str
) -> None:
    """Celery takes zero and below for "always due", and NaN for a crash."""
    said = refused({"sweep": {"task": "t", "schedule": every}})
    assert said == (
        f"beat_schedule['sweep']: schedule is every {value}; allowed are 0.1 s to"
        " ten years"
    )


def test_a_tenth_of_a_second_is_allowed() -> None:
    """And classes for which `run_every` means nothing may have any."""
    assert one(0.1).period_us == 100_000
    assert one(Own()).recurrence is not None
    assert one(Duck()).recurrence is not None


@pytest.mark.parametrize("every", ["10", "* * * * *", True, [1], {"every": 1}, object])
def test_what_is_no_schedule_is_refused(every: object) -> None:
    """Also True, which Python counts as one second."""
    said = refused({"sweep": {"task": "t", "schedule": every}})
    assert said.startswith(
        f"beat_schedule['sweep']: schedule is {every!r}; allowed are"
    )
    assert "crontab" in said


# Refusals: of entries


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"schedule": 1.0}, ["beat_schedule['sweep']", "no 'task'"]),
        ({"task": "", "schedule": 1.0}, ["no 'task'"]),
        ({"task": "t"}, ["no 'schedule'"]),
        ({"task": "t", "schedule": None}, ["no 'schedule'"]),
        ({"task": 5, "schedule": 1.0}, ["['task'] is 5", "name of a task"]),
        ({"task": "t", "schedule": 1, "args": 5}, ["['args'] is 5", "list or tuple"]),
        ({"task": "t", "schedule": 1, "kwargs": [1]}, ["['kwargs'] is [1]", "a dict"]),
        ({"task": "t", "schedule": 1, "options": "q"}, ["['options'] is 'q'", "dict"]),
        ({"task": "t", "schedule": 1, "option": {}}, ["no key 'option'", "options"]),
        ("t", ["beat_schedule['sweep'] is 't'", "a dict of task, schedule"]),
        (None, ["beat_schedule['sweep'] is None", "a dict"]),
    ],
)
def test_a_malformed_entry_is_refused_by_name(given: object, words: list[str]) -> None:
    """What is wrong, what it is, what is allowed."""
    said = refused({"sweep": given})
    assert not [word for word in words if word not in said], said


@pytest.mark.parametrize("name", ["", 5, None, "a\0b"])
def test_a_name_that_no_row_can_have_is_refused(name: object) -> None:
    """The name is the row's key."""
    assert "the name must be" in refused({name: {"task": "t", "schedule": 1}})


@pytest.mark.parametrize("given", [None, [], "all", 5])
def test_a_schedule_that_is_no_dict_is_refused(given: object) -> None:
    """Named as the setting that it is."""
    assert refused(given).startswith(f"beat_schedule is {given!r}; allowed is a dict")


# Refusals: of policies


@pytest.mark.parametrize("key", ["timeout", "grace"])
@pytest.mark.parametrize(
    "value", [0, -1, NAN, INF, True, "5", 1e-9, 1e12, timedelta(0), [1]]
)
def test_a_length_of_time_that_is_none_is_refused(key: str, value: object) -> None:
    """Zero would mean "never runs", and infinity is no number of microseconds."""
    assert refused_policy(crontab(), **{key: value}) == (
        f"beat_schedule['sweep']['pecker'][{key!r}] is {value!r}; allowed are seconds"
        " above zero, up to ten years"
    )


@pytest.mark.parametrize(
    "every",
    [
        10.0,
        schedule(timedelta(seconds=10), relative=True),
        Unnamed(timedelta(seconds=10)),
    ],
)
def test_a_timeout_beyond_the_period_is_refused(every: object) -> None:
    """Two runs would overlap."""
    assert one(every, timeout=10).policy.timeout_us == 10 * SECOND
    said = refused_policy(every, timeout=10.5)
    assert "['timeout'] is 10.5 s" in said
    assert "up to the period, 10 s" in said


@pytest.mark.parametrize(
    ("pecker", "words"),
    [
        ({"retries": 3}, ["'retries'", "timeout", "delivery", "misfire", "grace"]),
        ({"delivery": "once"}, ["'once'", "'at_most_once'", "'at_least_once'"]),
        ({"delivery": None}, ["['delivery'] is None", "'at_most_once'"]),
        ({"misfire": "later"}, ["'later'", "'skip'", "'coalesce'", "'catch_up'"]),
        ({"misfire": ["skip"]}, ["['skip']", "'coalesce'"]),
        ({"catch_up": 3}, ["['catch_up']", "'misfire': 'catch_up'"]),
        ({"misfire": "catch_up", "catch_up": 0}, ["is 0", "1 to 1000"]),
        ({"misfire": "catch_up", "catch_up": 1001}, ["is 1001", "1 to 1000"]),
        ({"misfire": "catch_up", "catch_up": True}, ["is True", "1 to 1000"]),
        ({"misfire": "catch_up", "catch_up": 2.5}, ["is 2.5", "1 to 1000"]),
    ],
)
def test_a_wrong_policy_is_refused_with_what_is_allowed(
    pecker: dict[str, Any], words: list[str]
) -> None:
    """Entry, key, value, and the choice."""
    said = refused_policy(**pecker)
    assert said.startswith("beat_schedule['sweep']['pecker']")
    assert not [word for word in words if word not in said], said


@pytest.mark.parametrize("given", ["skip", 5, ["timeout"]])
def test_policies_that_are_no_dict_are_refused(given: object) -> None:
    """Under the key at which they stand."""
    said = refused({"sweep": {"task": "t", "schedule": 1, "pecker": given}})
    assert said.startswith(f"beat_schedule['sweep']['pecker'] is {given!r}")


def test_entries_that_celery_made_are_taken() -> None:
    """A ``ScheduleEntry`` in ``beat_schedule`` is merged by beat, and so by us."""
    entry = PeckerEntry(
        name="n", task="t", schedule=2.0, app=Celery("test", set_as_current=False)
    )
    [found] = read({"n": entry})
    assert found.period_us == 2 * SECOND


def test_every_schedule_of_celery_is_described_for_people() -> None:
    """The cold table shows what the entry says."""
    assert one(30).described == "<freq: 30.00 seconds>"
    assert "crontab: 0 4 * * *" in one(crontab("0", "4")).described


# Two entries of one name


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Celery:
    """Give an app whose periodic tasks are watched, as on the command line."""
    klass: Any = Celery
    monkeypatch.setattr(klass, "_add_periodic_task", klass._add_periodic_task)
    record_duplicates()
    record_duplicates()
    app = Celery("test", set_as_current=False)
    app.conf.update(
        beat_schedule={"set": {"task": "t", "schedule": timedelta(5), "args": [1]}}
    )
    return app


def every(app: Celery, given: Any, name: str = "n", **more: Any) -> None:
    """Declare a periodic task."""
    task: Any = app.signature("t", args=more.pop("args", ()))
    app.add_periodic_task(given, task, name=name, **more)
    assert name in app.conf.beat_schedule


ALIKE: list[tuple[object, object]] = [
    (30, 30.0),
    (30, timedelta(seconds=30)),
    (crontab(minute=5), crontab(minute=5)),
    (solar("sunset", 48, 2), solar("sunset", 48, 2)),
    (Own(), Own()),
    (schedule(9.0), schedule(9.0)),
]
DIFFERENT: list[tuple[object, object]] = [
    (30.001, 30.002),
    (30, crontab()),
    (crontab(minute=5), crontab(minute=6)),
    (solar("sunset", 48, 2), solar("sunset", 48, 3)),
    (schedule(9.0), schedule(9.0, relative=True)),
    (schedule(9.0), Unnamed(9.0)),
    (Unnamed(8.0), Unnamed(9.0)),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_an_entry_may_be_declared_again(
    watched: Celery, one: object, other: object
) -> None:
    """A module imported twice is no mistake."""
    every(watched, one)
    every(watched, other)
    every(watched, timedelta(5), "set", args=(1,))
    refuse_duplicates(watched)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_schedule_under_one_name_is_refused(
    watched: Celery, one: object, other: object
) -> None:
    """By value: what Celery rounds in its words may differ."""
    every(watched, one)
    every(watched, other)
    with pytest.raises(Misconfigured, match="two different entries named 'n'"):
        refuse_duplicates(watched)


@pytest.mark.parametrize(
    "more", [{"args": (2,)}, {"queue": "q"}, {"pecker": {"timeout": 5}}]
)
def test_another_message_under_one_name_is_refused(
    watched: Celery, more: dict[str, Any]
) -> None:
    """Arguments, options, policies; also against the setting's own entry."""
    every(watched, timedelta(5), "set", **{"args": (1,), **more})
    with pytest.raises(Misconfigured, match="two different entries named 'set'"):
        refuse_duplicates(watched)


def test_a_local_run_has_its_own_defaults() -> None:
    """Time until just before the next slot on a grid; at most once, always."""
    given = {"run": "local"}
    grid, long, seldom, own = read(
        {
            "grid": {"task": "t", "schedule": 1.0, "pecker": given},
            "long": {"task": "t", "schedule": 600.0, "pecker": given},
            "seldom": {"task": "t", "schedule": crontab(), "pecker": given},
            "own": {"task": "t", "schedule": 1.0, "pecker": {**given, "timeout": 0.5}},
        }
    )
    for entry in (grid, long, seldom, own):
        assert entry.policy.run is RunMode.LOCAL
        assert entry.policy.delivery is Delivery.AT_MOST_ONCE
    assert grid.policy.timeout_us == 900_000
    assert long.policy.timeout_us == 540 * SECOND
    assert seldom.policy.timeout_us is None
    assert own.policy.timeout_us == 500_000
    [plain] = read({"x": {"task": "t", "schedule": 1.0}})
    assert plain.policy.run is RunMode.DISPATCH


@pytest.mark.parametrize(
    ("countdown", "known"),
    [
        (90, 90 * SECOND),
        (0.5, SECOND // 2),
        (1e300, 31_536_000 * SECOND),
        (float("nan"), None),
        ("90", None),
        (-1, None),
        (None, None),
    ],
)
def test_a_countdown_is_known_where_celery_has_one(
    countdown: object, known: int | None
) -> None:
    """A year at most: what is beyond it no message waits for."""
    options = {"countdown": countdown}
    [entry] = read({"x": {"task": "t", "schedule": 1.0, "options": options}})
    assert entry.countdown_us == known


def test_a_relative_schedule_of_less_than_a_second_is_refused() -> None:
    """Celery's own beat sends it without end; here it ran once in a minute."""
    with pytest.raises(Misconfigured, match=r"every 0\.2 s, relative; allowed"):
        read({"x": {"task": "t", "schedule": schedule(0.2, relative=True)}})
    with pytest.raises(Misconfigured, match="relative; allowed"):
        read({"x": {"task": "t", "schedule": 0.2, "relative": True}})
    [entry] = read({"x": {"task": "t", "schedule": schedule(1.0, relative=True)}})
    assert entry.period_us is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"run": "here"}, "['run'] is 'here'; allowed are 'dispatch', 'local'"),
        (
            {"run": "local", "misfire": "catch_up"},
            "['misfire'] is 'catch_up'; allowed with 'run': 'local' are",
        ),
        (
            {"run": "local", "delivery": "at_least_once"},
            "['delivery'] is 'at_least_once'; allowed with 'run': 'local' is",
        ),
    ],
)
def test_what_a_local_run_cannot_be(given: dict[str, object], said: str) -> None:
    """It is said which policy, its value and what is allowed."""
    with pytest.raises(Misconfigured) as caught:
        read({"x": {"task": "t", "schedule": 1.0, "pecker": given}})
    assert f"beat_schedule['x']['pecker']{said}" in str(caught.value)

"""A task that says itself when it runs."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery, _state
from celery.beat import Scheduler
from celery.schedules import crontab

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.schedules.declarations.reading import entries
from celery_pecker.schedules.engine.model import Entry, RunMode
from celery_pecker.tasks import Pecker, ScheduledTask


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Celery:
    """Give an app that nobody has finalized.

    Celery adds each task of any app to all apps that are finalized later in the
    process: these here would be in the apps of other tests.
    """
    known = "_on_app_finalizers"
    monkeypatch.setattr(_state, known, set(vars(_state)[known]))
    return Celery("proj", broker="memory://", set_as_current=False)


def read(app: Celery) -> dict[str, Entry]:
    """Return what a scheduler of the app works with."""
    app.finalize()
    beat_schedule = BeatSchedule(app)
    told = entries(beat_schedule.schedule, app, conf=app.conf)
    return {entry.name: entry for entry in told if not entry.name.startswith("celery.")}


def test_a_decorated_function_has_its_entry(app: Celery) -> None:
    """The task is one as any other; the entry has its policies."""
    pecker = Pecker(app)

    @pecker.task(
        every=1.0,
        timeout=0.8,
        run="local",
        bind=True,
        name="proj.sweep",
        kwargs={"b": 2},
    )
    def sweep(self: Any, a: int = 1, b: int = 1) -> str:
        return f"{self.name} {a} {b}"

    entry = read(app)["proj.sweep"]
    assert (entry.task, entry.period_us) == ("proj.sweep", 1_000_000)
    assert (entry.policy.timeout_us, entry.policy.run) == (800_000, RunMode.LOCAL)
    assert app.conf.beat_schedule["proj.sweep"]["kwargs"] == {"b": 2}
    assert sweep.apply(kwargs={"b": 3}).get() == "proj.sweep 1 3"
    assert app.tasks["proj.sweep"].name == sweep.name


def test_nothing_is_read_before_the_app_is_finalized(app: Celery) -> None:
    """A decorator must not load an app's configuration."""

    @Pecker(app).task(every=timedelta(minutes=5), entry="five")
    def often() -> None: ...

    assert not getattr(app, "configured")  # noqa: B009  # unknown to the stubs
    assert read(app)["five"].task == often.name
    assert app.conf.beat_schedule["five"]["task"] == often.name


def test_an_app_that_is_finalized_already_has_the_entry_at_once(app: Celery) -> None:
    """Modules may be imported late: Celery's autodiscovery does."""
    app.finalize()

    @Pecker(app).task(
        schedule=crontab(hour=7), grace=timedelta(hours=1), name="late", shared=False
    )
    def late() -> None: ...

    assert read(app)["late"].policy.grace_us == 3600 * 1_000_000


def test_a_class_has_its_entry(app: Celery) -> None:
    """With a name, with the name that Celery gives it, and as a base of others."""

    class Report(ScheduledTask):
        name = "proj.report"
        schedule = crontab(hour=7)
        misfire = "skip"
        entry_args = (3,)

    class Check(ScheduledTask):
        every = 2.0
        run_mode = "local"

    class Plain(ScheduledTask):
        name = "proj.plain"

    for one in (Report, Check, Plain):
        app.register_task(one())

    @app.task(base=ScheduledTask, every=3.0, name="proj.based", shared=False)
    def based() -> None: ...

    told = read(app)
    unnamed = app.gen_task_name("Check", Check.__module__)
    assert set(told) == {"proj.report", based.name, unnamed}
    assert app.conf.beat_schedule["proj.report"]["args"] == (3,)
    assert told[unnamed].policy.run is RunMode.LOCAL


def test_a_beat_schedule_that_is_set_later_does_not_lose_it(app: Celery) -> None:
    """Celery's add_periodic_task would be forgotten."""

    @Pecker(app).task(every=1.0, name="kept")
    def kept() -> None: ...

    app.finalize()
    app.conf.beat_schedule = {"other": {"task": "kept", "schedule": 5.0}}
    assert set(read(app)) == {"kept", "other"}


def test_two_entries_of_one_name_are_refused(app: Celery) -> None:
    """The second would replace the first, or be forgotten."""
    pecker = Pecker(app)

    @pecker.task(every=1.0, entry="same", name="one")
    def one() -> None: ...

    @pecker.task(every=1.0, entry="same", name="two")
    def two() -> None: ...

    with pytest.raises(Misconfigured, match="two different entries named 'same'"):
        read(app)


def test_an_entry_of_the_configuration_is_not_replaced(app: Celery) -> None:
    """Somebody would wonder why his period is not kept."""
    app.conf.beat_schedule = {"same": {"task": "one", "schedule": 7.0}}

    @Pecker(app).task(every=1.0, name="same")
    def one() -> None: ...

    with pytest.raises(Misconfigured, match="two different entries named 'same'"):
        read(app)


@pytest.mark.parametrize("given", [{}, {"every": 1.0, "schedule": crontab()}])
def test_neither_or_both_is_refused_at_once(app: Celery, given: dict[str, Any]) -> None:
    """The line of the decorator is in the traceback."""
    with pytest.raises(Misconfigured, match="exactly one of them"):
        Pecker(app).task(**given)


def test_apps_that_share_a_configuration_keep_their_entries_apart() -> None:
    """Celery hands out the very dict of the module that both were configured by."""
    shared: dict[str, Any] = {"both": {"task": "any", "schedule": 5.0}}
    one, other = (Celery(name, set_as_current=False) for name in ("one", "other"))
    for each in (one, other):
        each.conf.beat_schedule = shared

    for nth in range(2):

        @Pecker(one).task(every=1.0, name=f"one.{nth}", shared=False)
        def here() -> None: ...

    assert set(read(one)) == {"both", "one.0", "one.1"}
    assert set(read(other)) == set(shared) == {"both"}


@pytest.mark.parametrize("given", [None, [1], {"wrong": 5}])
def test_a_wrong_beat_schedule_is_refused_by_schedulers_only(
    app: Celery, given: Any
) -> None:
    """Every command finalizes the app, and most of them want no schedule."""
    app.conf.beat_schedule = given

    @Pecker(app).task(every=1.0, name="wrong", shared=False)
    def wrong() -> None: ...

    app.finalize()
    with pytest.raises(Misconfigured, match="beat_schedule"):
        read(app)


@pytest.mark.parametrize(
    "given", [{"args": 5}, {"args": "ab"}, {"kwargs": 5}, {"options": [1]}]
)
def test_wrong_arguments_are_refused_at_once(
    app: Celery, given: dict[str, Any]
) -> None:
    """A text would have become a list of its letters."""
    with pytest.raises(Misconfigured, match="allowed is a"):
        Pecker(app).task(every=1.0, **given)


def test_a_wrong_policy_is_refused_where_all_are(app: Celery) -> None:
    """With the name of the entry."""

    @Pecker(app).task(every=1.0, timeout=2.0, name="slow", shared=False)
    def slow() -> None: ...

    with pytest.raises(Misconfigured, match=r"\['slow'\]\['pecker'\]\['timeout'\]"):
        read(app)


def test_without_policies_it_is_a_plain_entry(app: Celery) -> None:
    """Celery's own beat reads it."""

    @Pecker(app).task(every=1.0, name="plain")
    def plain() -> None: ...

    app.finalize()
    entry: Any = Scheduler.Entry
    assert entry(**app.conf.beat_schedule["plain"], name="plain", app=app).task


SHARED = """
from celery import Celery
from celery_pecker.tasks import Pecker
before = Celery("before", set_as_current=False)
@Pecker().task(every=1.0, name="lib.clean")
def clean(): return 5
after = Celery("after")
for app in (before, after):
    app.finalize()
    assert app.conf.beat_schedule["lib.clean"]["schedule"] == 1.0, app
    assert app.tasks["lib.clean"].apply().get() == 5
@Pecker().task(every=2.0, name="lib.late")
def late(): ...
assert after.conf.beat_schedule["lib.late"]["schedule"] == 2.0
assert late.name == "lib.late"
"""


def test_a_shared_task_has_its_entry_in_every_app() -> None:
    """In a process of its own: here all later apps would have it."""
    subprocess.run([sys.executable, "-c", SHARED], check=True)

"""At its start a scheduler names entries whose task no worker knows, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest
from celery import Celery

from celery_pecker.schedules import Schedules
from celery_pecker.schedules.engine.model import Delivery, Entry, Policy
from celery_pecker.schedules.replica.unknown_tasks import UnknownTasks
from tests.integration.worker import crew as crews_module
from tests.integration.worker.crew import Crew

if TYPE_CHECKING:
    from celery_pecker.schedules.replica import Replica

WORD = "no worker knows the task"


def entry(name: str, task: str) -> Entry:
    """Return a declared entry."""
    policy = Policy(delivery=Delivery.AT_MOST_ONCE)
    return Entry(name=name, task=task, described="", policy=policy)


@pytest.fixture
def asked() -> UnknownTasks:
    """Nothing was asked yet."""
    return UnknownTasks(Celery(), cast("Replica", None), kind="beat")


def test_silent_workers_say_nothing(asked: UnknownTasks) -> None:
    """No answer names no task, however often none comes."""
    for _ in range(3):
        assert asked.judge(set(), [entry("nightly", "proj.rapport")]) is None


def test_the_second_answer_counts(asked: UnknownTasks) -> None:
    """Half of the workers may answer first: what the others know is not named."""
    entries = [entry("nightly", "proj.rapport"), entry("late", "other")]
    assert asked.judge({"proj.report"}, entries) is None
    text = f"{WORD} 'proj.rapport' of nightly; did you mean 'proj.report'?"
    assert asked.judge({"proj.report", "other"}, entries) == [text]


def test_all_known_is_said_at_once(asked: UnknownTasks) -> None:
    """One answer is enough where nothing is missing; Celery's own tasks never are."""
    entries = [entry("hourly", "proj.report"), entry("c", "celery.backend_cleanup")]
    assert asked.judge({"proj.report"}, entries) == []


@pytest.mark.cluster
def test_a_scheduler_names_unknown_tasks_once(
    crews: Callable[..., Crew],
    dsn: str,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of code and stored, with what was meant; what a worker knows is not named."""
    monkeypatch.setattr(crews_module, "APP", "tests.integration.worker.misnamed")
    crew = crews("misnamed", dsn=dsn, broker=redis_url)
    with Celery("misnamed") as app:
        conf: Any = app.conf
        conf.update(crew.conf)
        schedules = Schedules(app)
        schedules.set("archive", task="elsewhere.gone", schedule=3600)
        schedules.set("hourly too", task="proj.report", schedule=3600)
        schedules.close()
    worker = crew.worker("solo", wait=False)
    crew.until(lambda: "ready." in worker.life_log(), "the worker takes messages")
    beat = crew.beat()
    crew.until(lambda: beat.life_log().count(WORD) >= 2, "both are named", timeout=60)
    log = beat.life_log()
    meant = "of nightly; did you mean 'proj.report'?"
    assert f"{WORD} 'proj.rapport' {meant}" in log
    assert f"{WORD} 'elsewhere.gone' of archive" in log
    assert log.count(WORD) == 2
    assert "hourly" not in "".join(one for one in log.splitlines() if WORD in one)

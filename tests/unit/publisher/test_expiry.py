"""The expiry of a message is what Celery would have written at that moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule

from celery_pecker.brokers.publisher.lanes import NoTemplate
from celery_pecker.brokers.publisher.message_template import Expiry, Stamp

NOW = datetime(2026, 10, 25, 0, 30, 0, 250_000, tzinfo=UTC)


def expiry(options: dict[str, Any], **task: Any) -> Expiry:
    """Return the expiry of an entry with these options, for a task of these."""
    app = Celery("expiry", set_as_current=False, timezone="Europe/Paris")
    if task:

        @app.task(name="task", shared=False, **task)
        def run() -> None:
            """Do nothing."""

    return Expiry.of(
        app,
        ScheduleEntry(
            name="e", task="task", schedule=schedule(1), options=options, app=app
        ),
    )


def test_none_is_none() -> None:
    """Neither entry nor task nor slot has one: the message never expires."""
    assert expiry({}).stamp(NOW, None) is None
    assert expiry({"expires": None}, expires=5).stamp(NOW, None) is None


def test_seconds_count_from_now_in_the_zone_of_the_app() -> None:
    """Elapsed seconds, also over the hour that comes twice."""
    stamp = expiry({"expires": 3600}).stamp(NOW, None)
    assert stamp == Stamp("2026-10-25T02:30:00.250000+01:00", "3600000")


def test_the_entry_goes_before_the_task_and_the_slot_before_both() -> None:
    """As in `apply_async`; the slot's deadline is the narrowest of all."""
    own = expiry({}, expires=7)
    assert own.stamp(NOW, None) == expiry({"expires": 7}).stamp(NOW, None)
    assert expiry({"expires": 2}, expires=7).seconds == 2
    until = NOW + timedelta(milliseconds=1500)
    assert own.stamp(NOW, until) == Stamp(until.isoformat(), "1500")


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        (datetime(2026, 10, 25, 1, tzinfo=UTC), "2026-10-25T01:00:00+00:00"),
        (datetime(2026, 10, 25, 1), "2026-10-25T01:00:00"),  # noqa: DTZ001
        ("2026-10-25T01:00:00Z", "2026-10-25T01:00:00Z"),
        (
            datetime(2026, 10, 25, 2, tzinfo=ZoneInfo("Europe/Paris"), fold=1),
            "2026-10-25T02:00:00+01:00",
        ),
    ],
)
def test_an_instant_is_written_as_it_was_given(
    written: datetime | str, instant: str
) -> None:
    """Only the time that is left is counted anew for each run."""
    stamp = expiry({"expires": written}).stamp(NOW, None)
    assert stamp == Stamp(instant, str(30 * 60 * 1000 - 250))


def test_the_past_leaves_no_time_and_no_less() -> None:
    """RabbitMQ takes no negative number."""
    assert expiry({"expires": -3}).stamp(NOW, None) == Stamp(
        "2026-10-25T02:29:57.250000+02:00", "0"
    )
    past = expiry({}).stamp(NOW, NOW - timedelta(days=1))
    assert past is not None
    assert past.milliseconds == "0"


@pytest.mark.parametrize("wrong", ["soon", [1], object()])
def test_what_nobody_can_read_is_left_to_celery(wrong: object) -> None:
    """It will say what is wrong, in the slow lane."""
    with pytest.raises(NoTemplate, match="expires"):
        expiry({"expires": wrong})

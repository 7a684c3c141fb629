"""Splay and jitter: the same on each replica, never out of order, within bounds."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.calendars import CalendarSchedule, cron, jitter, rrule, splay
from celery_pecker.kernel.errors import Misconfigured

NOW = datetime(2026, 5, 4, 12, 34, 56, 789_012, tzinfo=UTC)
app = Celery("test", set_as_current=False)


def after(schedule: CalendarSchedule, instant: datetime) -> datetime:
    """Return the next instant, which there is."""
    found = schedule.instant_after(instant)
    assert found is not None
    return found


def test_equal_entries_lie_spread_over_their_period() -> None:
    """A thousand of every minute: about as many in each tenth of it."""
    tenths: Counter[int] = Counter()
    for number in range(1000):
        mine = splay(60).bound(app, f"entry {number}")
        first = after(mine, NOW)
        assert NOW < first <= NOW + timedelta(seconds=60)
        assert after(mine, first) - first == timedelta(seconds=60)
        tenths[int(first.timestamp() % 60 // 6)] += 1
    assert len(tenths) == 10
    assert min(tenths.values()) > 50


def test_an_entry_keeps_its_place_in_each_process() -> None:
    """It follows from its name, or from a key: no chance is in it."""
    one, other = (splay(60).bound(app, name) for name in ("a", "b"))
    assert after(one, NOW) == after(splay(60, key="a"), NOW)
    assert after(one, NOW) != after(other, NOW)
    assert after(one, NOW) == datetime(2026, 5, 4, 12, 35, 15, 227_616, tzinfo=UTC)
    keyed = splay(60, key="k").bound(app, "a")
    assert after(keyed, NOW) == after(splay(60, key="k"), NOW)


@given(
    st.text(max_size=5),
    st.sampled_from(["0 * * * *", "*/7 * * * *", "20,50 1-4 * * *"]),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),  # noqa: DTZ001
)
def test_jitter_keeps_the_order_and_its_bound(
    key: str, expression: str, since: datetime
) -> None:
    """Each instant once, later by less than its most, and the same whoever asks."""
    base = cron(expression, zone="Europe/Paris")
    mine = jitter(base, most=base.shortest, key=key)
    instant = since.replace(tzinfo=UTC)
    found = [instant := after(mine, instant) for _ in range(20)]
    assert found == sorted(set(found))
    for one in found:
        assert after(mine, one - timedelta(microseconds=1)) == one
        least = one - timedelta(seconds=base.shortest)
        assert after(base, least) <= one


def test_a_jitter_of_a_splay_of_a_cron() -> None:
    """They can be put into one another, and each entry has its own."""
    both = jitter(splay(cron("0 * * * *", zone="UTC"), over=600), most=60)
    one, other = (both.bound(app, name) for name in ("a", "b"))
    assert after(one, NOW) != after(other, NOW)
    hour = datetime(2026, 5, 4, 13, tzinfo=UTC)
    assert hour <= after(one, NOW) < hour + timedelta(seconds=660)


def test_a_splay_inside_a_jitter_goes_by_the_entry_too() -> None:
    """A hundred entries: apart by far more than the jitter alone would move them."""
    both = jitter(splay(cron("0 * * * *", zone="UTC"), over=600), most=1)
    found = [after(both.bound(app, f"entry {n}"), NOW) for n in range(100)]
    assert max(found) - min(found) > timedelta(seconds=300)


def test_a_start_and_an_end_are_those_of_what_is_moved() -> None:
    """The last instant is moved on too, beyond the end."""
    base = rrule("FREQ=DAILY;COUNT=2", start="2026-05-05 09:00", zone="UTC")
    mine = splay(base, over=3600, key="a")
    first = after(mine, NOW)
    second = after(mine, first)
    assert second - first == timedelta(days=1)
    assert mine.instant_after(second) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: splay(0), "every is 0; allowed is 0.1 to"),
        (lambda: splay("hourly"), "every is 'hourly'"),  # type: ignore[arg-type]
        (lambda: splay(cron("@hourly")), "over is None"),
        (lambda: splay(60, over=float("nan")), "over is nan"),
        (lambda: splay(60, key=5), "key is 5"),  # type: ignore[arg-type]
        (lambda: jitter(60, most=5), "the schedule is 60"),  # type: ignore[arg-type]
        (
            lambda: jitter(cron("*/5 * * * *"), most=301),
            "most is 301; allowed is 0.001 to 300 seconds",
        ),
        (lambda: jitter(splay(60), most=0), "most is 0"),
    ],
)
def test_what_is_wrong_is_refused_with_what_is_allowed(make: Any, message: str) -> None:
    """A jitter longer than the shortest gap would change the order."""
    with pytest.raises(Misconfigured, match=message):
        make()

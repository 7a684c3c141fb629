"""How long runs are held, what tasks say of them, and how hard the processing works."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.outbox.runs import options
from celery_pecker.outbox.runs.holds import (
    Holds,
    budget,
    floor,
    is_emergency,
    is_last,
    runs_emergency,
)
from celery_pecker.outbox.runs.load import Load, PollPace


def task(**attributes: Any) -> Any:
    """Return something that has a task's attributes."""
    return SimpleNamespace(name="proj.mail", **attributes)


def test_holds_double_up_to_the_cap() -> None:
    """As published: a minute, two, four; and then what the setting allows."""
    assert Holds(60.0, 3600.0).seconds == [60, 120, 240, 480, 960, 1920, 3600]
    assert Holds(60.0, 60.0).seconds == [60]
    assert len(Holds(1e-9, 3600.0).seconds) < 40


def test_holds_of_a_whole_setting_are_of_one_type() -> None:
    """PostgreSQL gets no list of whole and broken numbers, and nothing is sent then."""
    assert {type(hold) for hold in Holds(1, 60.0).seconds} == {float}


@given(hold=st.floats(1e-3, 1e6), timeout=st.none() | st.floats(1e-3, 86_400))
def test_a_deadline_lies_inside_its_hold(hold: float, timeout: float | None) -> None:
    """And a hold that has room for the timeout lets the run have all of it."""
    given_time = budget(hold, timeout)
    assert 0 < given_time < hold
    if timeout is not None:
        roomy = max(hold, floor(timeout))
        assert timeout < floor(timeout)
        assert budget(roomy, timeout) <= timeout
        assert budget(roomy, timeout) >= 0.95 * timeout


def test_the_task_has_so_many_attempts_and_then_its_emergency() -> None:
    """The fifth failure is followed by it at once; a death by the next attempt."""
    steps = [is_emergency(attempt, 5) for attempt in range(1, 8)]
    assert steps == [False] * 5 + [True] * 2
    assert [runs_emergency(attempt, 5) for attempt in (4, 5, 6)] == [
        False,
        True,
        False,
    ]
    assert not is_emergency(99, None)
    assert not runs_emergency(99, None)
    assert [is_last(attempt, 3) for attempt in (2, 3, 4)] == [False, True, True]


def test_what_a_task_says_is_checked() -> None:
    """The field, the value, and what is allowed."""
    read = options.read(task(timeout=50, outbox_attempts=7), attempts=20)
    assert read == options.Options(timeout=50.0, attempts=7)
    assert options.read(task(), attempts=20).attempts == 20
    for wrong in (0, -1, "50", True, float("nan"), 1e9):
        with pytest.raises(Misconfigured, match=r"proj\.mail: timeout is .*allowed"):
            options.read(task(timeout=wrong), attempts=20)
    for wrong in (0, 1.5, True, 10_001):
        with pytest.raises(Misconfigured, match=r"outbox_attempts is .*allowed"):
            options.read(task(outbox_attempts=wrong), attempts=20)


def test_a_task_has_one_emergency() -> None:
    """From a failure on that is a number."""
    mail = task()
    returned = options.emergency(mail, 5)(print)
    assert returned is print
    read = options.read(mail, attempts=20)
    assert (read.after, read.emergency) == (5, options.Emergency(print, 5))
    with pytest.raises(Misconfigured, match="already"):
        options.emergency(mail, 5)(print)
    with pytest.raises(Misconfigured, match=r"after=…\) is 0"):
        options.emergency(task(), 0)


def test_an_emergency_that_would_never_be_called_is_refused() -> None:
    """The row is parked before: so many attempts has the task."""
    with pytest.raises(Misconfigured, match=r"after=…\) is 4; allowed is 1 to 3"):
        options.emergency(task(outbox_attempts=3), 4)
    options.emergency(task(outbox_attempts=3), 3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threads", -1),
        ("threads", 1_001),
        ("threads", True),
        ("pause_empty", float("inf")),
        ("pause_error", -0.1),
        ("pause_done", "1"),
        ("only", [""]),
        ("only", ["x"] * 1_001),
    ],
)
def test_a_load_that_cannot_be_is_refused(field: str, value: Any) -> None:
    """Before it is stored."""
    with pytest.raises(Misconfigured, match=rf"{field} is .*allowed"):
        Load.of(**{field: value})


def test_the_published_load_is_the_default() -> None:
    """Ten threads; ten seconds after an empty poll, longer after an error."""
    load = Load()
    assert (load.threads, load.pause_empty, load.pause_done) == (10, 10.0, 1.0)
    assert load.pause_error > load.pause_empty
    assert load.wants("any")
    assert not Load.of(only=["urgent"]).wants("any")


def test_ten_threads_look_once_a_second_when_nothing_is_due() -> None:
    """They take turns; what one finds lets it rest by itself."""
    pace = PollPace(Load(), 0.0)
    assert pace.free(0.0) == 10
    pace.took(0, 10, 0.0)
    assert pace.free(0.5) == 0
    assert pace.wait(0.5) == 0.5
    assert pace.free(1.0) == 10
    pace.took(10, 10, 1.0)
    assert pace.free(1.0) == 0
    assert pace.wait(1.0) is None
    assert pace.busy == 10
    pace.ended(2.0, well=True)
    pace.ended(2.0, well=False)
    assert (pace.free(2.9), pace.free(3.0), pace.free(32.0)) == (0, 1, 2)


def test_a_hung_thread_holds_none_of_the_others_up() -> None:
    """It is one less, until it ends."""
    pace = PollPace(Load.of(threads=2, pause_done=0.0), 0.0)
    pace.took(2, 2, 0.0)
    for _ in range(5):
        pace.ended(1.0, well=True)
        assert pace.free(1.0) == 1
        pace.took(1, 1, 1.0)


def test_a_load_changes_while_threads_work() -> None:
    """More come at once; those that are too many go when they are free."""
    pace = PollPace(Load.of(threads=2), 0.0)
    pace.took(2, 2, 0.0)
    pace.change(Load.of(threads=4), 1.0)
    assert pace.free(1.0) == 2
    pace.change(Load.of(threads=1), 1.0)
    assert pace.free(1.0) == 0
    pace.ended(2.0, well=True)
    assert pace.free(99.0) == 0
    pace.ended(2.0, well=True)
    assert pace.free(99.0) == 1
    pace.change(Load.of(threads=0), 3.0)
    assert pace.free(99.0) == 0
    assert pace.wait(99.0) is None


def test_a_shorter_pause_is_in_force_at_once() -> None:
    """Nobody waits half an hour for the old one."""
    pace = PollPace(Load.of(threads=1, pause_error=1_800.0), 0.0)
    pace.took(1, 1, 0.0)
    pace.ended(0.0, well=False)
    pace.change(Load.of(threads=1, pause_error=2.0), 1.0)
    assert pace.free(3.0) == 1
    pace.took(0, 1, 3.0)
    pace.change(Load.of(threads=1, pause_empty=0.5, pause_error=2.0), 3.0)
    assert pace.free(3.0) == 1

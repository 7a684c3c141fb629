"""Trust, and time told between two answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.kernel.backoff import MAX_EXPONENT, Backoff
from celery_pecker.kernel.lease import DRIFT, SECOND, ClockOffset, TrustWindow

moments = st.floats(min_value=0, max_value=10**7)
waits = st.floats(min_value=0, max_value=10**4)


@given(moments, waits, waits)
def test_trust_counts_from_before_the_claim_was_sent(
    opened: float, seconds: float, later: float
) -> None:
    """However late the answer comes, the window closes at the same moment."""
    window = TrustWindow(opened=opened, seconds=seconds)
    assert window.closed(opened + later) == (window.remaining(opened + later) <= 0)
    assert window.remaining(opened) <= seconds + 1e-6


@given(
    st.floats(min_value=-(10**9), max_value=10**9),
    st.lists(
        st.tuples(st.floats(0.001, 100), st.floats(0.0001, 3), st.floats(0, 1)),
        min_size=1,
        max_size=20,
    ),
)
def test_the_estimate_is_never_ahead_of_a_steady_clock(
    offset: float, answers: list[tuple[float, float, float]]
) -> None:
    """Asked too early, the database would say "not due": the estimate errs behind."""
    known, now = ClockOffset(), 1000.0
    for pause, trip, share in answers:
        sent = now + pause
        now = sent + trip
        truth = int((offset + sent + trip * share) * SECOND)
        assert known.observe(truth, sent=sent, received=now) == 0.0
        assert known.now_us(now) <= (offset + now) * SECOND + 2
        assert known.now_us(now) >= (offset + now - trip - DRIFT * 2000) * SECOND - 2


@given(
    st.floats(min_value=-(10**9), max_value=10**9),
    st.floats(0.0001, 300),
    st.floats(0, 1),
    st.floats(-100, 100),
)
def test_what_must_be_over_is_over_before_the_database_shows_it(
    offset: float, trip: float, share: float, later: float
) -> None:
    """However slow the answer: it counts from before the question was sent (I2)."""
    known, sent = ClockOffset(), 1000.0
    told = int((offset + sent + trip * share) * SECOND)
    known.observe(told, sent=sent, received=sent + trip)
    deadline_us = told + int(later * SECOND)
    over = known.before(deadline_us)
    assert offset + over <= deadline_us / SECOND + 2e-6
    assert over >= deadline_us / SECOND - offset - trip - DRIFT * 500 - 2e-6


@given(st.floats(min_value=0.5, max_value=10**6), st.booleans())
def test_a_stepped_clock_is_noticed_and_followed(step: float, back: bool) -> None:
    """An answer that contradicts the bounds replaces them."""
    step = -step if back else step
    known = ClockOffset()
    known.observe(5_000_000, sent=10.0, received=10.01)
    told = int((5.0 + 1.0 + step) * SECOND)
    stepped = known.observe(told, sent=11.0, received=11.01)
    assert stepped == pytest.approx(step, abs=0.03)
    assert known.now_us(11.01) == pytest.approx(told, abs=11_000)


@given(st.integers(-5, 10**9), st.floats(0, 0.999))
def test_backoff_rises_and_is_bounded(attempt: int, chance: float) -> None:
    """Monotone in the attempt, never over its bound, for any attempt at all."""
    backoff = Backoff(first=0.05, most=1.0, spread=0.2)
    wait = backoff.seconds(attempt, chance)
    assert 0.05 * 0.8 <= wait <= 1.0
    assert backoff.seconds(attempt + 1, chance) >= wait
    assert backoff.seconds(MAX_EXPONENT * 100, 0.0) == 1.0


@pytest.mark.parametrize(
    ("first", "most", "spread"), [(0, 1, 0), (2, 1, 0), (1, 1, 1), (1, 1, -0.1)]
)
def test_a_backoff_that_could_not_end_or_wait_is_refused(
    first: float, most: float, spread: float
) -> None:
    """The message says what is allowed."""
    with pytest.raises(ValueError, match="back-off needs"):
        Backoff(first=first, most=most, spread=spread)

"""Laws of nested deadlines, whatever is put into what."""

from __future__ import annotations

from contextlib import ExitStack

from hypothesis import given
from hypothesis import strategies as st

from celery_pecker import deadline
from celery_pecker.deadline.scopes import Scope
from celery_pecker.kernel.clock import monotonic

SECONDS = st.floats(min_value=-5, max_value=100, allow_nan=False)
BLOCKS = st.lists(
    st.one_of(
        st.tuples(st.just("within"), SECONDS),
        st.tuples(st.just("until"), SECONDS),
        st.tuples(st.just("shield"), st.floats(min_value=0, max_value=100)),
        st.tuples(st.just("detached"), st.just(0.0)),
    ),
    max_size=8,
)
A_MOMENT = 1.0
"""Seconds that a test may take between two looks at the clock."""


def block(kind: str, seconds: float) -> Scope:
    """Make a block of that kind."""
    if kind == "within":
        return deadline.within(seconds)
    if kind == "until":
        return deadline.until(monotonic() + seconds)
    return deadline.shield(seconds) if kind == "shield" else deadline.detached()


def is_back(before: float | None) -> None:
    """See that a block has left nothing behind."""
    assert deadline.at() == before


@given(BLOCKS)
def test_blocks_nest(blocks: list[tuple[str, float]]) -> None:
    """Each kind keeps its law, and each end brings back what was before."""
    shielded_until = float("inf")
    with ExitStack() as stack:
        for kind, seconds in blocks:
            before, now = deadline.at(), monotonic()
            stack.callback(is_back, before)
            stack.enter_context(block(kind, seconds))
            after = deadline.at()
            if kind == "detached":
                assert after is None
                shielded_until = float("inf")
            elif kind == "shield":
                if before is None:
                    assert after is None
                    continue
                assert after is not None
                assert after >= before
                assert after <= max(
                    before, min(now + seconds + A_MOMENT, shielded_until)
                )
                shielded_until = min(shielded_until, now + seconds + A_MOMENT)
            else:
                assert after is not None
                assert after <= now + seconds + A_MOMENT
                assert before is None or after <= before
    assert deadline.at() is None


@given(BLOCKS)
def test_the_three_questions_agree(blocks: list[tuple[str, float]]) -> None:
    """What is left, what a call may wait, and whether it is over."""
    with ExitStack() as stack:
        for kind, seconds in blocks:
            stack.enter_context(block(kind, seconds))
        left = deadline.remaining()
        try:
            deadline.check()
            wait = deadline.timeout(7.0)
        except deadline.DeadlineExceeded:
            assert deadline.remaining() == 0.0
        else:
            assert wait is not None
            assert 0.001 <= wait <= 7.0
            assert left is None or wait <= max(left, 0.001)

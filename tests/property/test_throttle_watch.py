"""Laws of the second signal, for any course of things."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from throttle.watch.limit_factor import (
    FLOOR,
    HARD,
    OURS,
    RECOVERY,
    SETTLING,
    FactorVerdict,
    Symptom,
    judge,
)

symptoms = st.none() | st.lists(
    st.builds(Symptom, st.floats(0, 10), st.just("a symptom")), max_size=3
)
steps = st.lists(st.tuples(symptoms, st.floats(0, 3), st.floats(0.1, 5)), max_size=60)


@given(steps)
def test_it_stays_within_its_bounds(
    course: list[tuple[list[Symptom] | None, float, float]],
) -> None:
    """Never above the limit nor under the floor, nor up faster than it may."""
    verdict = FactorVerdict()
    for said, ours, elapsed in course:
        last, verdict = verdict, judge(verdict, said, ours=ours, elapsed=elapsed)
        assert FLOOR <= verdict.factor <= 1
        assert verdict.factor <= last.factor + RECOVERY * elapsed + 1e-9
        assert verdict.factor >= max(last.factor * HARD, FLOOR) - 1e-9
        assert (verdict.factor < 1) == bool(verdict.why)


@given(steps)
def test_it_cuts_only_for_a_signal_and_our_traffic(
    course: list[tuple[list[Symptom] | None, float, float]],
) -> None:
    """And never twice for the same thing within its settling time."""
    verdict, at, cuts = FactorVerdict(), 0.0, []
    for said, ours, elapsed in course:
        last, verdict = verdict, judge(verdict, said, ours=ours, elapsed=elapsed)
        at += elapsed
        if verdict.factor < last.factor:
            assert any(symptom.ratio > 1 for symptom in said or ())
            assert ours >= OURS
            cuts.append((at, verdict.hard))
    for (earlier, _), (later, hard) in pairwise(cuts):
        assert later - earlier >= SETTLING - 1e-9 or hard


@given(steps)
def test_when_all_is_well_the_limit_is_whole_again(
    course: list[tuple[list[Symptom] | None, float, float]],
) -> None:
    """Whatever was before."""
    verdict = FactorVerdict()
    for said, ours, elapsed in course:
        verdict = judge(verdict, said, ours=ours, elapsed=elapsed)
    for _ in range(19):
        verdict = judge(verdict, [], ours=1.0, elapsed=1.0)
    assert verdict.factor == 1.0

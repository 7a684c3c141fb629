"""What follows for a limit from what its PostgreSQL says of itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from throttle.watch.limit_factor import (
    FLOOR,
    OURS,
    RECOVERY,
    SETTLING,
    SILENCE_TIMEOUT,
    FactorVerdict,
    Symptom,
    judge,
)

FINE = [Symptom(0.5, "20 active backends, of 40")]
SOFT = [Symptom(0.2, "lag"), Symptom(1.2, "48 active backends, of 40")]
HARD = [Symptom(1.5, "60 active backends, of 40")]


def rounds(
    last: FactorVerdict,
    symptoms: Sequence[Symptom] | None,
    seconds: int,
    *,
    ours: float = 1.0,
) -> FactorVerdict:
    """Return what holds after so many rounds of a second."""
    for _ in range(seconds):
        last = judge(last, symptoms, ours=ours, elapsed=1.0)
    return last


def test_below_its_thresholds_nothing_follows() -> None:
    """And nothing is said."""
    assert rounds(FactorVerdict(), FINE, 10) == FactorVerdict()
    assert rounds(FactorVerdict(), [], 10) == FactorVerdict()


def test_above_the_threshold_the_limit_is_cut() -> None:
    """Softly, or hard from one and a half times the threshold; it says why."""
    soft = judge(FactorVerdict(), SOFT, ours=1.0, elapsed=1.0)
    assert (soft.factor, soft.why) == (0.8, "48 active backends, of 40")
    assert judge(FactorVerdict(), HARD, ours=1.0, elapsed=1.0).factor == 0.5


def test_at_the_threshold_it_is_not_above_it() -> None:
    """The threshold is what is still well."""
    assert rounds(FactorVerdict(), [Symptom(1.0, "just")], 5).factor == 1.0


def test_the_next_cut_waits_for_the_consequence_of_the_last() -> None:
    """The tasks that run have to end first."""
    after = [rounds(FactorVerdict(), SOFT, n).factor for n in range(1, 8)]
    assert after == pytest.approx([0.8, 0.8, 0.8, 0.64, 0.64, 0.64, 0.512])
    assert SETTLING == 3.0


def test_what_gets_worse_is_cut_at_once() -> None:
    """A hard cut need not wait for a soft one, but for a hard one."""
    soft = judge(FactorVerdict(), SOFT, ours=1.0, elapsed=1.0)
    hard = judge(soft, HARD, ours=1.0, elapsed=1.0)
    assert hard.factor == pytest.approx(0.4)
    assert judge(hard, HARD, ours=1.0, elapsed=1.0).factor == pytest.approx(0.4)


def test_trouble_without_our_traffic_is_not_blamed_on_the_tasks() -> None:
    """Holding them would heal nothing."""
    blamed = judge(FactorVerdict(), HARD, ours=OURS, elapsed=1.0)
    spared = judge(FactorVerdict(), HARD, ours=OURS - 0.001, elapsed=1.0)
    assert (blamed.factor, spared.factor) == (0.5, 1.0)
    recovering = judge(blamed, HARD, ours=0.0, elapsed=1.0)
    assert recovering.factor == pytest.approx(0.5 + RECOVERY)
    assert "not by our tasks" in recovering.why


def test_the_floor_is_never_crossed() -> None:
    """Somebody has to run, or nobody would see that it is well again."""
    assert rounds(FactorVerdict(), HARD, 100).factor == FLOOR


def test_it_comes_back_slowly_and_wholly() -> None:
    """Five per cent of the limit in a second, by the clock and not by the rounds."""
    low = rounds(FactorVerdict(), HARD, 100)
    assert rounds(low, FINE, 1).factor == pytest.approx(FLOOR + RECOVERY)
    assert judge(low, FINE, ours=1, elapsed=2.5).factor == pytest.approx(0.225)
    whole = rounds(low, FINE, 18)
    assert (whole.factor, whole.why) == (1.0, "")


def test_no_answer_is_no_signal() -> None:
    """The factor stays, for a while; then it comes back, as if all were well."""
    low = judge(FactorVerdict(), HARD, ours=1.0, elapsed=1.0)
    kept = rounds(low, None, int(SILENCE_TIMEOUT))
    assert (kept.factor, kept.why) == (low.factor, low.why)
    lost = rounds(kept, None, 1)
    assert lost.factor == pytest.approx(low.factor + RECOVERY)
    assert lost.why == "no answer"
    assert rounds(lost, HARD, 1).silent == 0.0

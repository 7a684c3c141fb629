"""What follows for a limit from what its PostgreSQL says of itself: pure.

Cut fast, give back slowly. A cut shows in the figures only after the tasks that run
have ended, so that the next one waits; and only present load is blamed: with little
traffic of ours the server's trouble comes from elsewhere, and holding tasks would not
heal it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

OURS = 0.1
"""The part of a limit from which our traffic is to blame."""
SOFT, HARD = 0.8, 0.5
"""What a cut leaves of the factor: above the threshold, and far above."""
FAR = 1.5
"""So many times the threshold is far above it."""
FLOOR = 0.1
RECOVERY = 0.05
"""What the factor regains per second."""
SETTLING = 3.0
"""Seconds after a cut until its consequence can be seen."""
SILENCE_TIMEOUT = 10.0
"""Seconds without an answer of the server for which the factor stays as it is."""


class Symptom(NamedTuple):
    """One thing that the server says of itself."""

    ratio: float
    """How many times the threshold it is."""
    text: str
    """For people."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorVerdict:
    """What holds for a limit after a round."""

    factor: float = 1.0
    """So much of the limit is in force."""
    why: str = ""
    settling: float = 0.0
    """Seconds until another cut may follow."""
    hard: bool = False
    """The last cut was one for a value far above its threshold."""
    silent: float = 0.0
    """Seconds since the server answered."""


def judge(
    last: FactorVerdict,
    symptoms: Sequence[Symptom] | None,
    *,
    ours: float,
    elapsed: float,
) -> FactorVerdict:
    """Return what holds now.

    Args:
        last: What held before.
        symptoms: What the server says; None: it did not answer.
        ours: Our traffic as a part of the limit.
        elapsed: Seconds since `last`.

    """
    settling = max(last.settling - elapsed, 0.0)
    if symptoms is None:
        silent = last.silent + elapsed
        if silent <= SILENCE_TIMEOUT:
            return replace(last, settling=settling, silent=silent)
        return _recovered(last, "no answer", settling, elapsed, silent)
    worst = max(symptoms, key=lambda symptom: symptom.ratio, default=None)
    if worst is None or worst.ratio <= 1:
        return _recovered(last, "recovering", settling, elapsed)
    if ours < OURS:
        return _recovered(last, f"{worst}, but not by our tasks", settling, elapsed)
    hard = worst.ratio >= FAR
    if settling > 0 and not (hard and not last.hard):
        return replace(last, why=str(worst), settling=settling, silent=0.0)
    factor = max(last.factor * (HARD if hard else SOFT), FLOOR)
    return FactorVerdict(factor=factor, why=str(worst), settling=SETTLING, hard=hard)


def _recovered(
    last: FactorVerdict, why: str, settling: float, elapsed: float, silent: float = 0.0
) -> FactorVerdict:
    factor = min(last.factor + RECOVERY * elapsed, 1.0)
    return FactorVerdict(
        factor=factor, why=why if factor < 1 else "", settling=settling, silent=silent
    )

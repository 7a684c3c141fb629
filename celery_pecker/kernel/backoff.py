"""How long to wait after the n-th failure in a row."""

from dataclasses import dataclass

MAX_EXPONENT = 32
"""Clamped: two to the attempt overflows a float past attempt 1,023."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential, bounded, with a little spread so that replicas do not march."""

    first: float = 0.05
    most: float = 1.0
    spread: float = 0.2

    def __post_init__(self) -> None:
        """Refuse what could never end or never wait."""
        if not 0 < self.first <= self.most:
            raise ValueError(
                f"back-off needs 0 < first <= most, not {self.first}, {self.most}"
            )
        if not 0 <= self.spread < 1:
            raise ValueError(f"back-off needs 0 <= spread < 1, not {self.spread}")

    def seconds(self, attempt: int, chance: float) -> float:
        """Return the wait after failure ``attempt`` (from 1).

        ``chance`` in [0, 1) takes up to ``spread`` of the wait away. The bound rises
        with the attempt up to ``most`` and is never exceeded.
        """
        exponent = min(max(attempt - 1, 0), MAX_EXPONENT)
        bound = min(self.first * float(2**exponent), self.most)
        return bound * (1 - self.spread * chance)

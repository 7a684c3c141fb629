"""Which items that fail in an attempt at a shard are retried, and when."""

from __future__ import annotations

from celery_sharding.model import Code
from celery_sharding.policies import Policy

MOST_ASKED = 1_000
"""How often an item is retried, at most, because its code asks for it."""


class Retries:
    """The decisions of one attempt: by its policy, or by what the code asks for."""

    def __init__(self, policy: Policy, attempt: int) -> None:
        self._policy = policy
        self._attempt = attempt
        self.allowed = attempt + 1 < policy.attempts()
        """Whether the policy has another attempt."""
        self._asked: dict[int, tuple[BaseException | str, float]] = {}
        """By which error code asks for another attempt at an item, and after how many
        seconds: a later error of the same item is another matter."""
        self._wait = 0.0

    def ask(self, index: int, error: BaseException | str, seconds: float) -> None:
        """Have an item retried after so many seconds, if it fails by that error."""
        if self._attempt < MOST_ASKED:
            self._asked[index] = error, seconds

    def decide(self, index: int, error: BaseException | str, code: Code) -> bool:
        """Return whether an item that has failed is retried."""
        by, seconds = self._asked.pop(index, (None, 0.0))
        asked = by is error
        self._wait = max(self._wait, seconds if asked else 0.0)
        return asked or (self.allowed and code is not Code.DIED)

    @property
    def delay(self) -> float:
        """Seconds until items that failed in this attempt are retried."""
        return max(self._policy.delay(self._attempt + 1), self._wait)

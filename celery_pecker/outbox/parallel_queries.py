"""Ask several servers at once: one that is dead or slow holds up none of the others."""

import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from celery_pecker.kernel.clock import SYSTEM, Clock
from celery_pecker.kernel.errors import DatabaseUnavailable, PeckerError

WAIT = 2.5
"""Seconds that all of them have together. The page of figures in Flower waits for 3."""

Answer = TypeVar("Answer")


class ParallelQueries(Generic[Answer]):
    """Questions by name, each on a thread of its own. Safe for threads.

    A question that gets no answer in time goes on, and is not put again meanwhile: a
    server that hangs costs one thread and one connection.
    """

    def __init__(
        self, questions: Mapping[str, Callable[[], Answer]], *, clock: Clock = SYSTEM
    ) -> None:
        self._questions = questions
        self._clock = clock
        self._asked: dict[str, _PendingQuery[Answer]] = {}
        self._asking = threading.Lock()

    def ask(self, wait: float = WAIT) -> dict[str, Answer | PeckerError]:
        """Return the answer of each, or why there is none, after `wait` seconds."""
        with self._asking:
            return self._ask(wait)

    def _ask(self, wait: float) -> dict[str, Answer | PeckerError]:
        until = self._clock.monotonic() + wait
        for name, question in self._questions.items():
            if name not in self._asked:
                self._asked[name] = _PendingQuery(name, question)
        answers: dict[str, Answer | PeckerError] = {}
        for name, asked in [*self._asked.items()]:
            left = max(until - self._clock.monotonic(), 0.0)
            if not asked.ended.wait(left):
                text = f"the outbox {name!r} gave no answer within {wait:g} s"
                answers[name] = DatabaseUnavailable(text)
                continue
            del self._asked[name]
            answers[name] = asked.answer
        return answers


class _PendingQuery(Generic[Answer]):
    """One question under way."""

    def __init__(self, name: str, question: Callable[[], Answer]) -> None:
        self.ended = threading.Event()
        self.answer: Answer | PeckerError = DatabaseUnavailable(
            f"asking the outbox {name!r} ended by an unforeseen error: see the log"
        )
        self._question = question
        threading.Thread(
            target=self._run, name=f"pecker-outbox-{name}", daemon=True
        ).start()

    def _run(self) -> None:
        try:
            self.answer = self._question()
        except PeckerError as error:
            self.answer = error
        finally:
            self.ended.set()

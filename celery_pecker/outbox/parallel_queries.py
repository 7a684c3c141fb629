"""Ask several servers at once: one that is dead or slow holds up none of the others."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

from celery_pecker.kernel import user_code
from celery_pecker.kernel.aside import aside
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.errors import DatabaseUnavailable, PeckerError

WAIT = 2.5
"""Seconds that all of them have together. The page of figures in Flower waits for 3."""

Answer = TypeVar("Answer")


class ParallelQueries(Generic[Answer]):
    """Questions by name, each on a thread of its own. Safe for threads.

    A question that gets no answer in time goes on, and is not put again meanwhile: a
    server that hangs costs one thread and one connection.
    """

    def __init__(self, questions: Mapping[str, Callable[[], Answer]]) -> None:
        self._questions = questions
        self._asked: dict[str, Future[Answer | PeckerError]] = {}
        self._asking = threading.Lock()

    def ask(self, wait: float = WAIT) -> dict[str, Answer | PeckerError]:
        """Return the answer of each, or why there is none, after `wait` seconds."""
        with self._asking:
            until = SYSTEM.monotonic() + wait
            for name, question in self._questions.items():
                if name not in self._asked:
                    call = partial(_answered, name, question)
                    self._asked[name] = aside(f"pecker-outbox-{name}", call)
            answers: dict[str, Answer | PeckerError] = {}
            for name, asked in [*self._asked.items()]:
                left = max(until - SYSTEM.monotonic(), 0.0)
                try:
                    answers[name] = asked.result(left)
                except TimeoutError:
                    text = f"the outbox {name!r} gave no answer within {wait:g} s"
                    answers[name] = DatabaseUnavailable(text)
                    continue
                del self._asked[name]
            return answers


def _answered(name: str, question: Callable[[], Answer]) -> Answer | PeckerError:
    """Return the answer, or why there is none: never an error."""

    def asked() -> Answer | PeckerError:
        try:
            return question()
        except PeckerError as error:
            return error

    what = f"asking the outbox {name!r}"
    unforeseen = f"{what} ended by an unforeseen error: see the log"
    return user_code.call(what, DatabaseUnavailable(unforeseen), asked)

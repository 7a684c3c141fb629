"""One server that hangs holds up none of the others."""

from __future__ import annotations

import threading

from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.outbox.parallel_queries import ParallelQueries

AMPLE = 30.0


def test_one_that_hangs_is_said_to_and_asked_once() -> None:
    """The others are answered; it is asked anew when it has answered."""
    opened, asked = threading.Event(), []

    def hangs() -> str:
        asked.append("eu")
        opened.wait(AMPLE)
        return "late"

    queries = ParallelQueries({"eu": hangs, "home": lambda: "here"})
    for _ in range(2):
        answers = queries.ask(wait=0.05)
        assert answers["home"] == "here"
        assert isinstance(answers["eu"], DatabaseUnavailable)
        assert "'eu' gave no answer within 0.05 s" in str(answers["eu"])
    assert asked == ["eu"]
    opened.set()
    assert queries.ask(wait=AMPLE)["eu"] == "late"
    assert queries.ask(wait=AMPLE)["eu"] == "late"
    assert asked == ["eu", "eu"]


def test_an_error_is_an_answer() -> None:
    """Of this one alone."""

    def dead() -> str:
        message = "nobody listens"
        raise DatabaseUnavailable(message)

    answers = ParallelQueries({"eu": dead, "home": lambda: "here"}).ask(wait=AMPLE)
    assert str(answers["eu"]) == "nobody listens"
    assert answers["home"] == "here"

"""Questions to servers that may accept and never answer."""

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from celery.exceptions import CeleryError
from kombu.exceptions import KombuError
from redis import RedisError

Options = ParamSpec("Options")
Answer = TypeVar("Answer")

REFUSALS = (OSError, EOFError, CeleryError, KombuError, RedisError)
"""What brokers and result stores raise when they are away, wrong, or too slow."""


def bounded(
    within: float,
    function: Callable[Options, Answer],
    *args: Options.args,
    **kwargs: Options.kwargs,
) -> Answer | None:
    """Return what the function answers, None if it does not in time, or fails.

    On a thread that is left behind: Celery's clients of brokers have waits that no
    setting bounds, such as for a Redis that accepts and never answers.
    """
    answer: list[Answer] = []

    def ask() -> None:
        try:
            answer.append(function(*args, **kwargs))
        except REFUSALS:
            return

    thread = threading.Thread(target=ask, name="pecker-cli", daemon=True)
    thread.start()
    thread.join(within)
    return answer[0] if answer else None

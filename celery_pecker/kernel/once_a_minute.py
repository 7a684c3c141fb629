"""Log what repeats at most once a minute, with how often it came."""

import logging
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import ParamSpec, TypeVar

from celery_pecker.kernel.clock import monotonic

Options = ParamSpec("Options")
Answer = TypeVar("Answer")

INTERVAL = 60.0
"""Seconds between two lines about the same thing."""


def kind_of(error: BaseException) -> str:
    """Return what tells errors apart: their types, and the line that raised.

    Not the text: it may name something else each time, and keys are kept.
    """
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    line = "" if at is None else f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}"
    return f"{type(error).__name__} {type(error.__cause__).__name__} {line}"


@dataclass
class OnceAMinute:
    """Log a thing at once, and then at most once a minute."""

    logger: logging.Logger
    _: KW_ONLY
    prefix: str = ""
    level: int = logging.WARNING
    clock: Callable[[], float] = monotonic
    _logged: dict[str, float] = field(default_factory=dict)
    _suppressed: dict[str, int] = field(default_factory=dict)

    def warning(self, key: str, text: str, *args: object) -> None:
        """Log the line, unless one with this key was logged within the minute."""
        self.log(key, self.level, text, *args)

    def log(
        self,
        key: str,
        level: int,
        text: str,
        *args: object,
        exc_info: BaseException | None = None,
    ) -> None:
        """Log the line at that level, with a traceback if asked, once a minute."""
        now = self.clock()
        if now - self._logged.get(key, -math.inf) < INTERVAL:
            self._suppressed[key] = self._suppressed.get(key, 0) + 1
            return
        self._logged[key] = now
        count = self._suppressed.pop(key, 0)
        more = f" ({count} more since the last line)" if count else ""
        line = text % args if args else text
        self.logger.log(level, "%s%s%s", self.prefix, line, more, exc_info=exc_info)

    def call(
        self,
        what: str,
        otherwise: Answer,
        function: Callable[Options, Answer],
        *args: Options.args,
        **kwargs: Options.kwargs,
    ) -> Answer:
        """Return what user code answers, or ``otherwise`` if it fails, which is logged.

        For calls that come many times a second; ``user_code.call`` logs each.
        """
        try:
            return function(*args, **kwargs)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever it raises
            key = f"{what} {kind_of(error)}"
            self.warning(key, "%s failed: %s: %s", what, type(error).__name__, error)
            return otherwise

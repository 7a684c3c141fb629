"""Call targets that may hang: each call has a thread of its own, and a timeout."""

from __future__ import annotations

import threading

from celery_pecker.alarms.model import Notice
from celery_pecker.alarms.targets import NotSent, Target
from celery_pecker.kernel import user_code


class Call:
    """One call of a target. The thread is a daemon: it holds up no shutdown."""

    def __init__(self, target: Target, notice: Notice) -> None:
        self.notice = notice
        self._target = target
        self._error: BaseException | None = None
        self._ended = threading.Event()

    def run(self, timeout: float) -> Exception | None:
        """Call it; return what it raised, or that it has not returned in time."""
        name = f"pecker-alarms-{self.notice.target}"
        threading.Thread(target=self._run, name=name, daemon=True).start()
        if not self._ended.wait(timeout):
            message = f"it did not return within {timeout:g} s"
            return NotSent(message)
        return self.error

    @property
    def ended(self) -> bool:
        """Whether the target has returned."""
        return self._ended.is_set()

    @property
    def error(self) -> Exception | None:
        """What it raised; what ends threads or processes as the text of an error."""
        if self._error is None or isinstance(self._error, Exception):
            return self._error
        return NotSent(f"it raised {self._error!r}")

    def _run(self) -> None:
        self._error = user_code.raised(self._target, self.notice)
        self._ended.set()

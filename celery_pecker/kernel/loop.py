"""Wake, take a step, sleep until the next is due or until woken.

The loop has a daemon thread of its own, because no I/O may happen on beat's main
thread: a signal that arrives inside a blocked read cannot end it (measured: SIGTERM
took 10 s with PostgreSQL hanging, and never ended it with the broker hanging).
``stop`` and ``wake`` may be called from a signal handler: a flag and a ``Wakeup``
(``Event.set`` may not: it can dead-lock on its own condition).

Here stands the one broad ``except`` of the house. A loop never exits by itself (I12):
a failed step is logged and repeated after a back-off, which no ``wake`` ends: a loop
that is woken at each commit would ask a broken database as often. The log has a failure
at once if it is the first of its kind in a minute, and then once a minute. The
exception is bad configuration before the first good step: it ends a loop whose owner
reports it, and with it the process. Any other loop would end untold: it goes on, since
a right or a migration may follow.
"""

import logging
import threading
from collections.abc import Callable

from celery_pecker.kernel.backoff import Backoff
from celery_pecker.kernel.clock import SYSTEM, Clock, chance
from celery_pecker.kernel.errors import DatabaseUnavailable, Misconfigured
from celery_pecker.kernel.once_a_minute import OnceAMinute, kind_of
from celery_pecker.kernel.wakeup import Wakeup

logger = logging.getLogger(__name__)


class Loop:
    """Run ``step`` over and over on a thread of its own.

    ``step`` returns the seconds to sleep; it is only ever called on that thread, and so
    are ``failed``, after a step that failed, and ``leave``, at the end.
    """

    def __init__(  # noqa: PLR0913  # all but the first three have a default
        self,
        step: Callable[[], float],
        *,
        name: str,
        clock: Clock = SYSTEM,
        leave: Callable[[], None] = lambda: None,
        failed: Callable[[], None] = lambda: None,
        backoff: Backoff | None = None,
        wakeup: Wakeup | None = None,
        may_end: bool = False,
    ) -> None:
        """Sleep by ``wakeup``, if what wakes the loop is there before it is.

        ``may_end``: whether bad configuration before the first good step ends it. Its
        owner then reports `failure`.
        """
        self._step = step
        self._leave = leave
        self._on_failure = failed
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._name = name
        self._wakeup = wakeup or Wakeup()
        self._may_end = may_end
        self._stopping = False
        self._ended = threading.Event()
        self._failures = 0
        self._log = OnceAMinute(logger, clock=clock.monotonic)
        self.failure: Misconfigured | None = None
        """Why the loop ended before its first good step, if it did."""
        self.turned: float | None = None
        """When the last step ended well, by the monotonic clock."""

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self.run, name=self._name, daemon=True).start()

    def wake(self) -> None:
        """End the current sleep, but no back-off. Safe in a signal handler."""
        self._wakeup.wake()

    def stop(self) -> None:
        """Let the step in flight end, then leave. Safe in a signal handler."""
        self._stopping = True
        self._wakeup.wake()

    @property
    def stopping(self) -> bool:
        """Return whether the loop is to leave."""
        return self._stopping

    @property
    def dead(self) -> bool:
        """Return whether the thread has ended although it was not stopped."""
        return self._ended.is_set() and not self._stopping

    @property
    def failing(self) -> bool:
        """Return whether the last step failed: the back-off decides on the next."""
        return self._failures > 0

    def join(self, timeout: float) -> bool:
        """Wait until the loop has left; return whether it has."""
        return self._ended.wait(timeout)

    def run(self) -> None:
        """Turn until `stop` is called."""
        try:
            while not self._stopping:
                self._sleep(self.run_once())
        finally:
            self._leave()
            self._ended.set()

    def run_once(self) -> float:
        """Take one step; return the seconds to sleep, whatever happened."""
        try:
            delay = self._step()
        except Misconfigured as error:
            if self._may_end and self.turned is None:
                self.failure = error
                self._stopping = True
                return 0.0
            return self._failed(error)
        except Exception as error:  # noqa: BLE001  # the one broad except of the house
            return self._failed(error)
        self._failures = 0
        self.turned = self._clock.monotonic()
        return delay

    def _failed(self, error: Exception) -> float:
        self._failures += 1
        self._on_failure()
        delay = self._backoff.seconds(self._failures, chance())
        expected = isinstance(error, DatabaseUnavailable)
        self._log.log(
            kind_of(error),
            logging.WARNING if expected else logging.ERROR,
            "%s: step failed (%d in a row), repeated in %.2f s: %s",
            self._name,
            self._failures,
            delay,
            error if expected else repr(error),
            exc_info=None if expected else error,
        )
        return delay

    def _sleep(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while not self._stopping and seconds > 0:
            if self._wakeup.sleep(seconds) and not self.failing:
                return
            seconds = until - self._clock.monotonic()

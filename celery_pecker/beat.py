"""``celery -A proj beat -S pecker``: Celery's beat with our scheduler in it.

The one awkward subclass. Beat's main thread does nothing but sleep: the scheduler's
loop has a thread of its own, ``tick()`` only returns, and ``close()``, which beat calls
inside its signal handler and once more after it, sets a flag the first time and waits
for the batch in flight the second time.
"""

import logging
import socket
import sys
import threading
from typing import Any

from celery_pecker.kernel.declared import refuse_misspelt
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.kernel.start_refused import StartRefused, refusing
from celery_pecker.schedules.declarations.beat_schedule import BeatSchedule
from celery_pecker.schedules.engine.model import RunMode
from celery_pecker.schedules.replica import Claimant, Process, Replica

logger = logging.getLogger(__name__)

NAP = 0.5
"""Seconds between looks of the main thread at whether the loop refused to start."""

LAST_WORDS = 0.1
"""Seconds that a stop waits for the last reports of the history."""


class _OneLineError(logging.Filter):
    """Beat tells of a refusal with a traceback of its insides; one line says all."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record pass, shortened; not where click prints the same after it."""
        if record.exc_info and isinstance(record.exc_info[1], StartRefused):
            record.msg, record.args = "%s", (str(record.exc_info[1]),)
            record.exc_info = None
            return not _logs_to_console()
        return True


def _logs_to_console() -> bool:
    streams = [getattr(one, "stream", None) for one in logging.getLogger().handlers]
    return bool(streams) and all(one in {sys.stderr, sys.__stderr__} for one in streams)


_ONE_LINE = _OneLineError()


class PeckerScheduler(BeatSchedule):
    """As many of these as one likes, on as many hosts: each slot is won once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._process: Process | None = None
        self._closed = False
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        """Check everything that can be checked without I/O, then start the loop."""
        logging.getLogger("celery.beat").addFilter(_ONE_LINE)
        with refusing():
            refuse_misspelt(self.app.conf)
            settings = Settings.read(self.app.conf, main=self.app.main)
            super().setup_schedule()
            replica = Replica(Claimant(self.app, self, settings, kind="beat"))
            hostname = f"beat@{socket.gethostname()}"
            self._process = Process([replica], hostname=hostname)
        local = len(self.schedule) - len(replica.claimant.entries)
        if local:
            logger.info(
                "pecker: %d entries are run in workers (policy 'run': '%s'), not here",
                local,
                RunMode.LOCAL,
            )
        self._process.start()  # its port is open until the process ends

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """Return how long beat's main thread may sleep; raise what the loop refused.

        A loop that ended untold ends the process too: silently alive is worse.
        """
        if self._process is not None:
            [replica] = self._process.replicas
            if (refused := replica.loop.failure) is not None:
                raise StartRefused(str(refused)) from refused
            if replica.failure is not None:
                raise PeckerError(replica.failure)
        return NAP

    def close(self) -> None:
        """Stop the loop; safe inside a signal handler, idempotent."""
        second, self._closed = self._closed, True
        if self._process is None:
            return
        self._process.stop()
        if second or threading.current_thread() is not threading.main_thread():
            self._process.join()
            self._process.close_history(LAST_WORDS)

    @property
    def info(self) -> str:
        """Beat's banner line; made before the schedule is set up."""
        schema = self.app.conf.get("pecker_schema") or "public"
        return f"       . pecker -> schema {schema}"

"""``celery -A proj beat -S pecker_bridge``: a database scheduler of the app's own.

The class that ``beat_scheduler`` names (django-celery-beat's, or one that is made from
it) reads its rows, says what is due and sends, as ever; it may run as often as one
likes. Before a run it takes the slot in our table, in one statement that one process
wins (I5). A loser goes on from the slot that was taken.
"""

import logging
import os
import socket
from datetime import timedelta
from importlib.metadata import version
from typing import Any

from celery import Celery
from celery.beat import Scheduler
from celery.schedules import schedstate
from celery.utils.imports import load_extension_class_names, symbol_by_name

from celery_pecker.heartbeat import Heartbeat
from celery_pecker.kernel import user_code
from celery_pecker.kernel.clock import SYSTEM, from_us, new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.declared import refuse_misspelt
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.lease import SLACK
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.kernel.settings import Settings
from celery_pecker.kernel.start_refused import StartRefused, refusing
from celery_pecker.schedules.declarations.reading import entries
from celery_pecker.schedules.engine.model import ClaimRequest, Entry
from celery_pecker.schedules.engine.repository import CHUNK, Repository
from celery_pecker.schedules.engine.upkeep import TERM

logger = logging.getLogger("celery_pecker.beat")

ROUND = 5.0
"""Seconds between two announcements, which a look for living schedulers goes by."""
SECOND = timedelta(seconds=1)
SLACK_US = round(SLACK * 1_000_000)
RETRY = 1.0
"""Seconds until a slot is looked at again that the database's clock has not reached."""


def bridge(app: Celery, **options: Any) -> Scheduler:
    """Return a scheduler of the class that ``beat_scheduler`` names, with our table.

    Raises:
        StartRefused: it names none that stores its schedules.

    """
    names: Any = load_extension_class_names("celery.beat_schedulers")
    wanted = str(app.conf.beat_scheduler)
    known: Any = symbol_by_name(wanted, aliases=dict(names))
    if not hasattr(known, "Model"):
        raise StartRefused(
            f"beat_scheduler is {wanted!r}; allowed with -S pecker_bridge is a class of"
            " django-celery-beat, sqlalchemy-celery-beat or one made from them; code's"
            " own entries are run by -S pecker"
        )
    made: type[Scheduler] = type(f"Pecker{known.__name__}", (Bridge, known), {})
    return made(app=app, **options)


class Bridge(Scheduler):
    """Stands before a database scheduler; one tick sends at most one slot."""

    def setup_schedule(self) -> None:
        """Check the tables, then read the rows."""
        with refusing():
            refuse_misspelt(self.app.conf)
            settings = Settings.read(self.app.conf, main=self.app.main)
            self._database = Database.of(settings)
            check_schema(self._database, app=settings.app)
        self._repository = Repository(self._database, new_id(), kind="beat")
        self._timeout_us = round(settings.database_timeout * 1_000_000)
        self._heart = Heartbeat(settings, kind="beat", clock=SYSTEM)
        self._next_round = self._next_declaring = SYSTEM.monotonic()
        self._request: ClaimRequest | None = None
        self._now_us = 0
        super().setup_schedule()
        logger.info("pecker: bridge to %s, %d entries", type(self), len(self.schedule))

    def tick(self, *args: Any, **options: Any) -> float:
        """Send at most one slot; return the seconds until the next look."""
        self._heart.beat()
        now = SYSTEM.monotonic()
        if now >= self._next_round:
            self._next_round = now + ROUND
            _, error = user_code.tried(self._announce)
            if error is not None:
                logger.warning("pecker: bridge: %s", error)
        wait: float = super().tick(*args, **options)
        return min(wait, 1.0)

    def is_due(self, entry: Any) -> schedstate:
        """Return whether a slot is due that none has taken, or that one has taken.

        Of the latter nothing is sent, and the entry goes on from there.
        """
        due, wait = super().is_due(entry)
        if not due:
            return schedstate(due, wait)
        try:
            ours = self._is_ours(entry)
        except PeckerError as error:
            logger.warning("pecker: bridge: %r waits: %s", entry.name, error)
            ours = False
        return schedstate(ours, wait if ours else RETRY)

    def reserve(self, entry: Any) -> Any:
        """Take the slot; return the entry as it is after it."""
        if self._request is None:
            return entry
        request, self._request = self._request, None
        try:
            _, won = self._repository.claim(
                [request], until_us=self._now_us + self._timeout_us
            )
        except PeckerError as error:  # taken or not: at most once
            logger.warning("pecker: bridge: %r is passed: %s", entry.name, error)
            return entry
        if not won or won[0].paused:
            return entry
        self._request = request
        return super().reserve(entry)

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send the slot that was taken; nothing for one that another process took."""
        if self._request is not None:
            super().apply_entry(entry, producer=producer)

    def should_sync(self) -> bool:
        """Write what ran after each run: another process goes on from there."""
        return True

    def _is_ours(self, entry: Any) -> bool:
        """Return whether to go on from this slot; note what is to be taken, if any.

        The row and our table say what other processes did since it was read here.
        """
        self._request = None
        [known] = entries({entry.name: entry}, self.app, conf=self.app.conf)
        self._now_us, rows = self._repository.read([entry.name])
        if entry.name not in rows:
            last = min(entry.last_run_at, from_us(self._now_us) - SECOND)
            one = {"names": [entry.name], "instants": [last]}
            self._database.run("import_last", overwrite=False, **one)
            return False
        last_us = rows[entry.name].executed_us
        if refresh := getattr(entry.model, "refresh_from_db", None):
            refresh()
        ran = entry.last_run_at, entry.model.last_run_at, from_us(last_us)
        entry.last_run_at = max(one for one in ran if one is not None)
        entry.model.last_run_at = entry.last_run_at
        if not super().is_due(entry)[0]:
            return True
        slot_us = self._slot_us(known, last_us)
        if slot_us > self._now_us and last_us <= self._now_us + SLACK_US:
            return False
        self._request = ClaimRequest(
            entry=known,
            ahead_us=SLACK_US + (known.period_us or 0),
            instant_us=None if known.period_us else min(slot_us, self._now_us),
            seen_us=last_us,
        )
        return True

    def _slot_us(self, known: Entry, last_us: int) -> int:
        """Return the slot after the last; now, where several are due, as in beat."""
        if known.recurrence is None:
            return last_us + (known.period_us or 0)
        slot_us = known.recurrence.next(last_us, self._now_us)
        if known.recurrence.is_polled:
            return slot_us
        after_us = known.recurrence.next(slot_us, self._now_us)
        return slot_us if after_us > self._now_us else self._now_us

    def _announce(self) -> None:
        self._repository.announce(
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version("celery-pecker"),
            entries=len(self.schedule),
        )
        now = SYSTEM.monotonic()
        if now < self._next_declaring:
            return
        self._next_declaring = now + TERM / 3
        known = []
        for name, entry in self.schedule.items():
            read, _ = user_code.tried(
                entries, {name: entry}, self.app, conf=self.app.conf
            )
            known += read or []
        for start in range(0, len(known), CHUNK):
            self._repository.declare(known[start : start + CHUNK], term=TERM)

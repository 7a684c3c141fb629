"""What a replica claims slots with: its entries, its tables, and the time there.

Made before all else of a replica, since threads that run entries in this process
report by that time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Self

from celery import Celery

from celery_pecker.kernel.clock import SYSTEM, new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.lease import SECOND
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules import declarations
from celery_pecker.schedules.engine.agenda import Agenda
from celery_pecker.schedules.engine.model import Entry, RunMode
from celery_pecker.schedules.engine.repository import Repository
from celery_pecker.schedules.engine.timekeeper import Timekeeper
from celery_pecker.schedules.engine.upkeep import UpkeepPace

logger = logging.getLogger("celery_pecker.beat")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """One holder of claims; where its slots go is not decided yet."""

    app: Celery
    beat_schedule: declarations.BeatSchedule
    settings: Settings
    kind: str
    """'beat' or 'worker': they publish; 'local': it runs entries in its process."""
    entries: list[Entry]
    """What code declares for its kind."""
    pace: UpkeepPace
    database: Database
    agenda: Agenda
    repository: Repository
    timekeeper: Timekeeper

    @classmethod
    def of(
        cls,
        app: Celery,
        beat_schedule: declarations.BeatSchedule,
        settings: Settings,
        *,
        kind: str,
    ) -> Self:
        """Return one for the entries of its kind; nothing is connected yet.

        Raises:
            Misconfigured: An entry cannot be read.

        """
        named = declarations.other_scheduler(app)
        if named is not None and kind != "local":
            logger.warning(
                "pecker: beat_scheduler is %s: what that stores is not run here; import"
                " it (celery -A proj pecker import --schedules), or run it by celery"
                " -A proj beat -S pecker_bridge",
                named,
            )
        mode = RunMode.LOCAL if kind == "local" else RunMode.DISPATCH
        declared = declarations.entries(beat_schedule.schedule, app, conf=app.conf)
        entries = [entry for entry in declared if entry.policy.run is mode]
        pace = UpkeepPace(slack=settings.clock_slack, timeout=settings.database_timeout)
        database = Database.of(settings)
        agenda = Agenda(entries, slack_us=int(pace.slack * SECOND))
        repository = Repository(
            database, new_id(), kind=kind, keeps_reports=settings.history > 0
        )
        return cls(
            app=app,
            beat_schedule=beat_schedule,
            settings=settings,
            kind=kind,
            entries=entries,
            pace=pace,
            database=database,
            agenda=agenda,
            repository=repository,
            timekeeper=Timekeeper(SYSTEM, repository, agenda),
        )

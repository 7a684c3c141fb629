"""A Celery app's ``beat_schedule``, read into entries and checked (I11).

=================  ========================================================
``validation``     what is refused before Celery itself would answer with a
                   bare TypeError
``reading``        the entries that a scheduler works with, and what stands
                   under the key ``pecker`` of one
``task_entries``   entries that stand beside their task's code; two of one name
``beat_schedule``  Celery's own scheduler, which reads all of it
=================  ========================================================

Nothing here knows a clock or a server: whatever can be wrong with a schedule is
refused before anything is connected.
"""

from typing import TYPE_CHECKING

from celery_pecker.kernel.lazy_names import lazy_names as _lazy_names
from celery_pecker.schedules.declarations.beat_schedule import (
    BeatSchedule,
    PeckerEntry,
    other_scheduler,
)
from celery_pecker.schedules.declarations.task_entries import (
    add_entries,
    add_entry,
    record_duplicates,
    refuse_duplicates,
)
from celery_pecker.schedules.declarations.validation import (
    KEYS,
    check_beat_schedule,
    check_schedule,
    storable,
)

if TYPE_CHECKING:
    from celery_pecker.schedules.declarations.reading import (
        POLICIES,
        STORED,
        entries,
        policy,
    )

__all__ = [
    "KEYS",
    "POLICIES",
    "STORED",
    "BeatSchedule",
    "PeckerEntry",
    "add_entries",
    "add_entry",
    "check_beat_schedule",
    "check_schedule",
    "entries",
    "other_scheduler",
    "policy",
    "record_duplicates",
    "refuse_duplicates",
    "storable",
]

# With these come the calendars, which only schedules need.
__getattr__, __dir__ = _lazy_names(
    globals(),
    {"reading": ("POLICIES", "STORED", "entries", "policy")},
)

"""What people see of the schedules: read from the tables, never from events.

    page       one page of entries, searched and sorted: last slot, lateness, holder, …
    entry      one entry, its last slots, the run that last started, what is pending
    replicas   the process lives of schedulers
    totals     the figures of all entries at once
    pause, resume, ask     the three things that people do to an entry
    explain.explain        why an entry runs or does not: pure, from all of the above

The command line, the pages in Flower and the metrics all stand on this one reader. It
needs nothing but the tables: no app, no broker, no worker that answers. So it is right
for every process that looks, and still right when none of the schedulers lives.

What it cannot know is when a crontab or solar entry is due next: only code can say, and
a reader without the app's code has none (``next_us`` is None there).
"""

from celery_pecker.schedules.overview.model import (
    EntryPage,
    EntryRow,
    SlotRow,
    Totals,
)
from celery_pecker.schedules.overview.reader import ORDERS, Overview

__all__ = [
    "ORDERS",
    "EntryPage",
    "EntryRow",
    "Overview",
    "SlotRow",
    "Totals",
]

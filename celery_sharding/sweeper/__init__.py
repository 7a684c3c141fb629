"""Repairs what dead processes left: a schedule of the app, every second.

    declare  the app's schedule gets the sweeper and the purge
    sweep    lapsed holds end, closed layers move on, lost messages are sent again
    purge    jobs that ended long ago are forgotten

No message of a job is load-bearing, because this comes after: it asks the ledger which
jobs are to be moved on, and moves them as anybody would (`flow.go_on`). Several at once
do no harm.
"""

from __future__ import annotations

from celery_sharding.sweeper.declaring import declare
from celery_sharding.sweeper.purging import purge
from celery_sharding.sweeper.sweeping import sweep

__all__ = ["declare", "purge", "sweep"]

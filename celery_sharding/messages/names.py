"""The names of the tasks that a sharded app has besides its users'."""

from __future__ import annotations

WORK = "celery_sharding.work"
"""A ticket: "job J may have work"."""
NOTIFY = "celery_sharding.notify"
"""The progress of a job crossed a threshold."""
SWEEP = "celery_sharding.sweep"
"""Repairs what dead processes left; the app's schedule sends it."""
PURGE = "celery_sharding.purge"
"""Removes jobs that ended long ago; the app's schedule sends it."""
SENT_BY = "sharding"
"""The header of a job's message: its sender."""
RESENT = "resent"
"""In that header: not the caller, but a process that moves the job on."""
OPTIONS = "sharding_options"
"""The header of a message that brings all of a call whose job is not submitted yet: the
options that the call changed."""
RUN = "sharding_run"
"""The header of a job's message that says which run of it is meant; absent: the first.
A message of an earlier run, delivered late, would go on with chain and links twice."""

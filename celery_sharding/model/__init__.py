"""What a sharded job is made of: words that every room uses.

states    codes of shards, stages and outcomes of jobs, placement, cut
tickets   a ticket in the hands of a process, and the ledger's replies under it
shards    a shard as it is planned, as it is claimed, and what it comes to
jobs      a job: how it runs, how far it is, what failed, what its functions get
"""

from __future__ import annotations

from celery_sharding.model.jobs import ItemError, Job, LayerProgress, Options, Progress
from celery_sharding.model.shards import Failure, Planned, Shard, Step
from celery_sharding.model.states import ENDED, Code, Cut, Outcome, Placement, Stage
from celery_sharding.model.tickets import Hold, HoldReply, Turn

__all__ = [
    "ENDED",
    "Code",
    "Cut",
    "Failure",
    "Hold",
    "HoldReply",
    "ItemError",
    "Job",
    "LayerProgress",
    "Options",
    "Outcome",
    "Placement",
    "Planned",
    "Progress",
    "Shard",
    "Stage",
    "Step",
    "Turn",
]

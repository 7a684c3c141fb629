"""Runs shards: the only room that calls processors.

``work``        a ticket: take it, claim shards, run them for a slice, pass it on
``begin``       the same for a job that was planned in this process
``unlimited``   whether a message may run shards for as long as they take
``run_shard``   one shard, from its cursor to its end or until it is to stop
``Shard``       what a processor sees of it
``StepWriter``  what a running shard writes to: the ledger, or lists in eager mode
``Stop``        why no further item is given
"""

from celery_sharding.runner.result_buffer import Known
from celery_sharding.runner.running import Shard, run_shard
from celery_sharding.runner.step_writer import StepList, StepWriter, Stop, Work
from celery_sharding.runner.tickets import begin, unlimited, work

__all__ = [
    "Known",
    "Shard",
    "StepList",
    "StepWriter",
    "Stop",
    "Work",
    "begin",
    "run_shard",
    "unlimited",
    "work",
]

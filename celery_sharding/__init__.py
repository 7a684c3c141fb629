"""A sharded job as one Celery signature, that cannot hang.

    sharding = Sharding(app)

    @sharding.task(size=(50, 2000), concurrency=64)
    def import_rows(shard):
        for row in shard:
            shard.ok(save(row))

    result = import_rows.delay(rows)
    result.progress

Nouns
    *job*        one call of a sharded task: one row, one task id, one outcome
    *layer*      items that may run at the same time; layers run one after the other
    *shard*      a part of a layer: what a worker claims, and runs from its cursor on
    *item*       what the processor is given one by one
    *ticket*     the right to run shards of a job; there are as many as its concurrency
    *hold*       a ticket on a lease, in the hands of one process
    *ledger*     all of these as rows in PostgreSQL
    *executor*   a worker that runs shards

What decides
    what is to run, has run, and which process may write: PostgreSQL, by
    compare-and-set. A message says "there may be work": it may be lost, doubled or
    late.

Under failure
    a worker dies          its shards go on from their cursor elsewhere
    it freezes             the same; when it wakes, nothing that it writes counts
    an item fails          it is recorded, and its shard goes on
    an item kills          it is found by halving what may have killed, and recorded
    a message is lost      the sweeper sends it again
    the broker is away     tickets that are held go on; then the sweeper sends anew
    PostgreSQL is away     shards stop at their next write, and go on when it is back

Not promised
    that an item which was running when its worker died does not run twice: its result
    and its error are recorded once. That order between items of a layer means anything.

Where things are
    decide       ``plan/``, ``layers``, ``sources/``, ``policies`` (pure)
    remember     ``ledger/`` and ``sql/``
    move on      ``flow/``, ``stages/``, ``sweeper``, ``messages``
    run          ``runner/``, ``worker/``
    call         ``app``, ``canvas/``
    look         ``overview``, ``views``, ``findings``, ``cli/``, ``flower/``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_pecker.kernel.lazy_names import lazy_names as _lazy_names
from celery_sharding.errors import (
    CycleFound,
    DuplicateKey,
    InlineLimitExceeded,
    InstanceNotFound,
    ItemNotSerializable,
    JobCancelled,
    JobDeadlineExceeded,
    JobFailed,
    JobNotFound,
    NoExecutor,
    ProcessorNotRegistered,
    ShardingError,
    SubmissionUnknown,
    TooManyFailed,
    WrongStage,
)

if TYPE_CHECKING:
    from celery_sharding import layers, sources
    from celery_sharding.app import Sharding
    from celery_sharding.canvas import ShardedResult, ShardedTask, sharded
    from celery_sharding.model import (
        Code,
        Cut,
        ItemError,
        Job,
        Outcome,
        Placement,
        Progress,
        Stage,
    )
    from celery_sharding.policies import FailFast, Isolate, Retry
    from celery_sharding.runner import Shard
    from celery_sharding.sources import File, KeyRange, Query, Source

__all__ = [  # noqa: RUF022  # grouped for the reader
    # a job as a task
    "Sharding",
    "ShardedTask",
    "ShardedResult",
    "sharded",
    # arguments of processors
    "Job",
    "Shard",
    "Progress",
    "ItemError",
    # data
    "layers",
    "sources",
    "Source",
    "KeyRange",
    "File",
    "Query",
    # policies
    "Isolate",
    "FailFast",
    "Retry",
    "Cut",
    "Placement",
    # how things stand
    "Code",
    "Stage",
    "Outcome",
    # errors, by what to do about them
    "ShardingError",
    "SubmissionUnknown",
    "JobNotFound",
    "InstanceNotFound",
    "ProcessorNotRegistered",
    "NoExecutor",
    "ItemNotSerializable",
    "InlineLimitExceeded",
    "DuplicateKey",
    "CycleFound",
    "WrongStage",
    "JobFailed",
    "TooManyFailed",
    "JobDeadlineExceeded",
    "JobCancelled",
]

__getattr__, __dir__ = _lazy_names(
    globals(),
    {
        "app": "Sharding",
        "canvas": "ShardedTask ShardedResult sharded",
        "runner": "Shard",
        "layers": "layers",
        "sources": "sources Source KeyRange File Query",
        "model": "Code Cut ItemError Job Outcome Placement Progress Stage model",
        "policies": "FailFast Isolate Retry policies",
    },
)

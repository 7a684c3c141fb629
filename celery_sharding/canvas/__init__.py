"""How a sharded job is called: a task, its signature, and its result.

    result = import_rows.delay(rows)
    chain(fetch.s(url), import_rows.s(), mail.s()).delay()
    sharded(import_one.s(), items, size=(50, 500)).delay()

=================  =========================================================
``task``           `ShardedTask`: a Celery task whose run is a whole job
``signature``      `sharded` for tasks of one item, and the signature that
                   holds items until it is sent
``inline``         items and Sources that a call brought: stored, and named there
``sending``        a call becomes a row before its message is sent
``result``         `ShardedResult`: progress, pause, cancel, retry, errors
``eager``          a job that runs in the caller, with no database
``each_item``      the sharded task that stands behind `sharded`
=================  =========================================================

Behaviour stands in the task, not in the signature: on the wire a sharded signature is
a plain one, which a worker forwards that does not know this package.
"""

from celery_sharding.canvas.result import ShardedResult
from celery_sharding.canvas.signature import sharded
from celery_sharding.canvas.task import ShardedTask

__all__ = ["ShardedResult", "ShardedTask", "sharded"]

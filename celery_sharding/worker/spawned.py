"""What a pool process that is a fresh interpreter needs to run shards.

It holds in the name of its worker, sees when that is about to stop, and leaves word of
what it has in hand. The worker adds this module to what such processes import.
"""

from celery import signals

from celery_sharding.runner.shard_worker import register_spawned_process


def _register(**_: object) -> None:
    register_spawned_process()


signals.worker_process_init.connect(
    _register, dispatch_uid="celery_sharding.worker.spawned", weak=False
)

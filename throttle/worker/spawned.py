"""What a pool process that is a fresh interpreter needs to be counted.

The worker adds this module to what such processes import.
"""

from celery import signals

from throttle.worker.pool import enter_spawned

signals.worker_process_init.connect(
    enter_spawned, dispatch_uid="throttle.worker.spawned", weak=False
)

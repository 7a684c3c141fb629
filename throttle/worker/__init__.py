"""What throttle adds to a Celery worker: tasks wait before they take a slot.

Celery hands every task that may run to one function of its consumer: those that arrive,
those whose ETA has come, those that a `rate_limit` let through. The hook stands before
that function. It asks the accounts, which answer from memory, and either lets the task
through or keeps its request: unacknowledged, out of the worker's reserved tasks (so
that the autoscaler and `worker_disable_prefetch` do not see it), and made up for by one
more message of prefetch, so that other tasks pass. One timer, which runs only while
something is held, lets held tasks through as the share allows.

A held task was neither acknowledged nor started. Whatever happens to the worker or to
its connection, the broker redelivers it.

    ``install``             hangs all of it on a worker's consumer, by itself or asked;
                            what a worker answers to ``celery inspect throttle``
    ``starting``            what is refused at the start, in one line
    ``worker_throttle``     all of it in one worker, and its exchange with the store
    ``hook``                through, held or parked; and released
    ``held_tasks``          those that have a `rate_limit` too; those that never start
    ``pool``                what the pool's processes count, by task; admitted tasks,
                            until they are over
    ``spawned``             the same in processes that are fresh interpreters
    ``brokers``             what only Redis or only RabbitMQ can do
    ``overflow``            where tasks wait that are too many to be held

It comes by itself where the settings ask for it, in workers that the ``celery worker``
command starts; `install(app)`, or `throttle.Throttle(app)`, adds it to any other.
"""

from throttle.worker.install import ThrottleStep, connect, install

__all__ = ["ThrottleStep", "connect", "install"]

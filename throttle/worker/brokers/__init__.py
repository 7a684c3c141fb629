"""What a worker does with messages that it may not run yet, broker by broker.

A held message is delivered and not acknowledged. Each broker has its own time limit for
that, and its own safe way to move a message elsewhere.

    *Redis*      holds as long as it is asked to (`renew`); moves within one script:
                 exactly once, also if the answer is lost
    *RabbitMQ*   closes the channel after 30 minutes, so what is held too long goes back
                 (`hand_back`); moves by a confirmed publish, then the acknowledgement:
                 a crash between the two delivers the message twice
    *others*     as RabbitMQ, without the confirmation

Prefetch. For each held message the worker may take one more. That addend is kept beside
Celery's own count, which is not touched: Celery cuts its count at
`worker_eta_task_limit`, sets it anew after a reconnect, and changes it with the pool.

Parking. A queue per database and source, ``<prefix>.parking.<database>.<queue>``.
Only workers that consume from the source take from it: others may not know the task. A
message keeps its body, headers, properties and delivery_info, so that a task that
retries itself goes where it came from.

All of it runs where Celery acknowledges: in the thread of the worker's loop. Nothing
outlives the connection: a new one has a new broker.
"""

from typing import Any

from celery.utils.imports import symbol_by_name

from throttle.settings import Settings
from throttle.worker.brokers.broker import Broker, Callbacks

KNOWN = {
    "redis": "throttle.worker.brokers.redis:broker_of",
    "amqp": "throttle.worker.brokers.amqp:AmqpBroker",
}
"""What makes a broker, by the driver type of kombu's transport."""


def broker_of(consumer: Any, settings: Settings, callbacks: Callbacks) -> Broker:
    """Return what fits the connected consumer's transport; its tasks step is started.

    `consumer` is Celery's, with `task_consumer` and `qos`.
    """
    driver = consumer.connection.transport.driver_type
    # A worker on one broker does not load the client of another.
    path = KNOWN.get(driver, "throttle.worker.brokers.broker:OtherBroker")
    broker: Broker = symbol_by_name(path)(consumer, settings, callbacks)
    return broker

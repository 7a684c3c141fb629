"""Puts many task messages on the broker in one go.

A scheduler has a moment between "this slot is mine" and "its message is out" in which
a crash loses the slot. This package makes that moment short: all that Celery has to
build is built before, and what is left is one push for a whole batch.

Two lanes lead to the broker, and both put the same message on the wire:

- *fast*: Celery and kombu build each entry's message once, on a channel that keeps it
  instead of sending it. Each slot fills in its id, its expiry and its `pecker` header.
  On Redis one script pushes up to 1,000 messages, all or nothing, under a token; on
  RabbitMQ they are written together and their confirms are awaited at the end.
- *slow*: Celery's own `Scheduler.apply_entry` for each entry, inside kombu's
  `Producer.batch()`, so that instrumentation sees what it expects.

The fast lane is taken only when no code could see the difference (`lanes`). That is
asked before each batch: a process that becomes instrumented is slow at once.

What is promised, and what is not:

- Nothing is sent twice by itself. Neither kombu nor redis-py may retry; the caller
  decides, knowing what happened: `BrokerUnavailable` means that nothing was sent,
  `PublishUncertain` that something may have been.
- On Redis the same batch under the same token is pushed once, so a retry after a lost
  answer is exact for ten minutes. On RabbitMQ, and in the slow lane, it is not: a
  message whose confirm was lost may have arrived, and its task's id is what a worker
  can tell it by.
- No call waits for ever: each answer of the broker may take `timeout` seconds.

In the fast lane `Backend.on_task_call` of a result backend is not called.
Celery's beat calls it, and so subscribes to a result that beat never reads.
"""

from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.brokers.publisher.publisher import Publisher

__all__ = ["Dispatch", "Publisher"]

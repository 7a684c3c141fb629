"""Messages recorded in the caller's transaction, and delivered afterwards.

A task that is sent before the commit runs on rows that are not there; one that is sent
after it is lost when the process dies in between. An outbox records the message in the
same transaction as the data it is about. Commit sends it, rollback sends nothing.

Nouns
    *message*    what Celery's own ``apply_async`` built, kept instead of sent
    *record*     to write a message into ``pecker_outbox``
    *adapter*    the connection, session or alias whose transaction a message joins
    *mode*       how long the row stays: ``relay`` (until the broker has the message),
                 ``until_done`` (until its task succeeded), ``local`` (the same, and no
                 broker is needed)
    *due*        the instant before which a message is not delivered: an ``eta`` or
                 ``countdown`` waits in the table, not in the memory of a worker

What decides
    for what is sent: the caller's transaction. For when: PostgreSQL's clock.

Under failure
    the caller dies before the commit   nothing was recorded
    it dies after the commit            the message is in the table: it is delivered
    the broker is away                  recording goes on, the table grows

Not promised
    an order between messages, or that a task runs once: it may run more than once under
    the same task id.
"""

from typing import TYPE_CHECKING

from celery_pecker.kernel.lazy_names import lazy_names

if TYPE_CHECKING:
    from celery_pecker.outbox.app import Outbox, outboxes
    from celery_pecker.outbox.model import Mode

__all__ = ["Mode", "Outbox", "outboxes"]

__getattr__, __dir__ = lazy_names(
    globals(),
    {"model": "Mode", "app": "Outbox outboxes"},
)

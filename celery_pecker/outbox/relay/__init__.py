"""Deliver what an outbox holds to the broker.

Every scheduler replica and every worker with ``pecker_worker`` delivers; there is no
leader. One thread serves one table, so a table whose server is dead or slow holds no
other up.

Nouns
    *batch*   ids that one relay has in hand, under one token; a row of
              ``pecker_outbox_batches``
    *turn*    the right to choose ids; a relay that loses it chooses nothing
    *hold*    for how long a relay may keep a batch
    *alone*   a batch whose messages are sent one by one

Modules
    batches        the statements
    batch_plan     which messages go together, alone or aside (pure)
    watermark      below which id nothing is left, and where to look again (pure)
    vacuum         asks for a vacuum where it is worth it
    delivery       a batch: read, push, delete
    step           one step: probe the broker, claim, deliver

The threads are started in ``celery_pecker.schedules.replica.relays``.

Under failure
    a relay dies before the push          another takes the batch after the hold
    it dies between push and delete       another pushes the batch under the same token:
                                          Redis adds nothing, RabbitMQ has it twice
    it is frozen past the hold            it does not push, and its delete finds nothing
    the broker is away                    nothing is claimed; the table grows
    the broker refuses one message        that one is parked with its error

See docs/explanation/delivery.md.
"""

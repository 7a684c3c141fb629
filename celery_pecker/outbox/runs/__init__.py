"""Rows that stay until their task has succeeded: modes ``until_done`` and ``local``.

Nouns
    *attempt*    a run that has started; the row counts it when the run starts, so that
                 a message that waits in a broker costs none
    *hold*       for how long a start keeps other runs of the row away: 2^n minutes at
                 the n-th retry, with a cap; the run's deadline lies inside of it
    *push*       a message that is sent for a row of mode ``until_done``
    *emergency*  what completes a task instead, from its n-th failure on
    *parked*     kept with its error until it is retried or dropped; nothing runs it
    *load*       how hard the processing may work, changed while it runs

Modules
    holds    how long, and what follows from the end of a run (pure)
    options  what a task says of its runs (pure)
    load     threads, pauses and urgent types
    header   what a message says of its row (pure)
    rows     the statements
    service  starts and ends runs in bounded time
    services which outbox has the row of a message
    pushes   sends the messages of what is due
    messages what stands around a task: start, deadline, emergency, end

What decides
    the row. Its epoch rises with each start: a message or a run of an older epoch
    starts and writes nothing.

Under failure
    a worker dies in a run          the row is due again after the hold
    it is frozen and wakes          its end finds a newer epoch, and changes nothing
    a message is lost by a broker   the row is pushed again
    it comes twice, or late         the second one starts nothing
    the database is away            no run starts; the end of one is written later,
                                    or the task runs again
"""

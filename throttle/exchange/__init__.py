"""One thread per process reports what was counted, and reads the answers.

Every 100 ms it reads the meter, sends what was counted since as samples with their age,
and puts what the store answers into an immutable snapshot that others read without
I/O: no thread of a user's, and no loop of a worker's, ever waits for Redis.

While the store is away samples are kept for ten seconds, older ones are dropped and
counted; it is retried five to ten times a second, so that all is well within
a second of its return. A report whose answer was lost is sent once more under its
number, and counts once.

A web process reports by two lines, and ends by itself::

    from throttle.exchange.process import report

    report(app)                       # a Celery app, or Settings

    ``exchanger``  the thread; samples that the store has not confirmed (pure)
    ``process``    the one exchange of a process that is no worker, also after a fork
"""

from throttle.exchange.exchanger import Exchanger, Snapshot

__all__ = ["Exchanger", "Snapshot"]

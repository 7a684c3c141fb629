"""Counts what a process does to its databases, so cheaply that all of it is counted.

A statement adds to a few integers of its own thread: no lock, no queue, no socket, and
nothing that could wait. One thread of the process reads them every 100 ms.

    from throttle.meter import meter

    tally = meter.tally("main")         # once
    tally.add(seconds=0.002, rows=10)   # by hand; `throttle.instrument` does it for you
    meter.read()                        # what came since it was read last

Where the integers are
    *threads, gevent, solo, web processes*  in a list of each thread or greenlet
    *children of a prefork worker*          in shared memory, which the parent made
                                            before it forked, and reads; a child does
                                            no I/O

One writer per integer, so an addition is never lost. What finds no place (more than
127 databases, 10,000 threads, a child beyond the rows) is dropped and counted.

Where things are
    which integer is what      ``cells``
    a thread's integers        ``thread_cells``; of one database: `Tally`
    a child's shared memory    ``rows``
    what is new since          ``deltas``
    all of it together         ``counting``
"""

from throttle.meter.counting import Meter, meter
from throttle.meter.thread_cells import Tally

__all__ = ["Meter", "Tally", "meter"]

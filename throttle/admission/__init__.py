"""How much a worker lets in: pure arithmetic under a lock, no I/O, no threads.

`Accounts` is asked before each task (`admit`) and learns every 100 ms what was counted
(`observe`) and what the store answered (`update`).

Where things are
    ``accounts``   all databases of a process: what asks, which policy is in force
    ``account``    one database; turns of many workers with few large runs each
    ``flow``       the law, in one dimension: operations, or seconds
    ``costs``      what a run of a task costs: learned by task and tenant; kept for
                   workers to come; runs that have not been seen to end
"""

from throttle.admission.account import State
from throttle.admission.accounts import Accounts

__all__ = ["Accounts", "State"]

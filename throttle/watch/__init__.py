"""The second signal: what PostgreSQL says of itself may lower a limit.

What processes count is immediate, but it is only what they count. Where a limit has
``watch``, one process in all, elected in the store, asks that server once a second how
many backends work, how much log they write and how far its replicas are behind. It may
only lower the limit in force, for some seconds at a time, and never blames the tasks
for what comes while they do nothing.

    limit_factor  what follows from what the server says (pure)
    signal        the question to PostgreSQL, in bounded time
    watcher       one thread per watched database: elected, ask, judge, tell the store
"""

from throttle.watch.watcher import Watching, start

__all__ = ["Watching", "start"]

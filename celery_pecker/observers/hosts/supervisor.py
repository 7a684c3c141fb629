"""Plans the hosts of an app: what each is started with, and what is refused."""

import fcntl
import hashlib
import itertools
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.settings import PREFIX
from celery_pecker.observers.app import Observers
from celery_pecker.observers.hosts import capacity, supervisor_main
from celery_pecker.observers.hosts.supervised_hosts import (
    SupervisedHost,
    SupervisedHosts,
)


class Supervisor(SupervisedHosts):
    """The hosts of one worker, or of one ``pecker observe``."""

    def __init__(
        self,
        observers: Observers,
        *,
        name: str | None = None,
        hosts: int | None = None,
        room: int | None = None,
        loglevel: str = "INFO",
    ) -> None:
        settings = observers.settings
        count = hosts or settings.observers_hosts
        room = room or settings.observers_capacity
        if room is None:
            room = capacity.worked_out(capacity.cores(), capacity.memory(), count)
        if not observers.kinds:
            raise Misconfigured(
                "no observer is declared: a host would have nothing to run"
            )
        heavy = max(observers.kinds.values(), key=lambda one: one.options.weight)
        if heavy.options.weight > room:
            raise Misconfigured(
                f"pecker_observers_capacity is {room} for each host, and observer"
                f" {heavy.kind!r} has the weight {heavy.options.weight}; allowed is a"
                " capacity of that weight or more"
            )
        self._base = base = name or socket.gethostname()
        self._settings = settings
        named = {one.function.__module__ for one in observers.kinds.values()}
        config = {
            "home": _home(observers),
            "path": sys.path,
            "modules": sorted(named - {"__main__"}),
            "conf": {
                PREFIX + k: v for k, v in asdict(settings).items() if v is not None
            },
            "capacity": room,
            "loglevel": loglevel,
        }
        super().__init__(
            [
                SupervisedHost({**config, "name": f"{base}-{number}"})
                for number in range(count)
            ]
        )

    def become(self, place: Path) -> None:
        """Supervise as this process, without the app; does not return.

        Supervising needs no more than the standard library: the app and its libraries
        were most of this process's memory, and hosts import it themselves. ``place``: a
        folder for files of this user.
        """
        for host, name in zip(self.hosts, self._free_names(place), strict=False):
            host.config["name"] = name
        with (
            # In memory, where the system has such a file: disks may be read-only.
            os.fdopen(os.memfd_create("pecker observe"), "w+b")
            if hasattr(os, "memfd_create")
            else tempfile.TemporaryFile()
        ) as file:
            file.write(json.dumps([host.config for host in self.hosts]).encode())
            file.seek(0)
            os.dup2(file.fileno(), 0)
        words = ["-m", supervisor_main.__name__, *sys.argv[1:]]  # as `ps` shows it
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *words])  # noqa: S606  # no shell

    def _free_names(self, place: Path) -> Iterator[str]:
        """Yield names that hosts of no other ``pecker observe`` of this machine have.

        Each is held by a lock of a file, to the end of this process. Where there is no
        place for files, the names are the first ones.
        """
        one = self._settings
        for number in itertools.count():
            name = f"{self._base}-{number}"
            key = hashlib.sha256(f"{one.dsn}\0{one.schema}\0{name}".encode())
            path = place / f"observe-{key.hexdigest()[:16]}"
            with suppress(OSError):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                file = os.open(path, flags, 0o600)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(file)
                    continue
                os.set_inheritable(file, True)  # it outlives exec
            yield name


def _home(observers: Observers) -> str:
    if observers.home != "__main__":
        return observers.home
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None or not spec.name:
        raise Misconfigured(
            "Observers(app) is made in a script, which hosts cannot import; allowed is"
            " a module that is imported by its name"
        )
    return str(spec.name)

"""What runs shards: the worker, its pool, and whether it is about to stop."""

import json
import mmap
import os
import socket
from dataclasses import dataclass
from struct import Struct
from typing import Any
from weakref import WeakKeyDictionary

from celery_pecker.kernel import shared_memory
from celery_pecker.kernel.clock import monotonic, new_tag, pause

ON = b"\1"
WORD = 8
"""Bytes before the places: whether the worker is about to stop."""
SOON, GLANCE = 1.0, 0.02
"""Seconds in which a worker says that it stops, and between two looks."""
MEMORY = "CELERY_SHARDING_MEMORY"
WORKER = "CELERY_SHARDING_WORKER"
"""Environment variables by which fresh interpreters of a pool find their worker."""
IN_HAND = Struct("<qqq")
"""A process, and the job and shard that it runs."""
PLACES = 1_024
"""Processes by their number modulo this. Where two share a place one is not known, and
whatever it held is suspected if it dies."""
SIZE = WORD + PLACES * IN_HAND.size


@dataclass(eq=False, repr=False)
class ShardWorker:
    """A worker, as its processes and threads see it."""

    hostname: str
    pool: str = ""
    """Celery's word for it: how code is interrupted."""
    limited: bool = False
    """Whether the worker ends tasks that take long."""
    memory: mmap.mmap | None = None
    """Which its children share: made before the pool forks; None: it is made here."""

    def __post_init__(self) -> None:
        shared = memoryview(self.memory or shared_memory.make(SIZE))
        self._stopping, self._in_hand = shared[:WORD], shared[WORD:SIZE]
        self._life = (0, "")

    @property
    def stopping(self) -> bool:
        """Whether the worker is about to stop: no further item is begun."""
        return bool(self._stopping[:1] == ON)

    def stops_soon(self) -> bool:
        """Return whether the worker is about to stop, or does within a second.

        Its processes may be ended a moment before it says so itself.
        """
        until = monotonic() + SOON
        while not self.stopping and monotonic() < until:
            pause(GLANCE)
        return self.stopping

    def stop(self) -> None:
        """Let all processes of the worker know that it is about to stop."""
        self._stopping[:1] = ON

    def take_up(self, job: int, shard: int) -> None:
        """Record what this process runs now, for the process that sees it die."""
        process = os.getpid()
        place = process % PLACES * IN_HAND.size
        IN_HAND.pack_into(self._in_hand, place, process, job, shard)

    def in_hand(self, process: int) -> tuple[int, int] | None:
        """Return the job and the shard that a process took up last; None: not known."""
        place = process % PLACES * IN_HAND.size
        owner, job, shard = IN_HAND.unpack_from(self._in_hand, place)
        return (job, shard) if owner == process else None

    def processes(self) -> frozenset[int]:
        """Return the processes that took up a shard, this one left out."""
        listed = {
            process for process, _, _ in IN_HAND.iter_unpack(bytes(self._in_hand))
        }
        return frozenset(listed - {0, os.getpid()})

    def forget(self, process: int) -> None:
        """Forget that process."""
        if self.in_hand(process) is not None:
            IN_HAND.pack_into(self._in_hand, process % PLACES * IN_HAND.size, 0, 0, 0)

    @property
    def holder(self) -> str:
        """The name of this process: unique, also after a fork."""
        process, name = self._life
        if process != os.getpid():
            process = os.getpid()
            name = f"{self.prefix(process)}{new_tag()}"
            self._life = (process, name)
        return name

    def prefix(self, process: int) -> str:
        """Return how the names of that process of this worker begin."""
        return f"{self.hostname}:{process}:"


def register_process(
    app: Any, hostname: str, pool: str, *, limited: bool = False, spawns: bool = False
) -> ShardWorker:
    """Return the executor that this process, and its children, are from now on.

    ``spawns``: its children are fresh interpreters, which call
    `register_spawned_process`.
    """
    memory = None
    if spawns:
        memory = shared_memory.make(SIZE, variable=MEMORY)
        described = {"hostname": hostname, "pool": pool, "limited": limited}
        os.environ[WORKER] = json.dumps(described)
    executor = ShardWorker(hostname, pool, limited=limited, memory=memory)
    _executors[app] = executor
    return executor


def register_spawned_process() -> None:
    """Make this fresh interpreter a process of its worker's pool, for every app."""
    memory = shared_memory.join(MEMORY)
    if memory is not None:
        described = json.loads(os.environ[WORKER])
        _spawned.append(ShardWorker(memory=memory, **described))


def executor_of(app: Any) -> ShardWorker:
    """Return the executor of an app; outside of workers with our step, a plain one."""
    if _spawned:
        return _spawned[-1]
    executor = _executors.get(app)
    return (
        executor
        if executor is not None
        else register_process(app, socket.gethostname(), "")
    )


_executors: WeakKeyDictionary[Any, ShardWorker] = WeakKeyDictionary()
_spawned: list[ShardWorker] = []
"""Of a fresh interpreter: there the app of a module is not that of the worker."""

"""All that one process of a scheduler runs: replicas, relays, alarms, and its port."""

from collections.abc import Callable
from typing import Any

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.schedules.replica.alarms import Alarms
from celery_pecker.schedules.replica.relays import Relays
from celery_pecker.schedules.replica.replica import LAST_BATCH, Replica
from celery_pecker.schedules.replica.unknown_tasks import UnknownTasks


class Process:
    """The threads of beat, or of a worker that schedules; not yet started.

    ``replicas``: the first one publishes.

    Raises:
        Misconfigured: something of the relays, the alarms or the port is wrong.

    """

    def __init__(self, replicas: list[Replica], *, hostname: str) -> None:
        self.replicas = replicas
        first = replicas[0].claimant
        app, settings, kind = first.app, first.settings, first.kind
        self._relays = Relays(app, kind=kind)
        outboxes = self._relays.settings
        self._alarms = Alarms(
            *(app, first.beat_schedule, settings),
            kind=kind,
            shut=replicas[0].shut,
            held=lambda: {name for one in self.replicas for name in one.held()},
            outboxes=outboxes,
            ready=lambda: any(one.idle is not None for one in self.replicas),
        )
        self._unknown_tasks = UnknownTasks(app, replicas[0], kind=kind)
        self._open_port: Callable[[], Callable[[], None]] = lambda: lambda: None
        if settings.metrics:
            from celery_pecker.surfaces import metrics  # noqa: PLC0415  # an extra

            self._open_port = lambda: (
                metrics.Server(
                    settings, alive=self.alive, hostname=hostname, outboxes=outboxes
                ).close
            )

    def start(self) -> Callable[[], None]:
        """Start all threads, and open the port; return what closes that."""
        for part in self._parts():
            part.start()
        return self._open_port()

    def add(self, replica: Replica) -> None:
        """Start one more, while the others run."""
        self.replicas = [*self.replicas, replica]  # other threads walk over the old one
        replica.start()

    def stop(self) -> None:
        """Claim nothing more, and leave. Safe in a signal handler, idempotent."""
        for part in self._parts():
            part.stop()

    def join(self) -> None:
        """Wait for the batches in flight: half a second at most, whatever hangs."""
        until = SYSTEM.monotonic() + LAST_BATCH
        for part in self._parts():
            part.join(max(until - SYSTEM.monotonic(), 0.0))

    def close_history(self, timeout: float) -> None:
        """Have the last reports written, if that is possible at once."""
        for replica in self.replicas:
            replica.close_history(timeout)

    def alive(self) -> bool:
        """Return whether all loops turn, servers or no servers."""
        return self._relays.alive and all(one.alive for one in self.replicas)

    def info(self) -> list[dict[str, Any]]:
        """Return what people may want to know of its replicas, then of its relays."""
        return [one.info() for one in self.replicas] + self._relays.info()

    def _parts(self) -> list[Replica | Relays | Alarms | UnknownTasks]:
        return [*self.replicas, self._relays, self._alarms, self._unknown_tasks]

"""The outboxes that a worker knows, and which of them has the row of a message."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox.runs.header import RowRef
from celery_pecker.outbox.runs.service import RunService

logger = logging.getLogger("celery_pecker.outbox")

UNKNOWN = (
    "its outbox {!r} is not known to this worker, and none that is has its row; it"
    " is sent again after its hold, for a worker whose code makes that outbox"
)
DEFAULT = "default"
"""The name of the outbox of an app that names none."""


class Services:
    """What starts and ends runs, of each outbox that is known here.

    Args:
        settings: gives the settings of an outbox by its name; None: it is not known.
        names: gives the names of those that are known.
    """

    def __init__(
        self,
        settings: Callable[[str], Settings | None],
        names: Callable[[], Iterable[str]],
    ) -> None:
        self._settings = settings
        self._names = names
        self._services: dict[str, RunService] = {}

    def named(self, outbox: str) -> RunService | None:
        """Return the service of an outbox; None: it is not known here."""
        if outbox not in self._services:
            settings = self._settings(outbox)
            if settings is None:
                return None
            self._services.setdefault(outbox, RunService(settings))
        return self._services[outbox]

    def of(self, ref: RowRef, task: str) -> Iterator[RunService]:
        """Yield the services that may have a message's row, until one has it.

        The first is the one of that name, unasked. If there is none, or it has not got
        the row, the row is looked for in the other tables, which asks PostgreSQL: the
        outbox has another name here.

        Raises:
            PeckerError: none has it, and one of them did not answer.
        """
        known = self.named(ref.outbox)
        if known is not None:
            yield known
        silent: PeckerError | None = None
        for name in self._names():
            service = self.named(name)
            if service is None or service is known:
                continue
            try:
                has_it = service.has(ref)
            except PeckerError as error:
                silent = error
                continue
            if has_it:
                logger.warning(
                    "pecker: the recorded task %s[%s] is of outbox %r, which has the"
                    " name %r here: give it one name everywhere",
                    *(task, ref.task_id, ref.outbox, name),
                )
                yield service
                return
        if silent is not None:
            raise silent

    def close(self) -> None:
        """Let go of the databases."""
        for service in self._services.values():
            service.close()

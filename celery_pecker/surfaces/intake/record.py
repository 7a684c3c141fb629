"""Record the tasks of a request, and its key, in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from celery_pecker.kernel.errors import PeckerError
from celery_pecker.surfaces.intake.request import Order

if TYPE_CHECKING:
    from celery_pecker.outbox import Outbox

KEPT = 86_400.0
"""Seconds for which a key is known."""


class OtherBody(PeckerError):
    """This Idempotency-Key was used for a request with another body."""


class _Repeated(Exception):
    """The key is known: what the block wrote is rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What became of a request."""

    ids: list[str]
    repeated: bool
    """Recorded by an earlier request under the same key."""


class Intake:
    """Record requests in an outbox; safe for threads."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def record(self, orders: Sequence[Order], key: str | None, body: bytes) -> Recorded:
        """Return the ids of the tasks once they are committed.

        Raises:
            OtherBody: the key is that of another request.
            NotRecorded: Celery cannot build a message; nothing was written.
            DatabaseUnavailable: it is not known whether it was recorded; the same
                request under the same key may be sent once more.

        """
        digest = hashlib.sha256(body).digest()
        if key is not None and (known := self._known(key, digest)):
            return known
        try:
            ids = self._write(orders, key, digest)
        except _Repeated:
            known = self._known(str(key), digest)
            if known is None:
                message = "the first request of this key was not recorded after all"
                raise PeckerError(message) from None
            return known
        return Recorded(ids=ids, repeated=False)

    def prune(self) -> None:
        """Forget keys that are older than a day."""
        with self._outbox.transaction() as database:
            database.run("prune_intake_keys", now=None, seconds=KEPT)

    def check(self) -> None:
        """Raise DatabaseUnavailable or SchemaOutdated if nothing can be recorded."""
        with self._outbox.transaction() as database:
            database.run("read_intake_key", key="")

    def _write(
        self, orders: Sequence[Order], key: str | None, digest: bytes
    ) -> list[str]:
        with self._outbox.transaction() as database:
            ids = [self._one(order) for order in orders]
            if key is not None:
                row = {"key": key, "digest": digest, "task_ids": ids}
                if not database.run("keep_intake_key", now=None, **row):
                    raise _Repeated
        return ids

    def _one(self, order: Order) -> str:
        signature: Any = self._outbox.app.signature(
            order.task, args=order.args, kwargs=order.kwargs
        )
        result = self._outbox.send(signature, **order.options)
        return str(result.id)

    def _known(self, key: str, digest: bytes) -> Recorded | None:
        with self._outbox.transaction() as database:
            rows = database.run("read_intake_key", key=key)
        if not rows:
            return None
        [(before, ids)] = rows
        if bytes(before) != digest:
            raise OtherBody
        return Recorded(ids=list(ids), repeated=True)

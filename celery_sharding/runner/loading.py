"""The items of claimed shards: stored with the job, or read from a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from celery_sharding import codec, sources
from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, Shard
from celery_sharding.runner import processor_call
from celery_sharding.runner.result_buffer import Known

MISSING = "its items are not in the ledger"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A shard's own items, or why they cannot be had."""

    items: Sequence[Any]
    known: Known
    error: BaseException | str | None = None


class Loader:
    """Gets at the items of a batch of shards."""

    def __init__(
        self, ledger: Ledger, job: int, records: Sequence[Shard], conf: Any
    ) -> None:
        """Load what is stored of all of them at once."""
        stored = [
            one.origin
            for one in records
            if one.reference is None or sources.is_listed(one.reference)
        ]
        self._bodies: Mapping[int, bytes] = (
            ledger.shards.items(job, sorted({*stored})) if stored else {}
        )
        torn = [
            one
            for one in records
            if _ended_in_failed_call(one) or one.done > one.returned
        ]
        self._pending = ledger.shards.pending(job, torn) if torn else {}
        self._conf = conf

    def load(self, record: Shard) -> Loaded:
        """Return the items of one, in its order."""
        items, error = processor_call.attempt(self._items, record)
        pending = self._pending.get(record.shard, ())
        retry = [place for place, code in pending if code is not Code.DIED]
        known = Known(
            retry=retry if _ended_in_failed_call(record) else (),
            failed=frozenset(place for place, _ in pending),
            counted=record.reference is None or record.picks is not None,
        )
        if error is None and items is None:
            return Loaded([], known, MISSING)
        return Loaded(items or [], known, error)

    def _items(self, record: Shard) -> Sequence[Any] | None:
        reference = record.reference
        body = self._bodies.get(record.origin)
        if body is None and (reference is None or sources.is_listed(reference)):
            return None
        stored: Any = None if body is None else codec.decode(body)
        whole: Sequence[Any] = (
            stored
            if reference is None
            else [*sources.read(reference, self._conf, stored)]
        )
        if record.picks is not None:
            return [whole[place] for place in record.picks]
        if record.reference is not None:
            # how many there are, it says itself
            return whole[record.lo :]
        return whole[record.lo : record.hi]


def _ended_in_failed_call(record: Shard) -> bool:
    """Return whether items of it that have ended are to be retried in the end."""
    return record.cursor > record.done + record.failed

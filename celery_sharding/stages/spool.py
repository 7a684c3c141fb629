"""Shards on their way from a user's code into the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile
from typing import Any, Self

from kombu.utils.json import dumps, loads

from celery_sharding.errors import PlanLimitExceeded
from celery_sharding.model import Planned

HELD = 8_000_000
"""Bytes that are kept in memory; more of a plan lies in a file until it is written."""


class Spool:
    """Planned shards, read from whatever makes them, to be written without waiting.

    A source or a generator of the user may take minutes for its next item. A
    transaction that was open meanwhile would keep the purge and vacuum from their work
    and be undone by the server, so all is read before one begins. It can be iterated
    any number of times: a write that got no answer is tried once more.
    """

    def __init__(self, limit: int) -> None:
        """Take ``limit``, the bytes that fit; more is refused."""
        self.limit = limit
        self._file = SpooledTemporaryFile(max_size=HELD)  # noqa: SIM115  # see __exit__
        self.shards = 0

    def take(self, shards: Iterable[Planned]) -> None:
        """Take all of them in their order; raise PlanLimitExceeded."""
        for one in shards:
            body = one.body
            size = None if body is None else len(body)
            head = [one.layer, one.count, one.reference, one.owner, size]
            self._file.write(dumps(head).encode() + b"\n")
            self._file.write(body or b"")
            self.shards += 1
            if self._file.tell() > self.limit:
                message = (
                    f"the first {self.shards} shards take more than"
                    f" sharding_plan_limit = {self.limit} bytes; raise it, or give a"
                    " Source, of which no item is stored"
                )
                raise PlanLimitExceeded(message)

    def __iter__(self) -> Iterator[Planned]:
        """Yield them, from the first on."""
        self._file.seek(0)
        for _ in range(self.shards):
            head: list[Any] = loads(self._file.readline().decode())
            layer, count, reference, owner, size = head
            body = None if size is None else self._file.read(size)
            yield Planned(
                layer=layer, count=count, body=body, reference=reference, owner=owner
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

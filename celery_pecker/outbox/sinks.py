"""Where messages of a block go: into a list, or straight into a transaction."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field

from celery_pecker.kernel.adapters.adapter import Adapter, AsyncAdapter, Flow
from celery_pecker.kernel.errors import NotRecorded
from celery_pecker.outbox import hook
from celery_pecker.outbox.model import Entry


@dataclass(eq=False)
class Gathering(hook.Sink):
    """Keeps the messages of a block."""

    entries: list[Entry] = field(default_factory=list)

    def take(self, entry: Entry) -> str:
        """Keep a message."""
        self.entries.append(entry)
        return entry.message.task_id


class Joined:
    """Holds a block to its transaction: what is sent after that has ended is refused.

    It would join the next one, which may never be committed.
    """

    def __init__(self, adapter: Adapter | AsyncAdapter) -> None:
        self._adapter = adapter
        self._begun = adapter.in_transaction

    def begin(self) -> None:
        """Note that the block has had a transaction."""
        self._begun = True

    def check(self) -> None:
        """Raise NotRecorded if that has ended, and no other one was begun."""
        if self._adapter.in_transaction:
            self._begun = True
        elif self._begun:
            raise NotRecorded(
                "the transaction of this block of the outbox has ended, and none was"
                " begun after it: end the block with the transaction, or begin"
                " another one before you send"
            )


@dataclass(eq=False)
class Writing(hook.Sink):
    """Hands each message to a function that writes it and knows the final id."""

    write: Callable[[list[Entry], bool], list[str]]

    def take(self, entry: Entry) -> str:
        """Write a message; return the id of the task that will run."""
        return self.write([entry], False)[0]

    def take_all(self, entries: list[Entry], *, copies: bool) -> list[str]:
        """Write messages that were built for one call."""
        return self.write(entries, copies)


@dataclass(eq=False)
class Using(AbstractContextManager[None], AbstractAsyncContextManager[None]):
    """A block in which all that is sent joins one transaction.

    It may be entered inside of itself, and by several threads or tasks at once: each
    has its blocks in its own context (`hook`).

    With `with` each message is written at once. With `async with` they are kept, since
    a call of Celery's cannot await, and written before the transaction or savepoint in
    which they were sent is committed, at the latest when the block ends without an
    exception.
    """

    _writing: Callable[[], Writing]
    _keeping: "Callable[[], Keeping]"

    def __enter__(self) -> None:
        hook.enter(self._writing(), by=self)

    def __exit__(self, *_: object) -> None:
        hook.leave(by=self)

    async def __aenter__(self) -> None:
        hook.enter(self._keeping(), by=self)

    async def __aexit__(self, *raised: object) -> None:
        keeping = hook.leave(by=self)
        assert isinstance(keeping, Keeping)  # noqa: S101  # as it was entered
        await keeping.close(writes=raised[1] is None)


@dataclass(eq=False)
class Keeping(hook.Sink):
    """Keeps messages until they can be awaited; their ids are final at once."""

    adapter: AsyncAdapter
    flow_of: Callable[[list[Entry]], Callable[[object], Flow[object]]]

    def __post_init__(self) -> None:
        self._kept: list[tuple[object, Entry]] = []
        """Each with the transaction or savepoint in which it was sent."""
        self._joined = Joined(self.adapter)
        self._end = self.adapter.follow(self._taken)

    def take(self, entry: Entry) -> str:
        """Keep a message that has no key.

        Raises:
            NotRecorded: it has one: which task it will be is known too late. Or it
                cannot be written: the transaction has failed or ended.
        """
        if entry.key is not None:
            raise NotRecorded(
                f"dedupe_key {entry.key!r} inside of `async with using`; allowed is"
                " asend(…, dedupe_key=…), which awaits which task it will be"
            )
        self._joined.check()
        self._kept.append((self.adapter.innermost(), entry))
        self._joined.check()  # that may have begun one
        return entry.message.task_id

    async def close(self, *, writes: bool) -> None:
        """End the block; write what it still has.

        Raises:
            NotRecorded: that was sent in another transaction or savepoint than the one
                in which the block ends.
        """
        try:
            if not writes or not self._kept:
                return
            self._joined.check()
            flow_in = self._taken(self.adapter.innermost())
            if self._kept:
                raise NotRecorded(
                    f"{len(self._kept)} messages of this block were sent in another"
                    " transaction or savepoint than the one in which it ends: end"
                    " savepoints inside of the block in which they were begun"
                )
            if flow_in is not None:
                await self.adapter.drive(flow_in)
        finally:
            self._end()

    def _taken(self, within: object) -> Callable[[object], Flow[object]] | None:
        self._joined.begin()
        kept, self._kept = self._kept, []
        entries = []
        for one in kept:
            if within is None or one[0] is within:
                entries.append(one[1])
            else:
                self._kept.append(one)
        return self.flow_of(entries) if entries else None

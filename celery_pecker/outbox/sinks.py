"""Where messages of a block go: into a list, or straight into a transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any

from celery_pecker.kernel.errors import NotRecorded
from celery_pecker.outbox import hook
from celery_pecker.outbox.model import Entry, Mode


class Gathering:
    """Keeps the messages of a block."""

    def __init__(
        self, app: Any, *, mode: Mode | None, limit: int, owner: object
    ) -> None:
        self.app = app
        self.mode = mode
        self.limit = limit
        self.owner = owner
        self.over = False
        self.entries: list[Entry] = []

    def take(self, entry: Entry) -> str:
        """Keep a message."""
        self.entries.append(entry)
        return entry.message.task_id

    def take_all(self, entries: list[Entry], *, copies: bool) -> list[str]:  # noqa: ARG002  # each is kept alike
        """Keep messages that were built for one call."""
        return [self.take(entry) for entry in entries]


class Writing:
    """Hands each message to a function that writes it and knows the final id."""

    mode: Mode | None = None

    def __init__(
        self,
        app: Any,
        limit: int,
        write: Callable[[list[Entry], bool], list[str]],
        *,
        owner: object,
    ) -> None:
        self.app = app
        self.limit = limit
        self.owner = owner
        self.over = False
        self._write = write

    def take(self, entry: Entry) -> str:
        """Write a message; return the id of the task that will run."""
        return self._write([entry], False)[0]

    def take_all(self, entries: list[Entry], *, copies: bool) -> list[str]:
        """Write messages that were built for one call."""
        return self._write(entries, copies)


class Using(AbstractContextManager[None], AbstractAsyncContextManager[None]):
    """A block in which all that is sent joins one transaction.

    It may be entered inside of itself, and by several threads or tasks at once: each
    has its blocks in its own context (`hook`).

    With `with` each message is written at once. With `async with` they are kept, and
    written when the block ends without an exception: a call of Celery's cannot await.
    """

    def __init__(
        self,
        writing: Callable[[], Writing],
        gathering: Callable[[], Gathering],
        awrite: Callable[[list[Entry]], Awaitable[object]],
    ) -> None:
        self._writing = writing
        self._gathering = gathering
        self._awrite = awrite

    def __enter__(self) -> None:
        hook.enter(self._writing(), by=self)

    def __exit__(self, *_: object) -> None:
        hook.leave(by=self)

    async def __aenter__(self) -> None:
        hook.enter(self._gathering(), by=self)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        gathered = hook.leave(by=self)
        assert isinstance(gathered, Gathering)  # noqa: S101  # as it was entered
        if error is None and gathered.entries:
            await self._awrite(gathered.entries)


class Awaited(Gathering):
    """Keeps messages until they can be awaited; their ids are final at once."""

    def take(self, entry: Entry) -> str:
        """Keep a message that has no key.

        Raises:
            NotRecorded: it has one: which task it will be is known too late.
        """
        if entry.key is not None:
            message = (
                f"dedupe_key {entry.key!r} inside of `async with using`; allowed is"
                " asend(…, dedupe_key=…), which awaits which task it will be"
            )
            raise NotRecorded(message)
        return super().take(entry)

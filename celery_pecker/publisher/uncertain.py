"""What was tried under a token and not answered: which part of a batch is where.

Without this a part of a batch that is tried again would be parted anew, and a token
that was given to other messages would keep it out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from celery_pecker.publisher.dispatch import Dispatch
from celery_pecker.publisher.redis_message import RedisMessage

#: Messages that one script pushes.
BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainBatch:
    """What was tried under a token whose answer did not come, or came in part."""

    place: str
    """The server that was asked: another one knows nothing of the token."""
    messages: dict[str, RedisMessage]
    numbers: dict[str, int]
    """The part of the batch that a task's message belongs to, for good."""
    attempts: dict[tuple[str, bytes], frozenset[str]] = field(default_factory=dict)
    """Which tasks a request held, by its token and fingerprint."""

    @classmethod
    def of(
        cls, work: Sequence[tuple[RedisMessage, Dispatch]], *, place: str
    ) -> UncertainBatch:
        """Return a new batch, parted."""
        return cls(
            place=place,
            messages={dispatch.task_id: message for message, dispatch in work},
            numbers={d.task_id: i // BATCH for i, (_, d) in enumerate(work)},
        )

    def chunks(
        self, work: Sequence[tuple[RedisMessage, Dispatch]]
    ) -> list[tuple[int, list[tuple[RedisMessage, Dispatch]]]]:
        """Return the batch, or what is tried again of it, in its parts.

        A task that was not in the batch before is in a part of its own.
        """
        fresh = max(self.numbers.values(), default=-1) + 1
        parts: dict[int, list[tuple[RedisMessage, Dispatch]]] = defaultdict(list)
        for message, dispatch in work:
            if dispatch.task_id not in self.numbers:
                self.numbers[dispatch.task_id] = fresh
                self.messages[dispatch.task_id] = message
            parts[self.numbers[dispatch.task_id]].append((message, dispatch))
        return sorted(parts.items())

"""What can go wrong, sorted by what the caller should do about it.

The docstring of an error is its default message: what is documented and what is
raised at run time cannot drift apart.
"""

from collections.abc import Mapping
from typing import NoReturn, Self


class PeckerError(Exception):
    """Something in celery-pecker failed."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())

    @classmethod
    def refuse(cls, what: str, value: object, allowed: str) -> NoReturn:
        """Refuse a value by its name; ``allowed`` begins with "is" or "are"."""
        raise cls(f"{what} is {value!r}; allowed {allowed}")


class Misconfigured(PeckerError, ValueError):
    """A setting or a schedule entry is wrong: mend it and start again."""


class InvalidField(Misconfigured):
    """A field of a stored schedule is wrong: nothing was written."""

    def __init__(self, message: str | None = None, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field
        """The argument of `Schedules.set` that is wrong."""


class VersionConflict(PeckerError):
    """The stored schedule has been changed since it was read."""

    def __init__(self, name: str, *, expected: int, actual: int) -> None:
        state = f"is at version {actual}" if actual else "does not exist"
        super().__init__(
            f"stored schedule {name!r} {state}, and the edit was for version"
            f" {expected}: read it, and decide anew"
        )
        self.name, self.expected, self.actual = name, expected, actual


class UnknownSchedule(PeckerError, LookupError):
    """No entry of this name is in the tables."""

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(message or f"no entry is named {name!r} in the tables")
        self.name = name

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """Return what it is made of: Celery may pickle it."""
        return type(self), (self.name, str(self))


class SlotUnderway(PeckerError):
    """A slot of it is on its way to the broker: nothing was written; try it again."""


class SchemaOutdated(Misconfigured):
    """The tables are older than this code: run `celery -A proj pecker migrate`."""


class LeaseLost(PeckerError):
    """Another holder has the row now: stop, and write nothing more."""


class Overtaken(PeckerError):
    """A newer run of this entry was claimed or has started: write nothing."""


class TooManyRows(PeckerError):
    """A statement changed more rows than can be right: a bug, not a race."""


class DatabaseUnavailable(PeckerError):
    """PostgreSQL did not answer in time: a write may or may not have happened."""

    asked = True
    """Whether PostgreSQL may have what it was asked; False: it was not reached."""


class NotRecorded(PeckerError, ValueError):
    """A task, a schedule or an observer cannot be recorded so: nothing was written."""


class NoTransaction(NotRecorded):
    """The connection has no transaction open that could be joined."""


class TransactionAborted(NotRecorded):
    """The transaction failed before: it can only be rolled back."""


class MessageTooLarge(NotRecorded):
    """The message is larger than `pecker_outbox_message_bytes` allows."""


class BatchesFull(PeckerError):
    """As many items wait for a batch as may: this one was refused, nothing was sent."""


class BatchesClosed(PeckerError):
    """The batches are closed: this item was not sent."""


class ObserverRefused(PeckerError, ValueError):
    """The observer cannot be started as it is: nothing was written."""


class NameTaken(ObserverRefused):
    """An observer of this name is there already."""


class NoCapacity(ObserverRefused):
    """No host of observers has room for it."""


class BrokerUnavailable(PeckerError):
    """The broker was not reached and nothing was sent: it may be tried again."""

    state = "away"
    """What the broker is, for the log."""


class BrokerRefuses(BrokerUnavailable):
    """The broker was reached and refused the messages: nothing was sent."""

    state = "refuses messages"


class PublishUncertain(PeckerError):
    """The broker went away in the middle: some messages may have arrived."""

    verdict = "the broker may or may not have them: "

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_safe: bool = False,
        done: frozenset[str] = frozenset(),
        refused: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.retry_safe = retry_safe
        """The same token makes another try exact (Redis fast lane)."""
        self.done = done
        """Names of entries whose message is known to have arrived."""
        self.refused = refused or {}
        """By entry: why its message was not sent, where that is known."""

    @property
    def why(self) -> str:
        """The reason that a slot has which is given up because of it."""
        return f"{self.verdict}{self}"


class PublishRefused(PublishUncertain):
    """Some messages were refused, by Celery or by the broker: they were not sent."""

    verdict = "refused and not sent: "


class NotStarted(PublishUncertain):
    """Some slots were not run here, and will not be: the text says why."""

    verdict = ""

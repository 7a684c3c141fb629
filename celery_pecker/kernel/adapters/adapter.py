"""What an adapter is, and how a flow of statements runs in one."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from celery_pecker.kernel.errors import (
    Misconfigured,
    NotRecorded,
    PeckerError,
    SchemaOutdated,
    TransactionAborted,
)
from celery_pecker.kernel.refusals import MIGRATE
from celery_pecker.kernel.sql import OURS, rendered

T = TypeVar("T")

Rows = Sequence[tuple[Any, ...]]


class Statement(NamedTuple):
    """A labelled statement, with its schema named and with named parameters."""

    label: str
    text: str
    params: Mapping[str, object]

    @classmethod
    def of(cls, schema: str, label: str, /, **params: object) -> Self:
        """Return a statement of ours for the tables of a schema."""
        return cls(label, rendered(OURS, schema)[label], {"now": None, **params})


Flow = Generator[Statement, Rows, T]
"""Yields statements, is sent their rows, returns what it is for.

Written once, it runs in what blocks and in what is awaited."""

RIGHTS = (
    "the role of the connection needs usage on the schema of celery-pecker's tables and"
    " select, insert and update on pecker_outbox, pecker_observers or, with"
    " pecker_tasks and pecker_declarations, pecker_schedules"
)
MISSING = "42P01"
REFUSED: Mapping[str, tuple[type[PeckerError], str]] = {
    "25P02": (
        TransactionAborted,
        "a statement of the transaction failed before: it can only be rolled back",
    ),
    "25006": (NotRecorded, "the transaction is read-only: nothing can be written"),
    "3F000": (SchemaOutdated, f"the schema of pecker_schema is not there: {MIGRATE}"),
    MISSING: (SchemaOutdated, f"a table of celery-pecker is not there: {MIGRATE}"),
    "42703": (SchemaOutdated, f"a table of celery-pecker is older: {MIGRATE}"),
    "42501": (Misconfigured, RIGHTS),
}
"""By SQLSTATE: what PostgreSQL refuses, in our words. All else is the caller's."""


Taken = Callable[[object], Callable[[object], Flow[object]] | None]
"""Takes out what was kept for a transaction or savepoint, or (None) for all of them;
returns the flow that writes it, None where there is nothing."""


class Adapter(Protocol):
    """A transaction that is open, on a connection that blocks."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, failed or not."""

    @property
    def database_key(self) -> object:
        """Which database it is: hashable, the same for each connection to it."""

    def require(self) -> None:
        """Refuse to go on without a transaction that can be joined.

        Raises:
            NoTransaction: it is in autocommit.
            TransactionAborted: a statement before has failed.
            NotRecorded: it is closed, or not PostgreSQL.
        """

    def run(self, statement: Statement) -> Rows:
        """Return the rows of a statement, run in the transaction."""


class AsyncAdapter(Protocol):
    """A transaction that is open, on a connection that is awaited."""

    async def drive(self, flow_in: Callable[[object], Flow[T]]) -> T:
        """Return what the flow for this place returns, after the same refusals."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, failed or not."""

    def innermost(self) -> object:
        """Return what `follow` knows the open transaction or savepoint by.

        Nothing is asked of the server.

        Raises:
            NotRecorded: as `Adapter.require`, as far as it is known here.
        """

    def follow(self, taken: Taken) -> Callable[[], None]:
        """Write what was kept for a transaction or savepoint before that is committed.

        What is rolled back is taken out too, and not sent. Ended by the function that
        is returned.
        """


def drive(adapter: Adapter, flow_in: Callable[[object], Flow[T]]) -> T:
    """Return what the flow for the adapter's place returns."""
    adapter.require()
    flow = flow_in(adapter.database_key)
    try:
        statement = next(flow)
        while True:
            statement = flow.send(_run(adapter, statement))
    except StopIteration as end:
        result: T = end.value
        return result


def _run(adapter: Adapter, statement: Statement) -> Rows:
    try:
        return adapter.run(statement)
    except Exception as error:
        raise_refusal(error)
        raise


def raise_refusal(error: BaseException) -> None:
    """Raise in our words what a driver says PostgreSQL refused; return for all else.

    A table that is missed and is none of ours is the caller's: of a trigger, say.
    """
    state, text = _refusal(error)
    refused = REFUSED.get(state)
    if refused is not None and (state != MISSING or "pecker_" in text):
        kind, message = refused
        raise kind(message) from error


def _refusal(error: BaseException) -> tuple[str, str]:
    """Return SQLSTATE and text of any driver's error, also inside a library's own."""
    inner: Any = error
    for _ in range(4):
        if inner is None:
            break
        state = getattr(inner, "sqlstate", None) or getattr(inner, "pgcode", None)
        if isinstance(state, str):
            return state, str(inner)
        inner = getattr(inner, "orig", None) or inner.__cause__
    return "", ""

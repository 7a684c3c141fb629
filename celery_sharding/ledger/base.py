"""What every repository of the ledger has: a database, leases."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from kombu.utils.json import dumps
from psycopg import errors
from psycopg.types.json import Jsonb

from celery_pecker.kernel.database import Database
from celery_sharding.codec import decode
from celery_sharding.errors import DatabaseUnavailable
from celery_sharding.model import Code, Job, Options, Outcome, Stage
from celery_sharding.plan.arguments import Apart
from celery_sharding.policies import from_json

R = TypeVar("R")
KINDS: Mapping[str, Callable[[Any], Any]] = {
    "stage": Stage,
    "outcome": Outcome,
    "code": Code,
    "lost": tuple,
}
"""What columns of these names are in Python."""


def record(of: Callable[..., R], **others: object) -> Callable[..., R]:
    """Return what makes a record of a row's columns by name, and of these others."""

    def made(**columns: Any) -> R:
        for name, kind in KINDS.items():
            if columns.get(name) is not None:
                columns[name] = kind(columns[name])
        return of(**columns, **others)

    return made


class Repository:
    """Runs the statements of one room of the ledger."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._run, self._run_one = database.run, database.run_one
        self._change, self._change_one = database.change, database.change_one

    def _read(self, of: Callable[..., R], label: str, **params: object) -> list[R]:
        """Return what is made of each row, of its columns by name; see `record`."""
        return [*self.database.read(of, label, **params)]

    def _read_one(self, of: Callable[..., R], label: str, **params: object) -> R | None:
        """Return what is made of the row that there is at most; None for none."""
        rows = self._read(of, label, **params)
        return rows[0] if self.database.one_row(label, len(rows)) else None

    def _numbers(self, label: str, **params: object) -> list[int]:
        """Return the one column of a statement's rows."""
        return [row[0] for row in self._run(label, **params)]

    def _renew(self, job: int, epoch: int, lease: float, *stages: str) -> bool:
        """Renew the lease on one of these stages; return whether it still stands."""
        return self._change_one(
            "renew_stage", job=job, epoch=epoch, lease=lease, stages=[*stages]
        )

    @contextmanager
    def bounded(self, idle: float) -> Iterator[None]:
        """Run the block in one transaction: all of it or nothing.

        A process that is frozen inside keeps others waiting on its rows for as many
        seconds, no longer: then the server undoes it (DatabaseUnavailable).
        """
        try:
            with self.database.transaction():
                self._run("bound_transaction", idle_ms=max(round(idle * 1000), 1))
                yield
        except errors.IdleInTransactionSessionTimeout as error:
            self.database.close()
            raise DatabaseUnavailable(
                f"a transaction was idle for {idle:g} s:"
                " the server undid it, and nothing was written"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLease:
    """This process runs a stage of a job, as long as it renews its lease."""

    job: int
    epoch: int
    """The fencing token: a process that begins after a lapse has a higher one."""
    holder: str
    task_id: str
    task: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    sources: Apart
    """Of the arguments, which have names in their place."""
    options: Options
    run: int
    attempts: int
    """How often the stage was begun in this run, this time included."""
    lease: float
    """Seconds after which it is another's, unless it is renewed."""
    deadline_in: float | None = None
    """Seconds until the job's deadline when it began to be planned; None: none."""
    total: int = 0
    """Items of a job at Post, and those that ended well and that failed."""
    done: int = 0
    failed: int = 0

    @classmethod
    def begun(cls, *, call: bytes, options: Mapping[str, Any], **others: Any) -> Self:
        """Return the lease by the columns of its row, and by what else it has."""
        arguments = decode(call)
        return cls(
            args=tuple(arguments["args"]),
            kwargs=arguments["kwargs"],
            sources=arguments.get("sources", []),
            options=from_json(options),
            **others,
        )

    def as_job(self, **arguments: Any) -> Job:
        """Return what the user's code gets of it, with arguments as it is to see."""
        own = {"args": self.args, "kwargs": self.kwargs, **arguments}
        return Job(
            id=self.task_id,
            task=self.task,
            run=self.run,
            attempt=self.attempts,
            **own,
        )


def jsonb(value: Any) -> Jsonb:
    """Return a parameter that is written as Celery writes JSON: times and ids too."""
    return Jsonb(value, dumps=dumps)

"""One line that gives a Celery app an outbox."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any

from celery import Celery
from celery.canvas import Signature

from celery_pecker.kernel.adapters import django
from celery_pecker.kernel.adapters.calls import PerApp, awaited, real
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured, NotRecorded
from celery_pecker.kernel.settings import Settings
from celery_pecker.outbox import bulk, hook, refusals
from celery_pecker.outbox.model import Entry, Mode
from celery_pecker.outbox.runs import options
from celery_pecker.outbox.sinks import Gathering, Using, Writing
from celery_pecker.outbox.writer import Writer

KNOWN = "_celery_pecker_outboxes"


class Outbox(PerApp):
    """Records the tasks of an app in the caller's transaction.

        outbox = Outbox(app)

        with psycopg.connect(DSN) as connection:
            connection.execute("insert into orders …")
            result = outbox.send(confirm.s(1), connection=connection)

    The task is sent once the transaction is committed, whatever dies meanwhile; after a
    rollback it never was. Its row is in ``pecker_outbox`` of the schema
    ``pecker_schema``, and a relay in a scheduler or worker brings it to the broker.

    With ``@app.task(outbox=True)`` plain ``delay()`` and ``apply_async()`` do the same:
    they join the transaction of the block ``using``, else an ``atomic`` block of
    Django, else they write over a connection of ours, which commits at once.

    Args:
        app: the Celery app whose tasks are recorded.
        dsn: the database with the table, as ``pecker_dsn``, which is the default.
        schema: the schema of the table, as ``pecker_schema``, which is the default.
        name: tells several outboxes of an app apart. The first is that of tasks with
            ``outbox=``.
        alias: the database alias of Django whose ``atomic`` blocks are joined.

    Nothing is asked of any server until something is sent.

    Raises:
        Misconfigured: the app has an outbox of this name already.
    """

    role = "outbox"

    def __init__(
        self,
        app: Celery,
        *,
        dsn: str | None = None,
        schema: str | None = None,
        name: str = "default",
        alias: str = "default",
    ) -> None:
        super().__init__(app, pecker_dsn=dsn, pecker_schema=schema)
        self.name = name
        self._alias = alias
        if not name:
            Misconfigured.refuse("Outbox name", name, "is a non-empty string")
        known = vars(self.app).setdefault(KNOWN, {})
        if name in known:
            raise Misconfigured(
                f"the app has an outbox named {name!r} already; give another one a name"
                " of its own, as in Outbox(app, dsn=…, name='eu')"
            )
        known[name] = self
        first = next(iter(known.values()))
        options.install(self.app)
        hook.install(self.app, first._outside)  # noqa: SLF001  # of this class
        hook.install_on_commit(self.app, first._in_atomic)  # noqa: SLF001

    def send(
        self,
        signature: Any,
        *,
        connection: Any = None,
        dedupe_key: str | None = None,
        mode: Mode | str | None = None,
        **options: Any,
    ) -> Any:
        """Record a signature, chain, group or chord; return its result.

        Args:
            signature: as ``task.s(…)`` makes it.
            connection: whose open transaction it joins: a connection or session of
                psycopg, SQLAlchemy or Django. None: as ``delay()`` of a task with
                ``outbox=True``.
            dedupe_key: while a row of this key waits, nothing is recorded, and the
                result is that of the task that waits.
            mode: ``"relay"``, ``"until_done"`` or ``"local"``; default what the task's
                ``outbox=`` says, else ``"relay"``.
            options: those of ``apply_async``.

        Raises:
            NotRecorded: it cannot be recorded as it is; nothing was written.
            SchemaOutdated: the table is not there.
            DatabaseUnavailable: without a ``connection``: PostgreSQL did not answer,
                and may or may not have the row.
        """
        entries, result = self._gather(signature, dedupe_key, mode, options)

        def final(ids: Sequence[str]) -> Any:
            """Return the result, or that of the task that waits under the same key."""
            if len(ids) == 1 and ids[0] != entries[0].message.task_id:
                return self.app.AsyncResult(ids[0])
            return result

        return self._writer.write(entries, connection, final)

    asend = awaited(send, only_statements=True)

    def send_many(
        self,
        task: Any,
        rows: Iterable[Any],
        *,
        connection: Any = None,
        mode: Mode | str | None = None,
        **options: Any,
    ) -> list[Any]:
        """Record a task once for each row of arguments; return the results in order.

        Args:
            task: a task of the app.
            rows: for each call a tuple or list of arguments, or a dict of keyword
                arguments; at most 100,000. All are checked before any is written.
            connection: as in `send`. Without one they commit together.
            mode: as in `send`.
            options: those of ``apply_async``, for all of them.

        Raises:
            NotRecorded: a row, or a message built of it, cannot be recorded.
        """
        one = bulk.checked(task, options)

        def gather(signature: Any) -> tuple[list[Entry], Any]:
            return self._gather(signature, None, mode, dict(options))

        batch = bulk.build(one, rows, gather, self.settings.outbox_message_bytes)
        return self._writer.write(
            batch.entries, connection, lambda _: batch.results, copies=batch.copies
        )

    asend_many = awaited(send_many, only_statements=True)

    def using(self, connection: Any) -> Using:
        """Return a block in which all that is sent joins this transaction.

            with outbox.using(session):
                chain(bill.s(1), tell.s()).delay()

        For what is awaited: ``async with outbox.using(session):``, which writes them
        when it ends. Of nested blocks the inner one is in force until it ends.

        Raises:
            NotRecorded: the connection is of an unknown kind, or has no transaction.
        """
        return self._writer.using(connection)

    def transaction(self) -> AbstractContextManager[Database]:
        """Yield a transaction of ours: all that is sent inside commits at its end.

            with outbox.transaction():
                chain(bill.s(1), tell.s()).delay()
                report.delay()

        Raises:
            DatabaseUnavailable: PostgreSQL did not answer, and may or may not have
                what was sent.
        """
        return self._writer.transaction()

    def close(self) -> None:
        """Close the connections of ours that are idle."""
        if "_writer" in vars(self):
            self._writer.close()

    def _gather(
        self,
        signature: Any,
        key: str | None,
        mode: Mode | str | None,
        options: dict[str, Any],
    ) -> tuple[list[Entry], Any]:
        """Have Celery build the messages of a signature; return them and its result."""
        if not isinstance(signature, Signature):
            NotRecorded.refuse(
                "signature", signature, "is what task.s(…), chain, group and chord make"
            )
        if real(signature.app) is not self.app:
            raise NotRecorded(
                f"signature {signature!r} is of the app {signature.app!r}; allowed are"
                f" those of {self.app!r}, whose outbox this is"
            )
        if key is not None:
            refusals.check_key(key)
        gathering = Gathering(
            self.app,
            mode=refusals.mode_of(mode, "mode"),
            limit=self.settings.outbox_message_bytes,
            owner=self._writer,
        )
        with hook.into(gathering):
            result = signature.apply_async(**options)
        entries = gathering.entries
        if key is not None:
            entries = [replace(entry, key=key) for entry in entries]
        refusals.check_keys(entries)
        return entries, result

    @cached_property
    def _writer(self) -> Writer:
        return Writer(self.app, self.settings, self._alias)

    def _in_atomic(self) -> bool:
        """Whether a plain call joins the transaction of Django's default alias."""
        return self._alias == "default" and django.atomic_block("default") is not None

    def _outside(self) -> Writing:
        return self._writer.outside()


def outboxes(app: Any) -> list[Outbox]:
    """Return the outboxes of an app, in the order in which they were made."""
    return [*vars(real(app)).get(KNOWN, {}).values()]


def settings_of(app: Any, default: Settings) -> dict[str, Settings]:
    """Return the settings of each outbox of an app by its name.

    An app whose code makes none has the one in its own schema: other services may
    record there.

    Args:
        app: whose outboxes.
        default: the settings of the app.
    """
    return {one.name: one.settings for one in outboxes(app)} or {"default": default}

"""One line that gives a Celery app observers."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from celery import Celery

from celery_pecker.kernel.adapters.adapter import Flow
from celery_pecker.kernel.adapters.calls import PerApp, awaited, real
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.observers import operations, refusals
from celery_pecker.observers.kind import Full, Observer, Options
from celery_pecker.observers.model import (
    Answer,
    CountRow,
    EventRow,
    NodeRow,
    ObserverRow,
    Place,
)
from celery_pecker.observers.overview import ObserversOverview
from celery_pecker.observers.retry import Retry

T = TypeVar("T")

KNOWN = "_celery_pecker_observers"


class Observers(PerApp):
    """Starts, stops and shows the observers of an app.

    ::

        observers = Observers(app)

        @observers.observer(weight=1, retry=Retry(5, (60, 240, 600)))
        async def watch(lease, symbol):
            async for price in prices(symbol):
                lease.check()
                ...

        watch.start("btc", symbol="BTC", connection=connection)

    The observer runs once the transaction is committed, on one of the hosts that
    ``celery -A proj pecker observe`` or a worker with ``"observers"`` in
    ``pecker_worker`` supervises, until ``stop`` is called. After a rollback there never
    was one.

    Args:
        app: the Celery app whose hosts run them.
        outbox: what sends ``on_parked`` and ``on_moved``: anything with
            ``send(signature, connection=…)``, as an ``Outbox`` of the same database.
            None: a host sends them to the broker itself.

    Nothing is asked of any server until something is started.

    Raises:
        Misconfigured: the app has its Observers already.
    """

    role = "observers"

    def __init__(self, app: Celery, *, outbox: Any = None) -> None:
        super().__init__(app)
        self.outbox = outbox
        self.kinds: dict[str, Observer] = {}
        """What was declared, by kind."""
        # A host is a fresh interpreter: it imports the module that calls this line.
        self.home = str(sys._getframe(1).f_globals.get("__name__", ""))  # noqa: SLF001
        if outbox is not None and not callable(getattr(outbox, "send", None)):
            Misconfigured.refuse(
                "outbox", outbox, "is what has send(signature, connection=…)"
            )
        if KNOWN in vars(self.app):
            raise Misconfigured(
                "the app has its Observers already: declare them all on these"
            )
        vars(self.app)[KNOWN] = self

    def observer(  # noqa: PLR0913  # all options of a kind
        self,
        function: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        weight: int = 1,
        retry: Retry | None = None,
        stop_grace: float = 2.0,
        unreachable: str = "stop",
        isolation: str | None = None,
        on_parked: Any = None,
        on_moved: Any = None,
    ) -> Any:
        """Declare a function as a kind of observer; its first argument is the lease.

        Args:
            function: async, or plain.
            name: of the kind; default the function's.
            weight: how much of a host's capacity one of them takes.
            retry: what is done when it fails; default ``Retry(None, (1, 5, 15, 60))``:
                for ever.
            stop_grace: seconds that it has to end after it was cancelled.
            unreachable: ``"stop"`` or ``"go_on"``, while PostgreSQL is away.
            isolation: of a plain function: ``"thread"`` (default) or ``"process"``.
            on_parked: a signature that is sent when one of them is parked.
            on_moved: a signature that is sent when another host has taken it.

        Raises:
            Misconfigured: one of it is not allowed.
        """

        def declare(target: Callable[..., Any]) -> Observer:
            kind = str(name or getattr(target, "__name__", ""))
            refusals.text("the name of a kind", kind)
            if kind in self.kinds:
                raise Misconfigured(
                    f"observer {kind!r} is declared already; give it another name="
                )
            runs = refusals.function(kind, target)
            made = Observer(
                self,
                kind,
                runs,
                Options(
                    weight=refusals.weight(kind, weight),
                    retry=refusals.retry(kind, retry or Retry(None, (1, 5, 15, 60))),
                    stop_grace=refusals.grace(kind, stop_grace),
                    unreachable=refusals.unreachable(kind, unreachable),
                    isolation=refusals.isolation(kind, runs, isolation),
                    on_parked=refusals.signature("on_parked", on_parked),
                    on_moved=refusals.signature("on_moved", on_moved),
                ),
            )
            self.kinds[kind] = made
            return made

        return declare if function is None else declare(function)

    def start(  # as of a task
        self,
        kind: str,
        name: str,
        *,
        connection: Any = None,
        full: Full = "wait",
        on_parked: Any = None,
        on_moved: Any = None,
        **kwargs: Any,
    ) -> int:
        """Record an observer, by the name of its kind; return its id.

        The code of the kind need not be here: a host declares it.

        Args:
            kind: as it was declared.
            name: of the observer; unique among those that are not deleted.
            connection: whose open transaction it joins: a connection or session of
                psycopg, SQLAlchemy or Django. None: it is committed at once.
            full: ``"wait"`` for a host with room, or ``"refuse"`` where there is none.
            on_parked: a signature that is sent when it is parked.
            on_moved: a signature that is sent when another host has taken it.
            kwargs: its arguments, as JSON can say them.

        Raises:
            NameTaken: an observer of this name is there.
            NoCapacity: no host has room, and ``full="refuse"``.
            ObserverRefused: it cannot be started as it is; nothing was written.
        """
        one = operations.checked(
            kind,
            name,
            kwargs,
            known=self.kinds.get(kind),
            refuse=refusals.full(full),
            on_parked=refusals.signature("on_parked", on_parked),
            on_moved=refusals.signature("on_moved", on_moved),
        )
        return self._in(connection, operations.start_flow, one)

    astart = awaited(start)

    def stop(self, name: str, *, connection: Any = None) -> Answer:
        """Ask for the end of an observer; return what is answered to that.

        An observer that no host runs is deleted at once. The request stays in the row:
        an observer that moves at this moment ends as well.
        """
        return self._in(connection, operations.stop_flow, name)

    astop = awaited(stop)

    def restart(self, name: str, *, connection: Any = None) -> Answer:
        """End the life of an observer and begin another; a parked one begins again."""
        return self._in(connection, operations.restart_flow, name)

    arestart = awaited(restart)

    def status(self, name: str) -> ObserverRow | None:
        """Return an observer; a deleted one for a day; None if there is none."""
        return self._seen(lambda overview: overview.get(name))

    def list(  # what a row may be chosen by
        self,
        *,
        kind: str | None = None,
        node: str | None = None,
        place: Place | str | None = None,
        after: str | None = None,
        limit: int = 1_000,
    ) -> Sequence[ObserverRow]:
        """Return observers that are not deleted, by name.

        Args:
            kind: of this kind only.
            node: on the host of this id only.
            place: in this place only.
            after: with names after this one, for the next page.
            limit: how many at most, up to 10,000.
        """
        where = None if place is None else str(Place(place))
        return self._seen(
            lambda overview: overview.list(
                kind=kind, node=node, place=where, after=after, limit=limit
            )
        )

    def counts(self) -> Sequence[CountRow]:
        """Return how many there are of each kind in each place."""
        return self._seen(lambda overview: overview.counts())

    def nodes(self, *, dead: bool = False) -> Sequence[NodeRow]:
        """Return the hosts with their load and lease; the dead for an hour."""
        return self._seen(lambda overview: overview.hosts(dead=dead))

    def history(
        self, name: str | None = None, *, limit: int = 100
    ) -> Sequence[EventRow]:
        """Return the newest events of an observer, or of all, newest first."""
        return self._seen(lambda overview: overview.history(name, limit=limit))

    def drain(self, node: str) -> int:
        """Have hosts of this name or id hand over what they hold; return how many."""
        return self._over(lambda database: operations.drain(database, node))

    def undrain(self, node: str) -> int:
        """Let hosts of this name or id take observers again; return how many."""
        return self._over(lambda database: operations.undrain(database, node))

    def _in(
        self, connection: Any, flow: Callable[[str, Any], Flow[T]], what: object
    ) -> T:
        """Return what a flow answers in the transaction of a connection, or ours."""
        schema = self.settings.schema
        return self._calls.run(lambda _: flow(schema, what), connection)

    def _seen(self, ask: Callable[[ObserversOverview], T]) -> T:
        return self._over(lambda database: ask(ObserversOverview(database)))

    def _over(self, do: Callable[[Database], T]) -> T:
        """Return what is read or changed over a connection of ours."""
        with self._calls.connections.connection() as database:
            return do(database)


def observers_of(app: Any) -> Observers | None:
    """Return the observers of an app; None if it has none."""
    known: Observers | None = vars(real(app)).get(KNOWN)
    return known

"""The service before Redis: only it needs to reach Redis.

Processes tell it what they counted and hear their share, over HTTP; people and
dispatchers in other languages ask it. The client is a store as Redis is one
(``throttle.store.http``), so that a worker does not know which of them it has.

    POST /v1/exchange               a report, as processes send it; its answer
    GET  /v1/databases              all that is known
    GET  /v1/databases/NAME         of one database
    POST /v1/admit                  may so many tasks be sent now? for dispatchers
    POST /v1/elect                  which process asks PostgreSQL for the second signal
    POST /v1/databases/NAME/lower   what the second signal says
    POST /v1/databases/NAME/adjust  a limit that a person sets
    GET  /health                    does the store behind answer? no token
    GET  /live                      does this process answer? no token

Everything but the last two needs the token, and `adjust` that of people if it is set.
An error is ``{"error": "…"}``.

It keeps nothing: as many as one likes may stand behind one address, and a restart loses
nothing but the started cycles of ``/v1/admit``.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from math import inf, isfinite
from typing import Any

from tornado.web import Application

from celery_pecker.kernel.clock import monotonic, new_tag
from celery_pecker.surfaces.service import page
from celery_pecker.surfaces.service.listener import Listener, Port
from celery_pecker.surfaces.service.threads import InFlight, LastAnswer, Threads
from throttle.errors import Misconfigured, StoreUnavailable, ThrottleError
from throttle.exchange import Snapshot
from throttle.gate import Gate
from throttle.limits import IDLE, quota
from throttle.model import TICK, UNSEEN, ExchangeAnswer, Store, View
from throttle.settings import Settings
from throttle.store import fields, wire
from throttle.units import ADJUSTED, ADJUSTED_FOR
from throttle.watch import start

LEAST_COST = 1e-9
"""Tasks: who asks for none asks whether any may be sent."""


class Looked:
    """What the gate of the service goes by: its last look."""

    snapshot = Snapshot()

    def wait(self, timeout: float) -> bool:
        """Wait for nothing: each question brings an answer."""
        return True


class ServiceState:
    """One service; it asks the store on threads of its own.

    Raises Misconfigured without a token: each request needs it.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        if not settings.service_token:
            raise Misconfigured(
                "throttle_service_token is not set: the secret that processes show to"
                " the service, for instance 32 random letters"
            )
        self.settings, self.store = settings, store
        self.token = settings.service_token
        self.lane = Threads(wait=WAIT, refusal=Crowded)
        self.in_flight = InFlight()
        self.last_look: LastAnswer[Mapping[str, View]] = LastAnswer(
            partial(self.lane.run, store.look), interval=TICK
        )
        """At most a tick old."""
        self.looked = Looked()
        self.gate: Gate | None = None
        """One quota for all callers: two dispatchers do not send twice as much. None:
        there is no limit."""
        if settings.limits:
            self.gate = Gate(settings, exchange=self.looked, wait=0.0)

    async def look(self) -> bool:
        """Let the gate go by what is so now; return whether that is known."""
        try:
            views = await self.last_look.get()
        except StoreUnavailable:
            self.looked.snapshot = self.looked.snapshot._replace(at=-inf)
            return False
        seen = {name: views.get(name, UNSEEN).seen for name in self.settings.limits}
        answer = ExchangeAnswer(at=0.0, databases=seen)
        self.looked.snapshot = Snapshot(answer, monotonic(), away=False)
        return True

    def shown(self, name: str, view: View | None) -> dict[str, object]:
        """Return all that is known of a database, with its limit and its quota."""
        view = view or UNSEEN
        shown = wire.view_out(view)
        limit = self.settings.limits.get(name)
        if limit is not None:
            traffic = view.seen.traffic[self.settings.estimator]
            shown["limit"] = [limit.operations, limit.seconds, None]
            shown["quota"] = quota(limit, traffic, view.seen.factor)
            shown["policy"] = str(limit.policy)
            shown["shadow"] = limit.shadow
        return shown


LONGEST_WORD = 3_600.0
"""Seconds for which the second signal may lower a limit, or a watcher be elected."""


class GateHandler(page.JsonHandler):
    """One answer of this service."""

    state: ServiceState

    def initialize(self, state: ServiceState) -> None:
        """Take what the pages stand on."""
        self.state = state
        self.begin(in_flight=state.in_flight, token=state.token)

    made: Callable[..., Awaitable[Mapping[str, object]]]
    """Make the document of an answer, from the names in the path."""

    async def answer(self, *names: str) -> None:
        """Answer what is made; what that raises is an error of its own kind."""
        try:
            document = await self.made(*names)
        except fields.Malformed as error:
            self.reply(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except Unknown as error:
            self.reply(HTTPStatus.NOT_FOUND, {"error": str(error)})
        except ThrottleError as error:
            self.reply(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})
        else:
            self.reply(HTTPStatus.OK, document)

    def body(self) -> Mapping[str, Any]:
        """Return the document that came."""
        return fields.document(self.received)


class Unknown(ThrottleError):
    """There is no such database."""


class GetHandler(GateHandler):
    """One answer to GET."""

    get = GateHandler.answer


class PostHandler(GateHandler):
    """One answer to POST."""

    post = GateHandler.answer


class Nothing(GateHandler):
    """Any other path."""

    async def get(self) -> None:
        """Answer with the list of pages."""
        self.reply(HTTPStatus.NOT_FOUND, {"error": "there are /v1/… and /health"})

    post = put = delete = get


class Exchange(PostHandler):
    """A report, as processes send it ten times a second."""

    async def made(self) -> Mapping[str, object]:
        """Hand it to the store, and the answer back."""
        report = wire.report_in(self.body())
        lane, store = self.state.lane, self.state.store
        return wire.answer_out(await lane.run(store.exchange, report))


class Databases(GetHandler):
    """All that is known."""

    async def made(self) -> Mapping[str, object]:
        """Show every database that has a limit or traffic."""
        views = await self.state.last_look.get()
        names = sorted({*views, *self.state.settings.limits})
        return {
            "databases": {
                name: self.state.shown(name, views.get(name)) for name in names
            }
        }


class OneDatabase(GetHandler):
    """What is known of one."""

    async def made(self, name: str) -> Mapping[str, object]:
        """Show it, if it has a limit or traffic. Tornado has unquoted the name."""
        view = (await self.state.last_look.get()).get(name)
        if view is None and name not in self.state.settings.limits:
            raise Unknown(f"{name!r} has neither a limit nor traffic")
        return self.state.shown(name, view)


class Admit(PostHandler):
    """May so many tasks be sent to a database now?"""

    async def made(self) -> Mapping[str, object]:
        """Answer from the last look; while the store is away by the policy."""
        body = self.body()
        name = body.get("database")
        gate, limits = self.state.gate, self.state.settings.limits
        if gate is None or not isinstance(name, str) or name not in limits:
            allowed = ", ".join(sorted(limits)) or "none"
            raise Unknown(f"{name!r} has no limit; those that have: {allowed}")
        cost = fields.number("cost", body.get("cost", 1), most=IDLE)
        known = await self.state.look()
        admission = gate.admit(name, max(cost, LEAST_COST))
        left = admission.remaining
        return {
            "admitted": admission.admitted,
            "remaining": left if isfinite(left) else None,
            "retry_after": admission.retry_after,
            "known": known,
        }


class Elect(PostHandler):
    """Elects the watcher of a database."""

    async def made(self) -> Mapping[str, object]:
        """Ask the store."""
        body = self.body()
        elected = await self.state.lane.run(
            self.state.store.elect,
            fields.database("database", body.get("database")),
            fields.text("holder", body.get("holder")),
            fields.number("seconds", body.get("seconds"), most=LONGEST_WORD),
        )
        return {"elected": elected}


class Lower(PostHandler):
    """What the second signal says of a database."""

    word, most, longest = "lower", 1.0, LONGEST_WORD

    async def made(self, name: str) -> Mapping[str, object]:
        """Hand it to the store."""
        body = self.body()
        await self.state.lane.run(
            getattr(self.state.store, self.word),
            fields.database("database", name),
            fields.number("factor", body.get("factor"), most=self.most),
            fields.text("why", body.get("why"), empty=True),
            fields.number("seconds", body.get("seconds"), most=self.longest),
        )
        return {}


class Adjust(Lower):
    """A limit that a person sets; with a token of its own, if the service has one."""

    word, most, longest = "adjust", float(ADJUSTED), float(ADJUSTED_FOR)

    def initialize(self, state: ServiceState) -> None:
        """Require that one."""
        super().initialize(state)
        self.token = state.settings.control_token or self.token


class Health(page.OpenPage, GateHandler):
    """For load balancers and alarms: no token, no figures."""

    async def get(self) -> None:
        """Return whether the store behind answers."""
        try:
            await self.state.last_look.get()
        except ThrottleError:
            self.reply(HTTPStatus.SERVICE_UNAVAILABLE, {"store": "away"})
        else:
            self.reply(HTTPStatus.OK, {"store": "answers"})


class Live(Health):
    """Liveness probe: whether the process should be restarted."""

    async def get(self) -> None:
        """Answer: the loop turns."""
        self.reply(HTTPStatus.OK, {"lives": True})


PORT = 8585


class GateService:
    """The service at its port; for one event loop."""

    def __init__(
        self, settings: Settings, store: Store, listener: Listener | None = None
    ) -> None:
        self._settings = settings
        self._store = store
        self._listener = listener or Listener(port=PORT)
        self._listener.check()

    async def open(self) -> str:
        """Listen from now on; return the URL. Raises Misconfigured."""
        self._state = state = ServiceState(self._settings, self._store)
        self._port = Port(make_app(state), self._listener, state.in_flight)
        # It may reach what workers may not: it is a candidate too
        self._watching = start(self._settings, self._store, new_tag())
        return self._port.url

    async def close(self) -> None:
        """Take no more requests; let those in flight end, if they do in time."""
        await self._port.close()
        self._state.lane.close()
        self._watching.stop()


WAIT = 0.2
"""Seconds that a request may wait for a thread: a client waits no longer than 150
ms."""

PAGES = {
    r"/v1/exchange": Exchange,
    r"/v1/databases": Databases,
    r"/v1/databases/([^/]+)": OneDatabase,
    r"/v1/databases/([^/]+)/lower": Lower,
    r"/v1/databases/([^/]+)/adjust": Adjust,
    r"/v1/admit": Admit,
    r"/v1/elect": Elect,
    r"/health": Health,
    r"/live": Live,
}


class Crowded(StoreUnavailable):
    """Too many questions at once: this one was not asked."""


def make_app(state: ServiceState) -> Application:
    """Return the pages of a service."""
    arguments = {"state": state}
    return Application(
        [(path, page, arguments) for path, page in PAGES.items()],
        default_handler_class=Nothing,
        default_handler_args=arguments,
        # Ten lines a second of each process are kept out of the log
        log_function=lambda _: None,
    )

"""The paths of the service, their pages and the token.

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
"""

from __future__ import annotations

from functools import partial

from tornado.web import Application, RequestHandler

from celery_pecker.surfaces.service.listener import Listener, Port
from celery_pecker.surfaces.service.threads import LastAnswer, Threads
from throttle.clock import Monotonic, monotonic, new_id
from throttle.errors import Misconfigured, StoreUnavailable
from throttle.model import TICK, Store
from throttle.service import pages
from throttle.service.state import Cycles, ServiceState
from throttle.settings import Settings
from throttle.watch import start

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
        self._app = make_app(self._settings, self._store)
        state: ServiceState = self._app.settings["state"]
        self._port = Port(self._app, self._listener, state.in_flight)
        # It may reach what workers may not: it is a candidate too
        self._watching = start(self._settings, self._store, new_id())
        return self._port.url

    async def close(self) -> None:
        """Take no more requests; let those in flight end, if they do in time."""
        await self._port.close()
        state: ServiceState = self._app.settings["state"]
        state.lane.close()
        self._watching.stop()


WAIT = 0.2
"""Seconds that a request may wait for a thread: a client waits no longer than 150
ms."""

PAGES = {
    r"/v1/exchange": pages.Exchange,
    r"/v1/databases": pages.Databases,
    r"/v1/databases/([^/]+)": pages.OneDatabase,
    r"/v1/databases/([^/]+)/lower": pages.Lower,
    r"/v1/databases/([^/]+)/adjust": pages.Adjust,
    r"/v1/admit": pages.Admit,
    r"/v1/elect": pages.Elect,
    r"/health": pages.Health,
    r"/live": pages.Live,
}


class Crowded(StoreUnavailable):
    """Too many questions at once: this one was not asked."""


def make_app(
    settings: Settings, store: Store, *, clock: Monotonic = monotonic
) -> Application:
    """Return the service; it asks the store on threads of its own.

    Raises Misconfigured without a token: each request needs it.
    """
    if not settings.service_token:
        message = (
            "throttle_service_token is not set: the secret that processes show to the"
            " service, for instance 32 random letters"
        )
        raise Misconfigured(message)
    lane = Threads(wait=WAIT, refusal=Crowded, clock=clock)
    state = ServiceState(
        settings=settings,
        store=store,
        lane=lane,
        last_look=LastAnswer(partial(lane.run, store.look), interval=TICK, clock=clock),
        cycles={name: Cycles(limit) for name, limit in settings.limits.items()},
        clock=clock,
    )
    arguments = {"state": state}
    return Application(
        [(path, page, arguments) for path, page in PAGES.items()],
        default_handler_class=pages.Nothing,
        default_handler_args=arguments,
        log_function=_unlogged,
        state=state,
    )


def _unlogged(page: RequestHandler) -> None:
    """Keep ten lines a second of each process out of the log."""
    del page

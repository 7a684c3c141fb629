"""The service before Redis at its port."""

from __future__ import annotations

from celery_pecker.service.listener import END_TIMEOUT, Listener, make_server
from throttle.clock import new_id
from throttle.model import Store
from throttle.service.app import make_app
from throttle.service.state import ServiceState
from throttle.settings import Settings
from throttle.watch import start

PORT = 8585


class Service:
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
        self._server = make_server(self._app, self._listener)
        listening = self._listener.open()
        self._server.add_socket(listening)
        # It may reach what workers may not: it is a candidate too
        self._watching = start(self._settings, self._store, new_id())
        return self._listener.url(listening.getsockname()[1])

    async def close(self) -> None:
        """Take no more requests; let those in flight end, if they do in time."""
        self._server.stop()
        state: ServiceState = self._app.settings["state"]
        await state.in_flight.wait(END_TIMEOUT)
        await self._server.close_all_connections()
        state.lane.close()
        self._watching.stop()

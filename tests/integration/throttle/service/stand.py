"""The service as it is, on a thread and a free port of loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any, Self
from urllib.parse import urlsplit

from throttle.model import Answer, Report, Store
from throttle.service.server import Door, Service
from throttle.settings import Settings
from throttle.store.fields import document
from throttle.store.wire import dumped

TOKEN = "s3same"  # noqa: S105  # a test's own
PATIENCE = 10.0


class Counted:
    """A store, and how often it was told something."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.asked = 0
        self.look, self.elect = store.look, store.elect
        self.lower, self.close = store.lower, store.close
        self.adjust, self.recall, self.keep = store.adjust, store.recall, store.keep

    def exchange(self, report: Report) -> Answer:
        """Hand it on."""
        self.asked += 1
        return self._store.exchange(report)


class Stand:
    """One service over a store, until `close`."""

    def __init__(self, store: Store, *, port: int = 0, **conf: object) -> None:
        self.settings = Settings.read(
            {
                "throttle_redis_url": "redis://not.asked",
                "throttle_service_token": TOKEN,
                "throttle_limits": {"main": 1_000},
                **conf,
            }
        )
        self._counted = Counted(store)
        self._service = Service(self.settings, self._counted, Door(port=port))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stand")
        self._thread.start()
        self.url = self._do(self._service.open())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return urlsplit(self.url).port or 0

    @property
    def asked(self) -> int:
        """How many reports its store has been asked to take."""
        return self._counted.asked

    def close(self) -> None:
        """The service has ended as it does on SIGTERM."""
        self._do(self._service.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | bytes | None = None,
        *,
        token: str | None = TOKEN,
        timeout: float = PATIENCE,
    ) -> tuple[int, Mapping[str, Any]]:
        """Return status and document of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        sent = body if isinstance(body, bytes) or body is None else dumped(body)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            connection.request(method, path, sent, headers)
            response = connection.getresponse()
            return response.status, document(response.read())
        finally:
            connection.close()

    def _do(self, coming: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coming, self._loop).result(PATIENCE)

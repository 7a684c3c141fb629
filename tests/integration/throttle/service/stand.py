"""The service as it is, on a thread and a free port of loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any, Self
from urllib.parse import urlsplit

from throttle.model import Store
from throttle.service.server import Door, Service
from throttle.settings import Settings
from throttle.store.fields import document
from throttle.store.wire import dumped

TOKEN = "s3same"  # noqa: S105  # a test's own
PATIENCE = 10.0


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
        self._service = Service(self.settings, store, Door(port=port))
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
    ) -> tuple[int, Mapping[str, Any]]:
        """Return status and document of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
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

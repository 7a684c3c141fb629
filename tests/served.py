"""A service over HTTP as it is, on a thread and a free port of loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any, Self
from urllib.parse import urlsplit

from celery_pecker.surfaces.service.listener import HttpService

TIMEOUT = 30.0
OWN = "the token of the service"


class Served:
    """One service, until `close`."""

    def __init__(self, service: HttpService, *, token: str) -> None:
        self._service = service
        self._token = token
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="served")
        self._thread.start()
        self.url = self._do(service.open())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return urlsplit(self.url).port or 0

    def close(self) -> None:
        """End the service as SIGTERM does."""
        self._do(self._service.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        self._loop.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | bytes | None = None,
        *,
        token: str | None = OWN,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> tuple[int, dict[str, Any]]:
        """Return status and document of an answer; token None: none is shown."""
        if token is OWN:
            token = self._token
        sent = json.dumps(body).encode() if isinstance(body, Mapping) else body
        shown = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, sent, {**shown, **(headers or {})})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def _do(self, awaited: Any) -> Any:
        future = asyncio.run_coroutine_threadsafe(awaited, self._loop)
        return future.result(TIMEOUT)

"""One answer in JSON, for those with the token."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from tornado.web import RequestHandler

from celery_pecker.service.threads import InFlight

VERSION = 1
"""Of the documents: a field ``v`` in each."""


class Page(RequestHandler):
    """Answer one path; each service says where its token is."""

    in_flight: InFlight
    token: str

    def begin(self, *, in_flight: InFlight, token: str) -> None:
        """Count the request, and keep the token that is required."""
        self.in_flight, self.token = in_flight, token
        in_flight.begin()

    def on_finish(self) -> None:
        """Count the request as answered."""
        self.in_flight.end()

    def set_default_headers(self) -> None:
        """Set the headers of each answer."""
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.clear_header("Server")

    def prepare(self) -> None:
        """Refuse a request without the token; reveal nothing else."""
        kind, _, token = self.request.headers.get("Authorization", "").partition(" ")
        right = self.token.encode()
        same = hmac.compare_digest(token.strip().encode(errors="replace"), right)
        if not same or kind.lower() != "bearer":
            self.set_header("WWW-Authenticate", "Bearer")
            self.reply(HTTPStatus.UNAUTHORIZED, {"error": "this needs the token"})

    def reply(self, status: HTTPStatus, document: Mapping[str, object]) -> None:
        """Answer with a document."""
        self.set_status(status)
        self.finish(dumped({"v": VERSION, **document}))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer in the form that clients read, without insides."""
        del kwargs
        status = HTTPStatus(status_code)
        self.reply(status, {"error": status.phrase.lower()})


class OpenPage(Page):
    """Answer without a token: for load balancers and alarms. No figures."""

    def prepare(self) -> None:
        """Accept each request."""


def dumped(document: Mapping[str, object]) -> bytes:
    """Return a document as JSON in UTF-8, in the fewest bytes."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.encode()

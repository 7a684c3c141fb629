"""One answer in JSON, for those with the token."""

import hmac
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from tornado.web import RequestHandler, stream_request_body

from celery_pecker.surfaces.service.threads import InFlight

VERSION = 1
"""Of the documents: a field ``v`` in each."""
DROPPED = 65_536
"""Bytes of a body that are read and dropped before a request without the token has its
answer; a larger one is not read."""


@stream_request_body
class JsonHandler(RequestHandler):
    """Answer one path; each service says where its token is.

    A body is read after `prepare` has taken the headers: without the token none is
    kept.
    """

    keeps = True
    """Whether the body is kept."""

    in_flight: InFlight
    token: str

    def begin(self, *, in_flight: InFlight, token: str) -> None:
        """Count the request, and keep the token that is required."""
        self.in_flight, self.token = in_flight, token
        self._received = bytearray()
        self._counted = True
        in_flight.begin()

    def on_finish(self) -> None:
        """Count the request as answered; it may have been given up before."""
        if self._counted:
            self._counted = False
            self.in_flight.end()

    def on_connection_close(self) -> None:
        """Count the request as given up: of half a body no answer is made."""
        super().on_connection_close()
        self.on_finish()

    def data_received(self, chunk: bytes) -> None:
        """Keep a part of the body, or drop it."""
        if self.keeps:
            self._received += chunk

    @property
    def received(self) -> bytes:
        """The body."""
        return bytes(self._received)

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
        if same and kind.lower() == "bearer":
            return
        self.keeps = False
        length = self.request.headers.get("Content-Length", "0")
        chunked = "Transfer-Encoding" in self.request.headers
        if chunked or not length.isdecimal() or int(length) > DROPPED:
            self.refuse()
        else:
            # Answered after the body: a client that is still writing would see a
            # broken connection, not the answer.
            setattr(self, str(self.request.method).lower(), self.refuse)

    def refuse(self, *_: str) -> None:
        """Answer that the token is missing."""
        self.set_header("WWW-Authenticate", "Bearer")
        self.reply(HTTPStatus.UNAUTHORIZED, {"error": "this needs the token"})

    def reply(self, status: HTTPStatus, document: Mapping[str, object]) -> None:
        """Answer with a document."""
        self.set_status(status)
        self.finish(dumped({"v": VERSION, **document}))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer in the form that clients read, without insides."""
        status = HTTPStatus(status_code)
        self.reply(status, {"error": status.phrase.lower()})


class OpenPage(JsonHandler):
    """Answer without a token: for load balancers and alarms. No figures."""

    keeps = False

    def prepare(self) -> None:
        """Accept each request."""


def dumped(document: Mapping[str, object]) -> bytes:
    """Return a document as JSON in UTF-8, in the fewest bytes."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return text.encode()

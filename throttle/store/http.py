"""The service before Redis, as a store: for processes that may not reach Redis.

One connection is kept. What is slow, away, or no service at all is `StoreUnavailable`,
within the time that is set for the whole exchange: a server that sends a byte now and
then is as far away as one that sends nothing. Threads may share a store; they take
turns.
"""

import io
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, cast
from urllib.parse import quote, urlsplit

from celery_pecker.kernel.clock import monotonic
from throttle import addresses
from throttle.errors import Misconfigured, StoreUnavailable, TokenRefused
from throttle.model import ExchangeAnswer, Report, View
from throttle.store import wire
from throttle.store.fields import Malformed, document

CONNECTING = 1.0
"""Seconds for a connection, which may need a name server and a handshake."""
LEAST = 0.001
"""A socket takes a timeout of 0 for "do not wait at all"."""


class Wire:
    """A connection, and its socket: all waits count against one sum of time.

    A socket's timeout begins anew with each byte, and `http.client` reads until a line
    or a body is whole: a server that sends a byte now and then is waited for without
    end.
    """

    def __init__(self, url: str) -> None:
        """Connect."""
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=CONNECTING)
        connection.connect()
        self.connection, self._sock = connection, connection.sock
        connection.sock = cast("socket.socket", self)
        self._until = 0.0

    def allow(self, seconds: float) -> None:
        """Allow it to wait so long in all, from now on."""
        self._until = monotonic() + seconds

    def limit_wait(self) -> None:
        """Let the next wait take what is left, or raise TimeoutError."""
        left = self._until - monotonic()
        if left <= 0:
            raise TimeoutError("not in time")
        self._sock.settimeout(max(left, LEAST))

    def sendall(self, data: bytes) -> None:
        """Send all of it, in time."""
        self.limit_wait()
        self._sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return what comes, as a file that is read in time."""
        raw = cast("io.RawIOBase", self._sock.makefile(cast("Any", mode), buffering=0))
        return io.BufferedReader(_Reading(raw, self))

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


class _Reading(io.RawIOBase):
    """The bytes that come, in time."""

    def __init__(self, raw: io.RawIOBase, wire: Wire) -> None:
        self._raw = raw
        self._wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        self._wire.limit_wait()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


TIMEOUT = 0.15
"""Seconds for an answer: with the tick of 100 ms, less than until the last is stale."""
AT_START = 2.0
LARGEST = 16_000_000
"""Bytes of an answer that are read."""
OK, UNAUTHORIZED, BAD, MISSING = 200, 401, 400, 404
DROPPED = (ConnectionResetError, BrokenPipeError, ConnectionAbortedError)
"""What a kept connection says that its server closed meanwhile."""


@dataclass(eq=False, repr=False)
class HttpStore:
    """Implements `Store` by asking the service."""

    url: str
    token: str
    control_token: str | None = None
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        self._url = self.url.rstrip("/")
        self.place = addresses.shown(self._url)
        _check_port(self._url, self.place)
        self._turn = threading.Lock()
        self._wire: Wire | None = None
        self._owner = os.getpid()
        self._unanswered: set[str] = set()
        """Holders whose last answer was lost on its way."""

    def check(self) -> None:
        """Check the token; raise Misconfigured or StoreUnavailable."""
        try:
            reply = self._ask("GET", "/v1/databases", timeout=AT_START)
        except TokenRefused as error:
            raise Misconfigured(
                "throttle_service_token is not the one that the service at"
                f" {self.place} was started with"
            ) from error
        except Malformed as error:
            raise Misconfigured(
                f"throttle_service_url {self.place} is no throttle service: {error}"
            ) from error
        try:
            wire.views_in(reply)
        except Malformed as error:
            raise Misconfigured(
                f"throttle_service_url {self.place} speaks another version than this"
                f" process: {error}"
            ) from error

    def exchange(self, report: Report) -> ExchangeAnswer:
        """Count the report; return what is known of its databases."""
        answered = report.answered and report.holder not in self._unanswered
        self._unanswered.add(report.holder)
        payload = wire.report_out(replace(report, answered=answered))
        with self._understood():
            # Not asked twice by itself: the first answer, if there was one, is lost
            reply = self._ask("POST", "/v1/exchange", payload, retry=False)
            answer = wire.answer_in(reply)
        self._unanswered.discard(report.holder)
        return answer

    def look(self) -> Mapping[str, View]:
        """Return all that is known, by database."""
        with self._understood():
            return wire.views_in(self._ask("GET", "/v1/databases"))

    def elect(self, database: str, holder: str, seconds: float) -> bool:
        """Return whether `holder` is the watcher of the database now."""
        body = {"database": database, "holder": holder, "seconds": seconds}
        with self._understood():
            return self._ask("POST", "/v1/elect", body).get("elected") is True

    def lower(self, database: str, factor: float, why: str, seconds: float) -> None:
        """Put so much of the limit in force, for so long."""
        self._put(database, "lower", self.token, factor, why, seconds)

    def adjust(self, database: str, factor: float, why: str, seconds: float) -> None:
        """Set the limit to so many times what the settings say, for so long."""
        token = self.control_token or self.token
        self._put(database, "adjust", token, factor, why, seconds)

    def _put(self, database: str, word: str, token: str, *said: object) -> None:
        body = dict(zip(("factor", "why", "seconds"), said, strict=True))
        path = f"/v1/databases/{quote(database, safe='')}/{word}"
        with self._understood():
            self._ask("POST", path, body, token=token)

    def recall(self, database: str) -> str:
        """Return nothing: the service keeps no costs."""
        return ""

    def keep(self, database: str, text: str, seconds: float) -> None:
        """Keep nothing: the service has no page for it."""

    def close(self) -> None:
        """Close the connection; a later call makes another."""
        if self._turn.acquire(timeout=self.timeout + CONNECTING):
            try:
                self._drop()
            finally:
                self._turn.release()

    @contextmanager
    def _understood(self) -> Iterator[None]:
        try:
            yield
        except Malformed as error:
            raise StoreUnavailable(
                f"{self.place} answers what is no throttle service's: {error}"
            ) from error

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        timeout: float | None = None,
        retry: bool = True,
        token: str | None = None,
    ) -> Mapping[str, Any]:
        payload = None if body is None else wire.dumped(body)
        seconds = self.timeout if timeout is None else timeout
        if os.getpid() != self._owner:  # a fork: lock and connection are its parent's
            self._turn, self._owner = threading.Lock(), os.getpid()
            self._drop()
        if not self._turn.acquire(timeout=seconds):
            raise StoreUnavailable(f"{self.place} is still busy with another question")
        try:
            token = token or self.token
            question = partial(self._once, method, path, payload, seconds, token)
            status, reply = self._asked(question, retry=retry)
        finally:
            self._turn.release()
        return self._read(status, reply)

    def _asked(
        self, question: Callable[[], tuple[int, bytes]], *, retry: bool
    ) -> tuple[int, bytes]:
        kept = self._wire is not None
        try:
            try:
                return question()
            except DROPPED:
                if not (kept and retry):
                    raise
                return question()
        except (OSError, HTTPException, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise StoreUnavailable(
                f"the throttle service at {self.place} does not answer: {reason}"
            ) from error

    def _once(
        self, method: str, path: str, payload: bytes | None, seconds: float, token: str
    ) -> tuple[int, bytes]:
        done = False
        try:
            if self._wire is None:
                self._wire = Wire(self._url)
            self._wire.allow(seconds)
            headers = {
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
            }
            connection = self._wire.connection
            path = urlsplit(self._url).path + path
            connection.request(method, path, payload, headers)
            response = connection.getresponse()
            body = response.read(LARGEST)
            done = response.isclosed() and not response.will_close
            return response.status, body
        finally:
            if not done:
                self._drop()

    def _drop(self) -> None:
        gone, self._wire = self._wire, None
        if gone is not None:
            gone.connection.close()

    def _read(self, status: int, body: bytes) -> Mapping[str, Any]:
        if status == UNAUTHORIZED:
            raise TokenRefused(
                f"the throttle service at {self.place} does not take the token"
            )
        if status == OK:
            return document(body)
        why = _why(body)
        if why is None and status in {BAD, MISSING}:
            raise Malformed(f"it answers {status}")
        raise StoreUnavailable(
            f"the throttle service at {self.place} answers {status}: {why or ''}"
        )


def _check_port(url: str, place: str) -> None:
    try:
        _ = urlsplit(url).port
    except ValueError:
        # The library quotes what follows a colon, which may be of a password.
        raise Misconfigured(
            f"throttle_service_url {place!r} has no port that is a number from 0 to"
            " 65535; '/' in a password is written as %2F"
        ) from None


def _why(body: bytes) -> str | None:
    """Return what the service says is wrong; None if it was not the service."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return None
    why = parsed.get("error") if isinstance(parsed, dict) else None
    return why if isinstance(why, str) else None

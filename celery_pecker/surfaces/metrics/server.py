"""A port of our own: figures for Prometheus, answers for probes.

Threads, because a scrape that waits for PostgreSQL must not make a probe wait that
asks whether this process lives.
"""

import logging
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

from celery_pecker import signals
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import PeckerError
from celery_pecker.kernel.forks import abandon_in_forks
from celery_pecker.kernel.settings import Settings
from celery_pecker.schedules.overview import Overview
from celery_pecker.surfaces.metrics.tables import TableCollector

logger = logging.getLogger(__name__)

QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Bounds of the histograms in seconds: a wake-up is quick."""
LONG = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class ProcessMetrics:
    """Counters and histograms of one process, in the registry given."""

    def __init__(self, registry: CollectorRegistry, *, hostname: str) -> None:

        def made(kind: Any, name: str, text: str, *labels: str, **how: Any) -> Any:
            full, names = f"celery_pecker_{name}", ("hostname", *labels)
            return partial(
                kind(full, text, names, registry=registry, **how).labels, hostname
            )

        counter, timed = partial(made, Counter), partial(made, Histogram)
        self._wakes = counter("wakeups", "Wake-ups that claimed")
        self._won = counter("slots_won", "Slots won here")
        self._published = counter("slots_published", "Slots whose message is out")
        self._lost = counter("slots_not_sent", "Slots won here and not sent")
        self._steps = counter("clock_steps", "Steps of the database's clock")
        self._refused = counter("runs_refused", "Runs not started", "name", "reason")
        quick = partial(timed, buckets=QUICK)
        self._claim = quick("claim_seconds", "How long a claim took")
        self._publish = quick("publish_seconds", "How long a batch took")
        self._late = quick("lateness_seconds", "From the slot to its message")
        self._ran = timed(
            "run_seconds", "How long runs took", "name", "state", buckets=LONG
        )
        for signal, receiver in self._receivers():
            signal.connect(receiver)

    def close(self) -> None:
        """Count no more."""
        for signal, receiver in self._receivers():
            signal.disconnect(receiver)

    def _receivers(self) -> Iterator[tuple[Any, Any]]:
        yield signals.woke, self._on_woke
        yield signals.missed, self._on_missed
        yield signals.clock_stepped, self._on_clock_stepped
        yield signals.refused, self._on_refused
        yield signals.run_ended, self._on_run_ended

    def _on_woke(self, woke: signals.Woke) -> None:
        self._wakes().inc()
        self._won().inc(woke.won)
        self._published().inc(woke.published)
        self._claim().observe(woke.claim_seconds)
        if woke.won:
            self._publish().observe(woke.publish_seconds)
            self._late().observe(woke.lateness_seconds)

    def _on_missed(self, missed: signals.Missed) -> None:
        self._lost().inc(missed.slots)

    def _on_clock_stepped(self, _stepped: signals.ClockStepped) -> None:
        self._steps().inc()

    def _on_refused(self, refused: signals.Refused) -> None:
        self._refused(refused.task, refused.reason).inc()

    def _on_run_ended(self, ended: signals.RunEnded) -> None:
        self._ran(ended.task, ended.state).observe(ended.seconds)


REQUEST_TIMEOUT = 10.0
"""Seconds that a client may take to send its request."""


RETRY = 2.0
"""Seconds until a port that another process has is asked for again."""


class Server:
    """Answers until it is closed, from when it can have its port.

    That may be later: in a deploy the process before this one keeps the port for as
    long as it waits for its last tasks. Of two schedulers on one host the second logs
    that it has no port, and goes on without until the first has gone.

    ``alive``: whether this process' scheduler turns.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        alive: Callable[[], bool],
        hostname: str,
        outboxes: Mapping[str, Settings] | None = None,
    ) -> None:
        self._settings = settings
        self._alive = alive
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._tables = TableCollector(settings, outboxes)
        self._registry.register(self._tables)
        self._process = ProcessMetrics(self._registry, hostname=hostname)
        self._closed = threading.Event()
        self._change = threading.Lock()
        self._http = self._opened()
        abandon_in_forks(self)
        threading.Thread(
            target=self._answer, name="pecker metrics", daemon=True
        ).start()

    @property
    def port(self) -> int | None:
        """Where it answers; None while another process has the port."""
        http = self._http
        return None if http is None else int(http.server_address[1])

    def close(self) -> None:
        """Answer no more; does not wait for answers in flight."""
        with self._change:
            self._closed.set()
            http = self._http
        self._process.close()
        if http is not None:
            http.shutdown()
            http.server_close()
        self._tables.close()

    def abandon(self) -> None:
        """Drop port, connection and counters in a fork of their owner.

        Seen with a pool that replaces its processes: after kill -9 of the worker the
        port stayed taken until the last of them had ended.
        """
        self._process.close()
        self._tables.abandon()
        if self._http is not None:
            with suppress(OSError):
                self._http.socket.close()

    def _answer(self) -> None:
        http = self._http
        while http is None:
            if self._closed.wait(RETRY):
                return
            http = self._opened(quiet=True)
        with self._change:
            if self._closed.is_set():  # while the port was opened
                http.server_close()
                return
            self._http = http
        http.serve_forever()

    def _opened(self, *, quiet: bool = False) -> "_Http | None":
        """Return what answers, None if the port cannot be had now."""
        place = self._settings.metrics
        try:
            http = _Http(self._settings, self._registry, alive=self._alive)
        except (OSError, UnicodeError) as error:
            logger.log(
                logging.DEBUG if quiet else logging.WARNING,
                "pecker: no metrics from this process, pecker_metrics %s cannot be had"
                " now: %s",
                place,
                error,
            )
            return None
        if quiet:
            logger.info("pecker: metrics on %s at last", place)
        return http


class _Http(ThreadingHTTPServer):
    """What the answers are made from."""

    daemon_threads = True

    def __init__(
        self,
        settings: Settings,
        registry: CollectorRegistry,
        *,
        alive: Callable[[], bool],
    ) -> None:
        """Listen on the configured port; raise OSError or UnicodeError if it cannot."""
        self.settings = settings
        self.registry = registry
        self.alive = alive
        address, _, port = str(settings.metrics).rpartition(":")
        addresses = socket.getaddrinfo(
            address.strip("[]"),
            int(port),
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
        self.address_family, *_, where = addresses[0]
        super().__init__((str(where[0]), int(port)), _Answer)

    def server_bind(self) -> None:
        """Bind the port without asking a name server for the host's name.

        The class above this one does, and a worker would wait for that at its start.
        """
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away."""
        logger.debug("pecker: %s asked for metrics and went away", client_address)


class _Answer(BaseHTTPRequestHandler):
    """One answer."""

    server: _Http
    timeout = REQUEST_TIMEOUT

    def do_GET(self) -> None:
        """Answer one question."""
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, kind = choose_encoder(self.headers.get("Accept", ""))
            self._say(200, encode(self.server.registry), kind)
        elif path == "/live":
            alive = self.server.alive()
            self._say(200 if alive else 503, b"ok\n" if alive else b"stands still\n")
        elif path == "/pace":
            self._say(*_pace(self.server.settings))
        else:
            self._say(404, b"here are /metrics, /live and /pace\n")

    def _say(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name there
        """Keep a scrape every few seconds out of the log."""
        logger.debug(format, *args)


def _pace(settings: Settings) -> tuple[int, bytes]:
    """Answer whether every due entry is won and sent."""
    database = Database.of(settings, role="probe")
    overview = Overview(database)
    try:
        pace = overview.totals()
    except PeckerError as error:
        return 503, f"unknown: {error}\n".encode()
    finally:
        overview.close()
    if pace.overdue:
        worst = f"{pace.worst!r} for {pace.worst_us / 1e6:.1f} s"
        return 503, f"{pace.overdue} of {pace.grid} overdue, {worst}\n".encode()
    if pace.unclaimed:
        return 503, f"no live scheduler claims {pace.unclaimed}\n".encode()
    if not pace.keeps_up:
        waiting = pace.undelivered + pace.stuck
        return 503, f"{waiting} claimed and not sent\n".encode()
    return 200, f"{pace.grid} entries keep their pace\n".encode()

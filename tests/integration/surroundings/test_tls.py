"""TLS to PostgreSQL, Redis and RabbitMQ, with certificates that are verified."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.integration.surroundings.conftest import Begin
from tests.services import PostgresStand, absent


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Give a certificate of 127.0.0.1, signed by itself, and its key."""
    program = shutil.which("openssl")
    if program is None:
        absent("openssl", "not installed", required=False)
    made, key = tmp_path / "made.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *(program, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(made)),
        ],
        check=True,
        capture_output=True,
    )
    return made, key


@pytest.fixture
def encrypted(certificate: tuple[Path, Path]) -> Iterator[Callable[[str], int]]:
    """Give a function that returns a port with TLS before the server of a URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with ExitStack() as stack:

        def begin(url: str) -> int:
            parts = urlsplit(url)
            at = (str(parts.hostname), int(parts.port or 0))
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            stack.callback(listening.shutdown, socket.SHUT_RDWR)

            def accept() -> None:
                with suppress(OSError):
                    while True:
                        raw, _ = listening.accept()
                        threading.Thread(target=serve, args=(raw,), daemon=True).start()

            def serve(raw: socket.socket) -> None:
                with (
                    suppress(OSError),
                    context.wrap_socket(raw, server_side=True) as client,
                    socket.create_connection(at) as server,
                ):
                    back = threading.Thread(target=copy, args=(server, client))
                    back.start()
                    copy(client, server)
                    back.join()

            threading.Thread(target=accept, daemon=True).start()
            return int(listening.getsockname()[1])

        yield begin


def copy(source: socket.socket, target: socket.socket) -> None:
    """Hand on what comes, until one of both ends is closed."""
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@pytest.mark.soak
def test_postgresql(
    local_postgres: PostgresStand, redis_url: str, begin: Begin
) -> None:
    """The server of this machine: the embedded one is built without TLS."""
    with psycopg.connect(local_postgres.dsn) as connection:
        if connection.execute("show ssl").fetchone() != ("on",):
            absent("PostgreSQL with TLS", "ssl is off", required=False)
    with local_postgres.fresh(migrated=True) as address:
        dsn = f"{address}?sslmode=require"
        begin(dsn, redis_url).sends(4)
        with psycopg.connect(dsn) as connection:
            plain = connection.execute(
                "select count(*) from pg_stat_ssl join pg_stat_activity using (pid)"
                " where not ssl and datname = current_database()"
            ).fetchall()
        assert plain == [(0,)]


@pytest.mark.soak
def test_redis(
    dsn: str,
    redis_url: str,
    certificate: tuple[Path, Path],
    encrypted: Callable[[str], int],
    begin: Begin,
) -> None:
    """By ``rediss://`` and what its query says, as Celery takes it."""
    port = encrypted(redis_url)
    options = f"ssl_cert_reqs=required&ssl_ca_certs={certificate[0]}"
    begin(dsn, f"rediss://127.0.0.1:{port}/0?{options}").sends(4)


def test_rabbitmq(
    dsn: str,
    amqp_url: str,
    certificate: tuple[Path, Path],
    encrypted: Callable[[str], int],
    begin: Begin,
) -> None:
    """By ``broker_use_ssl``; its thread ends in good order, too."""
    port = encrypted(amqp_url)
    parts = urlsplit(amqp_url)
    broker = f"amqp://{parts.username}:{parts.password}@127.0.0.1:{port}{parts.path}"
    wanted = {"ca_certs": str(certificate[0]), "cert_reqs": ssl.CERT_REQUIRED}
    played = begin(dsn, broker, broker_use_ssl=wanted)
    played.sends(2)
    played.replica.stop()
    assert played.replica.join(30.0)

"""TLS to PostgreSQL, Redis and RabbitMQ, with certificates that are verified."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import EmbeddedPostgres
from tests.integration.surroundings.conftest import Begin
from tests.integration.surroundings.whole import stand
from tests.services import absent


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


class Encrypted(EmbeddedPostgres):
    """PostgreSQL as this machine has it, which answers nobody without TLS.

    The one of the wheel is built without it.
    """

    initdb = ()  # before 16 it has no settings

    def __init__(self, home: Path, certificate: tuple[Path, Path]) -> None:
        super().__init__(fast=True, settings={"ssl": "on"})
        self._program = home
        self._certificate = certificate

    def dsn_of(self, database: str) -> str:
        """Return the address of a database, by which the server is verified."""
        root = self._certificate[0]
        return f"{super().dsn_of(database)}?sslmode=verify-full&sslrootcert={root}"

    def _install(self) -> None:
        super()._install()
        line = "hostssl all all 127.0.0.1/32 scram-sha-256\n"
        (self.data / "pg_hba.conf").write_text(line)
        names = ("server.crt", "server.key")
        for source, name in zip(self._certificate, names, strict=True):
            target = self.data / name
            shutil.copyfile(source, target)
            target.chmod(0o600)
            if self._account is not None:
                os.chown(target, *self._account)


@pytest.fixture
def encrypted_dsn(certificate: tuple[Path, Path]) -> Iterator[str]:
    """Give the address of a migrated database that is reached by TLS only."""
    programs = [*Path("/usr/lib/postgresql").glob("*/bin/postgres")]  # Debian
    if named := shutil.which("postgres"):
        programs.append(Path(named))
    if not programs:
        absent("PostgreSQL with TLS", "not installed", required=False)
    with Encrypted(programs[0].parents[1], certificate) as server:
        plain = EmbeddedPostgres.dsn_of(server, "postgres")
        with pytest.raises(psycopg.OperationalError, match="no encryption"):
            psycopg.connect(f"{plain}?sslmode=disable")
        migrate(server.dsn, schema="public")
        yield server.dsn


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_rows_of_every_kind(
    encrypted_dsn: str,
    request: pytest.FixtureRequest,
    certificate: tuple[Path, Path],
    encrypted: Callable[[str], int],
    queue_name: str,
    broker: str,
) -> None:
    """With TLS to the database and to the broker, each verified."""
    conf: dict[str, Any] = {}
    if broker == "redis":
        plain = request.getfixturevalue("redis_url")
        login, _, _ = urlsplit(plain).netloc.rpartition("@")
        at = f"{login}@127.0.0.1:{encrypted(plain)}"
        url = f"rediss://{at}/0?ssl_cert_reqs=required"
        url = f"{url}&ssl_ca_certs={certificate[0]}"
    else:
        url, conf = verified(
            request.getfixturevalue("amqp_url"), encrypted, certificate[0]
        )
    with stand(encrypted_dsn, url, queue_name, **conf) as made:
        made.worker()
        made.begin(0)
        made.ends(0)
        made.stop(0)


def verified(
    url: str, encrypted: Callable[[str], int], root: Path
) -> tuple[str, dict[str, Any]]:
    """Return the address of a RabbitMQ behind TLS, and the settings for it."""
    port = encrypted(url)
    parts = urlsplit(url)
    return (
        f"amqp://{parts.username}:{parts.password}@127.0.0.1:{port}{parts.path}",
        {"broker_use_ssl": {"ca_certs": str(root), "cert_reqs": ssl.CERT_REQUIRED}},
    )


def test_rabbitmq(
    dsn: str,
    amqp_url: str,
    certificate: tuple[Path, Path],
    encrypted: Callable[[str], int],
    begin: Begin,
) -> None:
    """By ``broker_use_ssl``; its thread ends in good order, too."""
    broker, conf = verified(amqp_url, encrypted, certificate[0])
    played = begin(dsn, broker, **conf)
    played.sends(2)
    played.replica.stop()
    assert played.replica.join(30.0)

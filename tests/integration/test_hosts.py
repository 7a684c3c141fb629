"""A DSN of several hosts, of which the first never answers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker import deadline
from celery_pecker.deadline.clients import psycopg as bounded
from celery_pecker.kernel import hosts
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.kernel.migrations import migrate
from celery_pecker.kernel.schema_check import check_schema
from celery_pecker.testing import EmbeddedPostgres
from tests.proxy import Proxy

HOST = "127.0.0.1"


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """Ports are used again by other tests."""
    hosts._silent.clear()
    yield
    hosts._silent.clear()


@pytest.fixture
def silent(dsn: str) -> Iterator[Proxy]:
    """Give the way to a server that accepts and never answers."""
    with Proxy(*place(dsn)) as proxy:
        proxy.hang()
        yield proxy


@pytest.fixture
def dropping() -> Iterator[int]:
    """Give a port whose packets are dropped: its queue of connections is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((HOST, 0), backlog=0))
        for _ in range(4):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def place(dsn: str) -> tuple[str, int]:
    """Return host and port."""
    given = conninfo_to_dict(dsn)
    return str(given["host"]), int(str(given["port"]))


def after(port: int, dsn: str, **more: Any) -> str:
    """Return an address whose first host is at this port, and the second is well."""
    host, good = place(dsn)
    return make_conninfo(dsn, host=f"{HOST},{host}", port=f"{port},{good}", **more)


def hurried(dsn: str, seconds: float = 1.0) -> Database:
    """Return what the start check asks through."""
    database = Database(dsn, schema="public", timeout=2.0)
    database.limit_wait(seconds)
    return database


def answers(database: Database) -> bool:
    """Say whether a statement is answered."""
    with closing(database):
        return len(database.run("read_tasks", names=[], now=None)) == 1


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"target_session_attrs": "read-write"},
        {"target_session_attrs": "prefer-standby"},
        {"load_balance_hosts": "random"},
        {"connect_timeout": "5"},
    ],
    ids=str,
)
def test_a_silent_host_leaves_time_for_the_next(
    dsn: str, silent: Proxy, more: dict[str, str]
) -> None:
    """However the DSN asks for them."""
    assert answers(hurried(after(silent.port, dsn, **more)))


def test_a_host_that_drops_packets_leaves_time_for_the_next(
    dsn: str, dropping: int
) -> None:
    """No route to it, or a firewall."""
    assert answers(hurried(after(dropping, dsn)))


def test_hosts_of_a_service_file_share_the_time(
    dsn: str, silent: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Psycopg does not look into it."""
    file = tmp_path / "services"
    named = conninfo_to_dict(after(silent.port, dsn))
    options = "\n".join(f"{name}={value}" for name, value in named.items())
    file.write_text(f"[here]\n{options}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    assert answers(hurried("service=here"))
    hosts._silent.clear()
    monkeypatch.setenv("PGSERVICE", "here")
    assert answers(hurried(""))


def test_hosts_of_the_environment_share_the_time(
    dsn: str, silent: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As libpq reads it."""
    named = conninfo_to_dict(after(silent.port, dsn))
    monkeypatch.setenv("PGHOST", str(named.pop("host")))
    monkeypatch.setenv("PGPORT", str(named.pop("port")))
    assert answers(hurried(make_conninfo("", **named)))


def test_addresses_of_one_name_share_the_time(
    dsn: str, silent: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses stand for a name in DNS that has several."""
    # Same port for all addresses of a name: the silent one is 127.0.0.2.
    with socket.create_server(("127.0.0.2", place(dsn)[1])):
        found = socket.getaddrinfo

        def resolve(host: str, port: Any, **how: Any) -> Any:
            if host != "database.test":
                return found(host, port, **how)
            ours = [found(one, port, **how) for one in ("127.0.0.2", HOST)]
            return [*ours[0], *ours[1]]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        assert answers(hurried(make_conninfo(dsn, host="database.test")))


def test_a_silent_host_is_asked_once_a_minute_by_a_process(
    dsn: str, silent: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whichever connection comes first; then it has its usual place again."""
    both = after(silent.port, dsn)
    for _ in range(3):
        assert answers(hurried(both))
    with deadline.within(2.0):
        bounded.Connection.connect(both).close()
    assert silent.connections() == 1

    silent.open()
    monkeypatch.setattr(hosts, "RETRY_INTERVAL", 0.0)
    with closing(hurried(both)) as database:
        database.run("read_tasks", names=[], now=None)
        assert database._connected().info.port == silent.port


def test_where_all_are_silent_the_error_names_each(dsn: str, silent: Proxy) -> None:
    """And says of which it is known what."""
    both = make_conninfo(dsn, host=f"{HOST},{HOST}", port=f"{silent.port},1")
    with pytest.raises(DatabaseUnavailable) as caught:
        answers(hurried(both, 0.4))
    assert f"{HOST} port {silent.port}: connection timeout" in str(caught.value)
    assert f"{HOST} port 1: connection failed" in str(caught.value)


def test_a_client_under_a_deadline_reaches_the_next_host(
    dsn: str, silent: Proxy
) -> None:
    """It took all that was left for the first one."""
    with deadline.within(2.0):
        bounded.Connection.connect(after(silent.port, dsn)).close()


def test_a_host_is_not_called_silent_by_who_has_no_time(
    dsn: str, silent: Proxy
) -> None:
    """The last milliseconds of one run say nothing of a host to all others."""
    with pytest.raises(DatabaseUnavailable):
        answers(hurried(make_conninfo(dsn, port=silent.port), 0.05))
    assert hosts._silent == {}


def test_a_host_that_became_read_only_is_left_for_another(
    dsn: str, own_postgres: Callable[..., EmbeddedPostgres]
) -> None:
    """Also by a DSN that does not ask for a primary."""
    server = own_postgres(fast=True)
    demoted = place(server.dsn)[1]
    name = conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
        # One address has one password for both servers.
        password = conninfo_to_dict(dsn)["password"]
        connection.execute(f"alter role current_user password '{password}'")
        theirs = make_conninfo(server.dsn, dbname=name, password=password)
        migrate(theirs, schema="public")
        connection.execute(
            f'alter database "{name}" set default_transaction_read_only = on'
        )
    with closing(hurried(after(demoted, dsn), 5.0)) as database:
        with pytest.raises(DatabaseUnavailable, match="read-only"):
            database.change("enroll", names=["a"], now=None)
        check_schema(database, app="test")

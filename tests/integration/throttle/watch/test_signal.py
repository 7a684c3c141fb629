"""What a real PostgreSQL says of itself, and how long it is waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest
from psycopg import conninfo, sql

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.testing import EmbeddedPostgres, eventually
from tests.integration.throttle.watch.backend import LOCK, at_work
from tests.proxy import Proxy
from throttle.errors import Misconfigured
from throttle.model import Watch
from throttle.watch.limit_factor import FAR, Symptom
from throttle.watch.signal import ANSWER, Signal, Unanswered


@pytest.fixture
def signals() -> Iterator[Callable[..., Signal]]:
    """Give a function that makes signals."""
    with ExitStack() as stack:

        def make(dsn: str, **options: float) -> Signal:
            clock = options.pop("clock", None)
            watch = Watch(dsn=dsn, **options)
            made = (
                Signal("main", watch)
                if clock is None
                else Signal("main", watch, clock=clock)  # type: ignore[arg-type]
            )
            stack.callback(made.close)
            return made

        yield make


def only(symptoms: object) -> Symptom:
    """Return the one symptom that was said."""
    assert isinstance(symptoms, list)
    [symptom] = symptoms
    assert isinstance(symptom, Symptom)
    return symptom


def test_backends_at_work_are_counted(
    own_postgres: Callable[..., EmbeddedPostgres], signals: Callable[..., Signal]
) -> None:
    """Those that run something, not the one that asks, and not those that idle."""
    server = own_postgres(fast=True)
    signal = signals(server.dsn, active=2)
    assert only(signal.ask()) == Symptom(0.0, "0 active backends, of 2")
    with (
        psycopg.connect(server.dsn, autocommit=True) as holder,
        psycopg.connect(server.dsn, autocommit=True),
        ExitStack() as stack,
    ):
        holder.execute("select pg_advisory_lock(%s)", [LOCK])
        for _ in range(3):
            stack.enter_context(at_work(server.dsn))
        eventually(lambda: only(signal.ask()).ratio == 1.5)
        assert only(signal.ask()).text == "3 active backends, of 2"
        holder.execute("select pg_advisory_unlock(%s)", [LOCK])
        eventually(lambda: only(signal.ask()).ratio == 0.0)


def test_it_names_itself(empty_dsn: str, signals: Callable[..., Signal]) -> None:
    """In pg_stat_activity, so that whoever wonders knows who asks."""
    signal = signals(empty_dsn, active=1_000)
    signal.ask()
    with psycopg.connect(empty_dsn) as connection:
        rows = connection.execute(
            "select query from pg_stat_activity where application_name = %s"
            " and datname = current_database()",
            ["throttle:watch"],
        ).fetchall()
    assert len(rows) == 1
    signal.ask()  # on the same connection


def test_the_log_that_is_written_is_a_rate(
    own_postgres: Callable[..., EmbeddedPostgres], signals: Callable[..., Signal]
) -> None:
    """By the server's clock, from the second question on."""
    server = own_postgres(fast=True)
    signal = signals(server.dsn, wal_rate=1.0)
    assert signal.ask() == []
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("create table t as select generate_series(1, 100000) as n")
    symptom = only(signal.ask())
    assert symptom.ratio > 1_000_000
    assert "bytes of WAL per second, of 1" in symptom.text


def test_without_replicas_nothing_lags(
    postgres_server: object, empty_dsn: str, signals: Callable[..., Signal]
) -> None:
    """Zero, and not unknown."""
    assert only(signals(empty_dsn, lag=2.0).ask()) == Symptom(
        0.0, "0 seconds of lag, of 2"
    )


def test_a_server_without_a_free_connection_is_in_trouble(
    own_postgres: Callable[..., EmbeddedPostgres], signals: Callable[..., Signal]
) -> None:
    """It refuses who asks how it is: that is an answer."""
    server = own_postgres(
        fast=True,
        settings={
            "max_connections": "5",
            "superuser_reserved_connections": "0",
            "reserved_connections": "0",
            "max_wal_senders": "0",
        },
    )
    signal = signals(server.dsn, active=40)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(psycopg.connect(server.dsn))
        assert only(signal.ask()) == Symptom(FAR, "no connection is free")
        assert only(signal.ask()).ratio == FAR, "it is asked again at once"
    eventually(
        lambda: only(signal.ask()).text.endswith("of 40"), ignoring=(Unanswered,)
    )


def test_a_role_without_rights_is_told(
    empty_dsn: str, signals: Callable[..., Signal]
) -> None:
    """It would see everybody idle."""
    role = f"pecker_test_{conninfo.conninfo_to_dict(empty_dsn)['dbname']}"[-60:]
    name = sql.Identifier(role)
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        asked = sql.SQL("create role {} login password {}")
        admin.execute(asked.format(name, admin.info.password))
        try:
            theirs = conninfo.make_conninfo(empty_dsn, user=role)
            signal = signals(theirs, active=1)
            signal.ask()
            sees = [signal.sees_all]
            admin.execute(sql.SQL("grant pg_monitor to {}").format(name))
            signal.ask()
            assert [*sees, signal.sees_all] == [False, True]
            signal.close()
        finally:
            admin.execute(sql.SQL("drop owned by {}").format(name))
            admin.execute(sql.SQL("drop role {}").format(name))


@pytest.mark.parametrize("way", ["hang", "mute", "refuse"])
def test_a_server_that_does_not_answer_is_left_alone(
    postgres_server: object, empty_dsn: str, signals: Callable[..., Signal], way: str
) -> None:
    """In bounded time; then it is asked ever more rarely, until it answers."""
    parts = conninfo.conninfo_to_dict(empty_dsn)
    with Proxy(str(parts["host"]), int(str(parts["port"]))) as proxy:
        now = [0.0]
        theirs = conninfo.make_conninfo(empty_dsn, host="127.0.0.1", port=proxy.port)
        signal = signals(theirs, active=1_000, clock=lambda: now[0])
        signal.ask()
        getattr(proxy, way)()
        before = SYSTEM.monotonic()
        with pytest.raises(Unanswered, match="does not say how it is"):
            signal.ask()
        assert SYSTEM.monotonic() - before < 10 * ANSWER
        with pytest.raises(Unanswered, match="is asked later"):
            signal.ask()
        proxy.open()
        now[0] = 1.0
        assert only(signal.ask()).ratio < 1


def test_a_watched_address_that_is_none_is_refused() -> None:
    """Without telling what it was: there may be a password in it."""
    with pytest.raises(
        Misconfigured, match=r"\['main'\]\['watch'\]\['dsn'\]"
    ) as caught:
        Signal("main", Watch(dsn="postgres//user:s3same@host", active=1))
    assert "s3same" not in str(caught.value)


def test_no_password_is_shown(empty_dsn: str) -> None:
    """Nor in what it calls its server."""
    dsn = conninfo.make_conninfo(empty_dsn, password="s3same")  # noqa: S106
    where = Signal("main", Watch(dsn=dsn, active=1)).database.where
    assert "127.0.0.1" in where
    assert "s3same" not in where

"""A failover that loses the last seconds: what the tables do not have ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from celery_pecker.kernel.clock import monotonic
from celery_pecker.observers import Answer, Place
from celery_pecker.observers.hosts.lives import Lives
from celery_pecker.observers.lease import Trust
from celery_pecker.testing import EmbeddedPostgres, eventually
from tests.integration.observers import watch_app
from tests.integration.observers.conftest import NOTES, SECONDS, Crew, Desk
from tests.integration.outbox_relay.standby import (
    BEHIND,
    Standby,
    either,
    promote,
    replicated,
)
from tests.services import PostgresStand

NO_LONGER = "alter system set primary_conninfo = ''"
DUE = (
    "update pecker_observers set not_before = now() + %s::interval"
    " where name = 'unclaimed'"
)
CUT_OFF = "select count(*) from pg_stat_replication"


@dataclass
class Stand:
    """Two hosts on a server that has a standby; their notes are elsewhere."""

    crew: Crew
    primary: EmbeddedPostgres
    standby: Standby

    def waits_for(self, question: str, answer: int) -> None:
        """Wait until the primary answers so."""
        with psycopg.connect(self.primary.dsn, autocommit=True) as connection:
            eventually(
                lambda: connection.execute(question.encode()).fetchone() == (answer,),
                timeout=SECONDS,
            )

    def cut_off(self) -> None:
        """Let the standby have all that there is, and nothing of what comes."""
        self.waits_for(BEHIND, 1)
        with psycopg.connect(self.standby.dsn, autocommit=True) as connection:
            connection.execute(NO_LONGER)
            connection.execute("select pg_reload_conf()")
        self.waits_for(CUT_OFF, 0)

    def fail_over(self) -> None:
        """Lose the primary."""
        self.primary.kill()
        promote(self.standby)

    def due(self) -> None:
        """Let the observer that is for later wait for a host from now on."""
        with psycopg.connect(self.crew.dsn) as connection:
            connection.execute(DUE, ["0"])

    def alive(self, name: str) -> set[int]:
        """Return the epochs of lives that have begun and not ended."""
        notes = self.crew.notes(name)
        began = {epoch for what, epoch, *_ in notes if what.startswith("began")}
        return began - {epoch for what, epoch, *_ in notes if what == "ended"}

    def lives(self, name: str, count: int) -> set[int]:
        """Wait until so many lives of an observer are under way; return them."""
        eventually(lambda: len(self.alive(name)) == count, timeout=SECONDS)
        return self.alive(name)


class NotedElsewhere(Crew):
    """A crew whose notes are on a server that does not fail over."""

    elsewhere: str

    def notes(self, name: str) -> list[tuple[str, int, int, float]]:
        """Return what the lives of an observer wrote."""
        return Crew(self.elsewhere, self.observers).notes(name)


@pytest.fixture
def stand(
    postgres_server: PostgresStand, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stand]:
    """Give two hosts whose address names both servers."""
    observers = watch_app.observers
    with (
        postgres_server.fresh(migrated=False) as elsewhere,
        replicated() as (primary, standby),
    ):
        with psycopg.connect(elsewhere, autocommit=True) as connection:
            connection.execute(NOTES)
        monkeypatch.setenv("PECKER_TEST_NOTES", elsewhere)
        for name in ("settings", "_calls"):
            vars(observers).pop(name, None)
        dsn = either(primary, standby)
        watch_app.app.conf.update(pecker_dsn=dsn, pecker_observers_lease=30.0)
        crew = NotedElsewhere(dsn, observers)
        crew.elsewhere = elsewhere
        crew.start("left")
        crew.start("right")
        yield Stand(crew, primary, standby)
        crew.close()
        watch_app.app.conf.update(pecker_observers_lease=None)


@pytest.mark.slow
def test_what_no_table_knows_ends(stand: Stand) -> None:
    """Long before any lease is over; a name that is started again runs once."""
    observers = stand.crew.observers
    observers.start("watch", "known")
    [known] = stand.lives("known", 1)
    with psycopg.connect(stand.crew.dsn) as connection:
        observers.start("watch", "unclaimed", connection=connection)
        connection.execute(DUE, ["1 hour"])
    stand.cut_off()
    stand.due()
    [lost] = stand.lives("unclaimed", 1)
    for name in ("stopped", "again", "left"):
        observers.start("watch", name)
        stand.lives(name, 1)
    [before] = stand.alive("again")
    stand.fail_over()
    assert observers.stop("stopped") is Answer.NOT_FOUND
    observers.start("watch", "again")  # with the id of another that was lost, perhaps
    for name in ("stopped", "left", "unclaimed"):
        stand.lives(name, 0)
    stand.due()
    [epoch] = stand.lives("unclaimed", 1)
    assert epoch > lost
    assert epoch == stand.crew.at("unclaimed", Place.RUNNING).epoch
    eventually(lambda: before not in stand.alive("again"), timeout=SECONDS)
    [epoch] = stand.lives("again", 1)
    assert epoch == stand.crew.at("again", Place.RUNNING).epoch
    assert stand.alive("known") == {known}
    assert {one.name for one in observers.list()} == {"known", "unclaimed", "again"}


def test_lives_are_compared_with_their_rows(desk: Desk) -> None:
    """By id, epoch and host; a row that went back keeps the epoch that was lost."""
    host, other = desk.host("one"), desk.host("other")
    for name in ("kept", "unclaimed", "deleted", "elsewhere"):
        desk.watch.start(name)
    claimed = {one.name: one for one in host.claim(10, 10)}
    known = {one.id: one.epoch for one in claimed.values()}
    assert host.epochs() == sum(known.values())
    assert host.lost(known) == set()
    desk.sql("update pecker_observers set epoch = 0, node = null where name <> 'kept'")
    desk.sql("delete from pecker_observers where name = 'deleted'")
    desk.sql(
        "update pecker_observers set node = %s, epoch = 7 where name = 'elsewhere'",
        other.node,
    )
    assert host.epochs() == claimed["kept"].epoch
    lost = {claimed[name].id for name in ("unclaimed", "deleted", "elsewhere")}
    assert host.lost(known) == lost
    row = desk.row("unclaimed")
    assert (row.epoch, row.place) == (claimed["unclaimed"].epoch, Place.WAITING)
    desk.sql("update pecker_observers set epoch = epoch + 1 where name = 'kept'")
    assert host.lost(known) == lost | {claimed["kept"].id}
    assert desk.row("kept").epoch == claimed["kept"].epoch + 1


def test_a_life_is_not_forgotten_for_another_one_of_its_id(desk: Desk) -> None:
    """It would run on, and no stop would reach it: the host ends it first."""
    host = desk.host()
    desk.watch.start("btc")
    [first] = host.claim(10, 10)
    trust = Trust()
    trust.renew(monotonic(), 100.0)
    lives = Lives(desk.observers.kinds, trust, schema="public")
    [life] = lives.add([first])
    desk.sql("update pecker_observers set epoch = 0, node = null")
    assert lives.add(host.claim(10, 10)) == []
    assert lives.by_id == {first.id: life}

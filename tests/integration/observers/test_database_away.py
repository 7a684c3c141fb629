"""Two hosts, each with a way to PostgreSQL of its own that can be closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import conninfo

from celery_pecker.observers import Place
from celery_pecker.testing import eventually
from tests.integration.observers import watch_app
from tests.integration.observers.conftest import SECONDS, Crew
from tests.proxy import Proxy

pytestmark = pytest.mark.soak

BEGAN = "began {}"
LIVING = "from pecker_observer_nodes where state <> 'dead'"
WITNESSES = "select count(*) filter (where since < now() - ttl) = 2 " + LIVING
SILENT = "select bool_and(leased_until < now()) " + LIVING


@dataclass
class Stand:
    """Hosts, the way of each, and the tables as they are."""

    crew: Crew
    ways: dict[str, Proxy]

    def says(self, question: str) -> None:
        """Wait until a question to the tables is answered by true."""

        def true() -> bool:
            with psycopg.connect(self.crew.dsn) as connection:
                return connection.execute(question.encode()).fetchone() == (True,)

        eventually(true, timeout=SECONDS)

    def both_up(self) -> None:
        """Wait until both hosts have held their leases unbroken for a whole length."""
        self.says(WITNESSES)

    def nodes(self) -> dict[str, str]:
        """Return ids and names of living hosts."""
        return {one.node: one.name for one in self.crew.observers.nodes()}

    def lives(self) -> set[tuple[str, str]]:
        """Return ids and states of all lives of hosts, the dead too."""
        rows = self.crew.observers.nodes(dead=True)
        return {(one.node, one.state) for one in rows}

    def way_of(self, name: str) -> Proxy:
        """Return the way of the host that runs an observer."""
        node = self.crew.at(name, Place.RUNNING).node
        assert node is not None
        return self.ways[self.nodes()[node]]


@pytest.fixture(scope="module")
def stand(crews: Callable[..., Crew]) -> Iterator[Stand]:
    """Give two hosts; what their lives note down does not go their way."""
    with ExitStack() as stack:
        crew = crews(pecker_observers_lease=3.0, pecker_database_timeout=1.0)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PECKER_TEST_NOTES", crew.dsn)
        parts = conninfo.conninfo_to_dict(crew.dsn)
        ways = {}
        for name in ("left", "right"):
            way = stack.enter_context(
                Proxy(str(parts["host"]), int(parts["port"] or 0))
            )
            told = {"host": "127.0.0.1", "port": str(way.port)}
            watch_app.app.conf.pecker_dsn = conninfo.make_conninfo(crew.dsn, **told)
            vars(crew.observers).pop("settings", None)
            made = crew.start(name)
            ways[made.hosts[0].info()["name"]] = way
        watch_app.app.conf.pecker_dsn = crew.dsn
        for cached in ("settings", "_calls"):
            vars(crew.observers).pop(cached, None)
        yield Stand(crew, ways)
        crew.close()


def test_after_an_outage_everything_runs_on_and_nobody_was_buried(stand: Stand) -> None:
    """What may not run alone has ended meanwhile; what may has not noticed."""
    crew = stand.crew
    stand.both_up()
    before = stand.lives()
    names = ["one", "two", "three"]
    for name in names:
        crew.observers.start("watch", name)
    crew.observers.start("stubborn", "on")
    for name in names:
        crew.noted(name, BEGAN)
    crew.noted("on", "began")
    for way in stand.ways.values():
        way.refuse()
    for name in names:
        crew.noted(name, "ended")
    stand.says(SILENT)
    for way in stand.ways.values():
        way.open()
    for name in names:
        [first, *_, last] = crew.noted(name, BEGAN, times=2)
        assert last[1] > first[1]
        crew.at(name, Place.RUNNING)
    stand.both_up()
    assert stand.lives() == before
    assert [what for what, *_ in crew.notes("on")] == ["began"]
    for name in [*names, "on"]:
        crew.observers.stop(name)
        crew.at(name, Place.GONE)


def test_a_host_that_cannot_renew_ends_its_lives_before_others_begin(
    stand: Stand,
) -> None:
    """Its connection hangs: nothing is answered, and nothing is refused."""
    crew = stand.crew
    stand.both_up()
    crew.observers.start("watch", "fenced")
    crew.noted("fenced", BEGAN)
    way = stand.way_of("fenced")
    way.hang()
    notes = crew.noted("fenced", BEGAN, times=2)
    way.open()
    began, ended, again = sorted(notes, key=lambda one: one[3])
    assert [began[0], ended[0], again[0]] == [BEGAN, "ended", BEGAN]
    assert again[1] > began[1] == ended[1]
    assert again[2] != began[2] == ended[2]
    stand.both_up()
    assert {*stand.nodes().values()} == {*stand.ways}
    crew.observers.stop("fenced")
    crew.at("fenced", Place.GONE)


def test_an_overtaken_life_that_goes_on_writes_nothing_more(stand: Stand) -> None:
    """Of two lives that overlap the guarded writes of the newer one succeed."""
    crew = stand.crew
    stand.both_up()
    crew.observers.start("writer", "pen")
    crew.noted("pen", "wrote")
    way = stand.way_of("pen")
    way.hang()
    crew.noted("pen", "began", times=2)
    notes = crew.noted("pen", "refused")
    way.open()
    first, second = (one[1] for one in notes if one[0] == "began")
    beginning = next(at for at, one in enumerate(notes) if one[1] == second)
    assert ("wrote", first) not in {one[:2] for one in notes[beginning:]}
    assert [one[1] for one in notes if one[0] == "refused"] == [first]
    stand.both_up()
    crew.observers.stop("pen")
    crew.at("pen", Place.GONE)

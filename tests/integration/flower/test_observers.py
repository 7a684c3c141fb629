"""The page Observers, as a browser gets it from a real Flower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from celery_pecker.testing import eventually
from tests.integration.cli.observer_rows import LONG, statuses, write_observers
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.site import Site

APP = """
from celery_pecker.observers import Observers
observers = Observers(app)
"""
UNSENT = b"""
insert into pecker_observer_notices
    (signature, event, held_until, tries, created_at, last_error)
values ('{}', '{}', now() + interval '1 d', 7, now() - interval '1 h',
        'NotRegistered: tell')
"""


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over observers."""
    return start(shared_dsn, more=APP, env=ANYBODY)


@pytest.fixture(autouse=True)
def ids(shared_dsn: str) -> dict[str, str]:
    """Leave hosts and observers, the same for each test; give the ids of hosts."""
    return write_observers(shared_dsn)


def once(read: Callable[[], Any], wanted: Any) -> None:
    """Wait for what the page says: it keeps an answer for a second."""
    eventually(lambda: read() == wanted, 30.0, f"the page says {wanted}")


def figure(site: Site, name: str) -> str:
    """Return the number of a card."""
    return str(site.data("/observers")["cards"][name]["text"])


def test_hosts_and_observers_are_those_of_the_tables(site: Site) -> None:
    """What needs a look first; a host whose lease is over is said to be."""

    def figures() -> tuple[Any, ...]:
        found = site.data("/observers")
        return figure(site, "parked"), figure(site, "free"), found["total"]

    once(figures, ("1", "1", 5))
    found = site.data("/observers")
    hosts = [(one["name"], one["state"], one["load"]) for one in found["rows"]["hosts"]]
    assert hosts == [("a", "up", 4), ("b", "draining", 0), ("c", "lapsed", 0)]
    assert [row["name"] for row in found["rows"]["observers"]] == [
        *("bad", "wait", "leave", "retry", LONG),
    ]
    assert (
        found["rows"]["observers"][0]["last_error"]
        == "ConnectionError: <b>no</b> route"
    )
    assert found["life"] is None


def test_signatures_that_could_not_be_sent_are_shown(
    site: Site, shared_dsn: str
) -> None:
    """As the command, health and the metrics do."""
    once(lambda: site.data("/observers")["warning"], "")
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(UNSENT)
    try:
        why = (
            "1 signature of on_parked and on_moved not sent, the oldest for 60 min:"
            " NotRegistered: tell"
        )
        once(lambda: site.data("/observers")["warning"], why)
    finally:
        with psycopg.connect(shared_dsn) as connection:
            connection.execute("delete from pecker_observer_notices")


def test_observers_are_searched_by_the_server(site: Site, ids: dict[str, str]) -> None:
    """By a part of the name or kind, by host and by place; a page is bounded."""

    def names(**query: str) -> list[str]:
        return [
            row["name"] for row in site.data("/observers", **query)["rows"]["observers"]
        ]

    once(lambda: names(search="HEAV"), ["bad"])
    assert names(search="perpetual") == [LONG]
    assert names(place="waiting") == ["wait"]
    assert names(node=ids["a"], search="e") == ["leave", "retry", LONG]
    assert names(search="\0nobody") == names(kind="none") == names(search="%") == []
    assert names(after="x" * 50) == names()
    assert names(place="gone") == []
    assert names(kind="heavy") == ["bad"]
    known = site.data("/observers")["known"]
    assert known == {"kind": ["heavy", "watch"], "node": ["a", "b", "c"]}


def test_a_page_begins_behind_the_last_observer_of_the_one_before(
    site: Site, shared_dsn: str
) -> None:
    """In the order in which they need a look; none twice, and none is left out."""
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(
            "insert into pecker_observers (name, kind, weight, status, not_before,"
            " created_at, modified_at) select 'more ' || nth, 'watch', 1, 'created',"
            " now(), now(), now() from generate_series(1, 110) as nth"
        )
    after = ""
    names: list[str] = []
    sizes: list[int] = []
    try:
        once(lambda: site.data("/observers")["total"], 115)
        while after or not names:
            page = site.data("/observers", after=after)
            rows = page["rows"]["observers"]
            names += [row["name"] for row in rows]
            sizes.append(len(rows))
            after = page["next"] if page["more"] else ""
    finally:
        with psycopg.connect(shared_dsn) as connection:
            connection.execute("delete from pecker_observers where name like 'more %'")
        once(lambda: site.data("/observers")["total"], 5)
    assert sizes == [50, 50, 15]
    assert len({*names}) == 115
    assert names[0] == "bad"
    assert names[-1] == LONG


def test_the_life_of_one_is_its_history(site: Site) -> None:
    """Oldest first; of one that is not there nothing."""

    def life(name: str) -> Any:
        return site.data("/observers", name=name)["life"]

    def happened(name: str) -> list[str]:
        rows = site.data("/observers", name=name)["rows"]["events"]
        return [one["event"] for one in reversed(rows)]

    events = ["created", "started", "failed", "parked"]
    once(lambda: happened("bad"), events)
    about = life("bad")["about"]
    assert about[1:] == ['arguments {"symbol": "BTC"}', 'cursor {"seq": 7}']
    assert life("nobody's") is None


def test_people_act_on_observers_and_hosts(
    site: Site, shared_dsn: str, ids: dict[str, str]
) -> None:
    """Stop, restart, drain and undrain; one that is gone is said to be."""

    def act(what: str, name: str) -> Any:
        return site.post("/observers/act", act=what, name=name)

    assert act("restart", "bad").status_code == 200
    once(lambda: figure(site, "parked"), "0")
    assert act("stop", LONG).status_code == 200
    assert statuses(shared_dsn)[LONG] == "on_deleting"
    assert "before" in act("stop", LONG).json()["message"]

    def state() -> str:
        return str(site.data("/observers")["rows"]["hosts"][0]["state"])

    assert act("drain", ids["a"]).status_code == 200
    once(state, "draining")
    assert act("undrain", ids["a"]).status_code == 200
    once(state, "up")
    for what, name in (
        ("stop", "old"),
        ("restart", LONG),
        ("stop", "x"),
        ("drain", "x"),
    ):
        gone = act(what, name)
        assert gone.status_code == 404, (what, name)
        assert "not there any more" in gone.json()["error"]


def test_who_may_not_act_changes_nothing(
    site: Site, shared_dsn: str, start: Callable[..., Site]
) -> None:
    """Without the page's token; on a Flower that asks nobody, or is read-only."""
    forged = site.post("/observers/act", token=False, act="stop", name=LONG)
    assert forged.status_code == 403
    closed = start(shared_dsn, more=APP, arguments="read_only=True", env=ANYBODY)
    for what in ("stop", "restart", "drain", "undrain"):
        refused = closed.post("/observers/act", act=what, name=LONG)
        assert refused.status_code == 403
        assert "read-only" in refused.json()["error"]
    assert statuses(shared_dsn)[LONG] == "processing"


def test_the_menu_has_it_where_an_app_has_observers(
    site: Site, shared_dsn: str, start: Callable[..., Site]
) -> None:
    """Others do not see an empty page."""
    assert 'href="/observers"' in site.get("/schedules").text
    assert 'href="/observers"' not in start(shared_dsn).get("/schedules").text

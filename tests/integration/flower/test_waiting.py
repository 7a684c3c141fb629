"""Acts that can be taken back for ten seconds, on real Flowers over one database."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, LiteralString

import psycopg
import pytest

from celery_pecker.kernel.clock import pause
from celery_pecker.kernel.database import Database
from celery_pecker.testing import eventually
from tests.integration.flower.outbox_rows import (
    ANYBODY,
    APP,
    STRANGE,
    ids,
    states,
    write_outbox,
)
from tests.integration.flower.site import Site

DUE = "update pecker_acts set due_at = now() - interval '1 second' where id = %s"
"""Ten seconds later."""


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over an outbox."""
    return start(shared_dsn, more=APP, env=ANYBODY)


@pytest.fixture(autouse=True)
def rows(shared_dsn: str) -> None:
    """Leave messages of three tasks, and no acts."""
    write_outbox(shared_dsn)
    change(shared_dsn, "truncate pecker_acts")


def change(dsn: str, statement: LiteralString, *values: Any) -> None:
    """Change what stands in the tables."""
    with psycopg.connect(dsn) as connection:
        connection.execute(statement, values)


def waiting(site: Site) -> list[dict[str, Any]]:
    """Return what pages say of acts that wait, or did just now."""
    rows: list[dict[str, Any]] = site.data("/outbox")["waiting"]
    return rows


def ask(site: Site, **what: Any) -> str:
    """Have messages dropped in ten seconds; return the number of the act."""
    asked = site.post("/outbox/act", act="drop", later=True, **what)
    assert asked.status_code == 200, asked.text
    assert asked.json()["message"].startswith("In 10 s, if nobody undoes it: outbox dr")
    eventually(lambda: waiting(site), 10.0, "it is shown")
    return str(waiting(site)[0]["id"])


def state(site: Site) -> str:
    """Return what the audit says of the last act."""
    return str(site.data("/audit")["rows"]["audit"][0]["state"])


def taken(dsn: str, *acts: str) -> int:
    """Take the first act that is due, as a Flower would; return how many it was."""
    database = Database(dsn, schema="public", timeout=5.0)
    try:
        return len(database.run("take_act", acts=[*acts]))
    finally:
        database.close()


def until(site: Site, wanted: str) -> None:
    """Wait until the audit says so of the last act."""
    eventually(lambda: state(site) == wanted, 30.0, f"it is {wanted}")


def test_an_act_waits_and_can_be_undone(site: Site, shared_dsn: str) -> None:
    """Any page says what waits; undone, it is never done, and is undone once."""
    [name, *_] = sorted(ids(shared_dsn))
    before = states(shared_dsn)
    act = ask(site, name=name)
    [shown] = site.data("/schedules")["waiting"]
    assert (shown["words"], shown["state"]) == (f"outbox drop {name}", "waits")
    assert 0 < shown["due_us"] - site.data("/outbox")["now"] < 10_000_000
    assert state(site) == "waits"
    assert site.post("/schedules/act", act="undo", name=act).status_code == 200
    until(site, "undone")
    assert "flower:127.0.0.1" in site.data("/audit")["rows"]["audit"][0]["error"]
    change(shared_dsn, DUE, act)
    again = site.post("/outbox/act", act="undo", name=act)
    assert again.status_code == 404
    assert "does not wait any more" in again.json()["error"]
    assert states(shared_dsn) == before


def test_it_is_done_when_its_time_has_come(site: Site, shared_dsn: str) -> None:
    """By the Flower that was asked, though nobody looks."""
    ask(site, names=sorted(ids(shared_dsn))[:2])
    eventually(lambda: len(ids(shared_dsn)) == 3, 30.0, "two of five are dropped")
    until(site, "done")
    [shown] = waiting(site)
    assert shown["state"] == "done"


def test_another_flower_does_it_where_the_first_has_died(
    site: Site, shared_dsn: str, start: Callable[..., Site]
) -> None:
    """With the next page that anybody looks at; one that is read-only does not."""
    first = start(shared_dsn, more=APP, env=ANYBODY)
    closed = start(shared_dsn, more=APP, env=ANYBODY, arguments="read_only=True")
    act = ask(first, name=min(ids(shared_dsn)))
    first.process.kill()
    change(shared_dsn, DUE, act)
    for _ in range(4):
        [shown] = waiting(closed)
        assert (shown["state"], len(ids(shared_dsn))) == ("waits", 5)
        pause(0.4)  # a Flower that may act would do it behind the answer
    eventually(lambda: waiting(site)[0]["state"] == "done", 30.0, "it is done")
    assert len(ids(shared_dsn)) == 4


def test_exactly_one_takes_it(site: Site, shared_dsn: str) -> None:
    """However many ask at once; none that does not know the act."""
    act = ask(site, name=min(ids(shared_dsn)))
    take = partial(taken, shared_dsn)
    assert take("outbox drop") == 0, "it is not due"
    change(shared_dsn, DUE, act)
    assert take("outbox retry", "jobs cancel") == 0, "it is another's"
    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(take, ["outbox drop"] * 8)) == 1
    # Who took it has died: it is not done twice, and nobody says that it was done.
    until(site, "unknown")
    assert site.post("/outbox/act", act="undo", name=act).status_code == 404
    assert len(ids(shared_dsn)) == 5


def test_what_nobody_did_for_ten_minutes_is_not_done(
    site: Site, shared_dsn: str
) -> None:
    """People have gone on since: who starts a Flower on Monday removes nothing."""
    act = ask(site, name=min(ids(shared_dsn)))
    change(
        shared_dsn,
        "update pecker_acts set due_at = now() - interval '11 minutes' where id = %s",
        act,
    )
    until(site, "lapsed")
    assert taken(shared_dsn, "outbox drop") == 0, "nor with another that is due"
    eventually(lambda: not waiting(site), 10.0, "pages show it no more")
    assert len(ids(shared_dsn)) == 5


def test_of_all_that_match_those_are_meant_that_were_there(
    site: Site, shared_dsn: str
) -> None:
    """What is recorded in the ten seconds stays."""
    asked = site.post("/outbox/act?parked=1", act="drop", every=True, later=True)
    assert asked.status_code == 200
    [shown] = waiting(site)
    assert shown["words"] == "outbox drop all parked 1"
    change(
        shared_dsn,
        "update pecker_outbox set parked_at = now(), created_at = now()"
        " where task = 'proj.remind'",
    )
    change(shared_dsn, DUE, shown["id"])
    until(site, "done")
    assert STRANGE not in states(shared_dsn)
    assert states(shared_dsn)["proj.remind"] == 1


def test_a_refusal_stands_beside_it(site: Site, shared_dsn: str) -> None:
    """What was there when it was asked for may have gone since."""
    name = min(ids(shared_dsn))
    act = ask(site, name=name)
    change(shared_dsn, "delete from pecker_outbox where id = %s", int(name))
    change(shared_dsn, DUE, act)
    eventually(lambda: waiting(site)[0]["state"] == "failed", 30.0, "it is refused")
    assert "not in the outbox any more" in waiting(site)[0]["error"]


def test_only_what_can_be_taken_back_waits(site: Site, shared_dsn: str) -> None:
    """Others are done at once, or refused."""
    asked = site.post("/outbox/act", act="park", name="1", later=True)
    assert asked.status_code == 400
    assert asked.json()["error"] == "park cannot wait; allowed are: drop."
    unknown = site.post("/outbox/act", act="undo", name="x")
    assert unknown.status_code == 404

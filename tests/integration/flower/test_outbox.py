"""The page Outbox, as a browser gets it from a real Flower."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker.surfaces.views.model import HIDDEN
from celery_pecker.testing import eventually
from tests.integration.flower.outbox_rows import (
    ANYBODY,
    APP,
    STRANGE,
    states,
    write_outbox,
)
from tests.integration.flower.site import Site
from tests.proxy import Proxy
from tests.services import PostgresStand


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over an outbox."""
    return start(shared_dsn, more=APP, env=ANYBODY)


@pytest.fixture(autouse=True)
def rows(shared_dsn: str) -> None:
    """Leave messages of three tasks, the same for each test."""
    write_outbox(shared_dsn, parked=3)


def once(read: Callable[[], Any], wanted: Any) -> None:
    """Wait for what the page says: it keeps an answer for a second."""
    eventually(lambda: read() == wanted, 30.0, f"the page says {wanted}")


def figure(site: Site, name: str, **query: str) -> int:
    """Return the number of a card."""
    return int(site.data("/outbox", **query)["cards"][name]["text"])


def messages(site: Site, **query: str) -> list[dict[str, Any]]:
    """Return the messages that the page lists."""
    rows: list[dict[str, Any]] = site.data("/outbox", **query)["rows"]["messages"]
    return rows


def test_the_figures_are_those_of_the_table(site: Site) -> None:
    """All of it, then each task, then messages; without a relay it never drains."""

    def figures() -> tuple[int, int, int, int]:
        data = site.data("/outbox")
        later = sum(one["later"] for one in data["rows"]["tasks"])
        rows = len(data["rows"]["messages"])
        return int(card("depth")), later, int(card("parked")), rows

    def card(name: str) -> str:
        return str(site.data("/outbox")["cards"][name]["text"])

    once(figures, (3, 1, 3, 7))
    assert card("drain") == "never"
    assert card("relays") == "0"
    by_task = {one["task"]: one for one in site.data("/outbox")["rows"]["tasks"]}
    assert by_task["proj.bill"]["waiting"] == 3
    assert by_task["proj.remind"]["later"] == 1
    assert by_task[STRANGE]["parked"] == 3


def test_messages_are_chosen_by_task_and_state(site: Site) -> None:
    """Parked ones say why."""

    def chosen(name: str, **query: str) -> list[Any]:
        return [row[name] for row in messages(site, **query)]

    once(lambda: chosen("state", task="proj.bill"), ["waiting"] * 3)
    why = "the queue <i>eu</i> is unknown"
    once(lambda: chosen("last_error", parked="1"), [why] * 3)
    assert chosen("id", task="nobody's") == []
    once(lambda: chosen("task", state="later"), ["proj.remind"])
    once(lambda: chosen("state", state="waiting"), ["waiting"] * 3)
    once(lambda: chosen("last_error", error="<I>EU</I> is"), [why] * 3)
    assert chosen("id", queue="celery", error="none such") == []
    [queue] = {*chosen("queue")}
    assert len(chosen("id", queue=queue)) == 7
    assert chosen("id", queue="other") == []


def test_a_page_begins_behind_the_last_message_of_the_one_before(
    site: Site, shared_dsn: str
) -> None:
    """Those with the most attempts first; none twice, and none is left out."""
    write_outbox(shared_dsn, due=245, parked=5, later=0)
    with psycopg.connect(shared_dsn) as connection:
        connection.execute("update pecker_outbox set mode = 1, attempt = id % 2")
    once(lambda: figure(site, "parked"), 5)
    after = ""
    seen: list[tuple[int, int]] = []
    sizes: list[int] = []
    while after or not sizes:
        page = site.data("/outbox", after=after)
        rows = page["rows"]["messages"]
        seen += [(-row["attempt"], int(row["id"])) for row in rows]
        sizes.append(len(rows))
        after = page["next"] if page["more"] else ""
    assert sizes == [100, 100, 50]
    assert seen == sorted({*seen})
    for strange in ("x", "1.x", "-1.-1", "9" * 40, f"{'9' * 17}.{'9' * 17}", "٣.1"):
        assert site.get("/outbox/data", after=strange).status_code == 200


def test_messages_are_chosen_by_age_and_ids(site: Site, shared_dsn: str) -> None:
    """Words that the page knows are offered; what is no age is refused."""
    with psycopg.connect(shared_dsn) as connection:
        [[old], *_] = connection.execute(
            "update pecker_outbox set created_at = now() - interval '3 h' where id ="
            " (select min(id) from pecker_outbox) returning id"
        ).fetchall()

    def chosen(**query: str) -> list[str]:
        return [row["id"] for row in messages(site, **query)]

    once(lambda: chosen(older_than="2h"), [str(old)])
    assert chosen(older_than="1d") == []
    assert chosen(ids=f"{old}, {'9' * 30} x") == [str(old)]
    assert chosen(ids="x") == []
    known = site.data("/outbox")["known"]
    assert known["task"] == sorted(["proj.bill", "proj.remind", STRANGE])
    assert known["error"] == ["the queue <i>eu</i> is unknown"]
    assert len(known["queue"]) == 1
    for place in ("", "/data"):
        assert site.get(f"/outbox{place}", older_than="soon").status_code == 400
    before = states(shared_dsn)
    act: dict[str, Any] = {"act": "drop", "every": True}
    assert site.post("/outbox/act?older_than=soon", **act).status_code == 422
    assert states(shared_dsn) == before
    done = site.post("/outbox/act?older_than=2h&after=9.9&trail=1.1", **act)
    assert done.status_code == 200, done.text
    assert sum(before.values()) - sum(states(shared_dsn).values()) == 1
    assert site.data("/audit")["rows"]["audit"][0]["subject"] == "all older_than 2h"


def test_what_is_done_to_all_that_match_honours_the_filters(
    site: Site, shared_dsn: str
) -> None:
    """Each of them: what no filter leaves stays."""
    for query in ("state=later", "error=no%20such", "queue=other", "state=held"):
        done = site.post(f"/outbox/act?{query}", act="drop", every=True)
        assert done.status_code == 200, done.text
        assert states(shared_dsn) == {"proj.bill": 3, STRANGE: 3}, query
    site.post("/outbox/act?error=unknown", act="drop", every=True)
    assert states(shared_dsn) == {"proj.bill": 3}


def test_the_menu_has_it_where_an_app_has_an_outbox(
    site: Site, shared_dsn: str, start: Callable[..., Site]
) -> None:
    """Others do not see an empty page."""
    assert 'href="/outbox"' in site.get("/schedules").text
    assert 'href="/outbox"' not in start(shared_dsn).get("/schedules").text


def test_people_act_on_one_message(site: Site, shared_dsn: str) -> None:
    """Retry, park and drop; one that is gone is said to be."""

    def act(what: str, name: str) -> Any:
        return site.post("/outbox/act", act=what, name=name)

    with psycopg.connect(shared_dsn) as connection:
        [first, second, _] = [
            str(number)
            for (number,) in connection.execute(
                "select id from pecker_outbox where parked_at is not null order by id"
            )
        ]
    assert act("retry", first).status_code == 200
    assert act("drop", second).status_code == 200
    assert states(shared_dsn)[STRANGE] == 2
    once(lambda: figure(site, "parked"), 1)
    assert act("park", first).status_code == 200
    once(lambda: figure(site, "parked"), 2)
    errors = [row["last_error"] for row in messages(site, parked="1")]
    assert any("in Flower" in error for error in errors)
    for name in (second, "x", "-1", "9" * 30):
        gone = act("drop", name)
        assert gone.status_code == 404, name
        assert "not in the outbox" in gone.json()["error"]
    refused, *before = site.data("/audit")["rows"]["audit"]
    assert (refused["act"], refused["state"]) == ("outbox drop", "failed")
    [dropped] = [
        one for one in before if (one["subject"], one["state"]) == (second, "done")
    ]
    assert dropped["surface"] == "Flower"
    assert re.search(r'aria-current="page"\s*>Audit</a>', site.get("/audit").text)


def test_a_message_has_a_page(site: Site, shared_dsn: str) -> None:
    """What it waits for, its arguments as Celery shows them, its headers."""
    write_outbox(shared_dsn)
    with psycopg.connect(shared_dsn) as connection:
        statement = "select task, id from pecker_outbox order by id desc"
        ids: dict[str, int] = dict(connection.execute(statement).fetchall())
    data = site.data("/outbox/message", id=str(ids["proj.bill"]))
    [row] = data["rows"]["messages"]
    assert (row["task"], row["state"]) == ("proj.bill", "waiting")
    assert "no relay runs" in data["verdict"]["why"]
    assert data["verdict"]["facts"][0].startswith("attempts are not counted")
    facts = dict(data["facts"])
    assert facts["arguments"] == "(0,)"
    assert facts["task"] == "proj.bill"
    assert data["task_id"] == facts["id"]
    parked = site.data("/outbox/message", id=str(ids[STRANGE]))
    assert parked["verdict"]["why"] == "it is parked: the queue <i>eu</i> is unknown"
    assert parked["verdict"]["trouble"]
    page = site.get("/outbox/message", id=str(ids[STRANGE])).text
    assert re.search(r'aria-current="page"\s*>Outbox</a>', page)
    assert page.count("<h1") == 1


def test_arguments_are_hidden_where_the_setting_says_so(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """No argument and no header leaves the server, in the page or in its data."""
    write_outbox(shared_dsn)
    site = start(shared_dsn, more=f"{APP}app.conf.pecker_show_arguments = False\n")
    [row] = messages(site, parked="1")
    assert dict(site.data("/outbox/message", id=row["id"])["facts"]) == {
        "arguments": HIDDEN,
        "headers": HIDDEN,
    }
    assert "argsrepr" not in site.get("/outbox/message", id=row["id"]).text


@pytest.mark.parametrize("id_", ["", "0", "x", "-1", "1 or 1", "9" * 30, "\0", "٣"])
def test_an_id_that_is_none_is_not_found(site: Site, id_: str) -> None:
    """However long or strange: 404, no error of a statement."""
    for place in ("", "/data"):
        assert site.get(f"/outbox/message{place}", id=id_).status_code == 404


@pytest.fixture
def two(
    shared_dsn: str, postgres_server: PostgresStand, start: Callable[..., Site]
) -> Iterator[tuple[Site, str, Proxy]]:
    """Give a Flower over two outboxes, the other's address, and the way to it."""
    at = conninfo_to_dict(shared_dsn)
    with (
        postgres_server.fresh(migrated=True) as other,
        Proxy(str(at["host"]), int(str(at["port"]))) as way,
    ):
        there = make_conninfo(other, host="127.0.0.1", port=way.port)
        more = f"{APP}eu = Outbox(app, dsn={there!r}, name='eu')\n"
        yield start(shared_dsn, more=more, env=ANYBODY), other, way


def test_each_outbox_of_an_app_is_chosen_by_its_name(
    two: tuple[Site, str, Proxy], shared_dsn: str
) -> None:
    """Its figures, its messages, what is done to them; metrics have a label for it."""
    site, other, way = two
    write_outbox(other, due=5, parked=1)
    once(lambda: figure(site, "depth", outbox="eu"), 5)
    assert figure(site, "depth") == 3
    known = site.data("/outbox", outbox="eu")
    assert (known["place"], known["places"]) == ("eu", ["default", "eu"])
    [parked] = messages(site, outbox="eu", parked="1")
    [group] = site.data("/outbox", outbox="eu")["rows"]["groups"]
    assert (group["count"], group["acts"]) == (1, ["retry_these"])
    before = states(shared_dsn)
    drop = {"act": "drop", "name": parked["id"]}
    assert site.post("/outbox/act?outbox=eu", **drop).status_code == 200
    assert STRANGE not in states(other)
    assert states(shared_dsn) == before
    for path in ("/outbox", "/outbox/data"):
        assert site.get(path, outbox="us").status_code == 404
    assert site.post("/outbox/act?outbox=us", **drop).status_code == 404

    def depths() -> set[str]:
        found = r'celery_pecker_outbox_depth\{outbox="(\w+)"\}'
        return {*re.findall(found, site.get("/metrics").text)}

    once(depths, {"default", "eu"})
    way.refuse()
    once(lambda: site.get("/outbox", outbox="eu").status_code, 503)
    page = site.get("/outbox", outbox="eu").text
    assert 'href="/outbox?outbox=default"' in page
    assert site.get("/outbox").status_code == 200
    once(depths, {"default"})

"""The pages, as a browser gets them from a real Flower."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.integration.flower.rows import Row, one, write
from tests.integration.flower.site import Site

STRANGE = "<script>alert(1)</script>/../a b&c?d=e#f %2F ü\n'\""
ROWS = [
    Row(name="tick", late=(1500, 2500, 900_000), reports=(1, 11, 12), missed=3),
    Row(name="behind", period=60.0, behind=600.0),
    Row(name="paused", paused=True),
    Row(name="forgotten", declared=-5.0),
    Row(name="fresh", new=True, period=3600.0),
    Row(name=STRANGE, task="proj.<b>bold</b>", period=3600.0, late=(5000,)),
    Row(
        name="nightly",
        task="proj.report",
        schedule="<crontab: 30 3 * * * (m/h/dM/MY/d)>",
        grid=False,
        period=86_400.0,
        behind=-86_400.0,
    ),
    Row(
        name="hourly",
        schedule="<crontab: 0 * * * * (m/h/dM/MY/d)>",
        grid=False,
        behind=7200.0,
    ),
    Row(
        name="of other code",
        schedule="<crontab: 0 0 * * * (m/h/dM/MY/d)>",
        grid=False,
        period=86_400.0,
    ),
]


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower over a few entries, below a prefix, with a user."""
    write(shared_dsn, ROWS)
    site = start(shared_dsn, "--basic_auth=anna:secret", prefix="watch/us")
    site.client.auth = ("anna", "secret")
    return site


def embedded(text: str) -> dict[str, object]:
    """Return the data that a page came with."""
    found = re.search(r'id="pecker-data">(.*?)</script>', text, re.DOTALL)
    assert found
    told: dict[str, object] = json.loads(found[1])
    return told


def test_each_page_of_flower_has_our_menu_entry(site: Site) -> None:
    """Below the prefix, behind Flower's own, lit where we are."""
    for path in ("/workers", "/tasks", "/broker", "/schedules"):
        text = site.get(path).text
        assert 'href="/watch/us/schedules"' in text, path
        lit = re.search(r'nav-link active"\s+href="/watch/us(\S+)"', text)
        if not lit and path != "/schedules" and "nav-link text-dark" in text:
            continue  # Flower 2.0 lights none of its own
        assert lit
        assert lit[1] == path


def test_the_list_says_how_each_entry_stands(site: Site) -> None:
    """States, instants, holder, epoch, misses, lateness."""
    told = site.data("/schedules")
    rows = {row["name"]: row for row in told["rows"]["entries"]}
    moving = {"tick", STRANGE}  # seconds pass while we look
    states = {name: row["state"] for name, row in rows.items() if name not in moving}
    assert states == {
        "behind": "overdue",
        "hourly": "overdue",
        "paused": "paused",
        "forgotten": "undeclared",
        "fresh": "new",
        "nightly": "ok",
        "of other code": "ok",
    }
    tick = rows["tick"]
    assert tick["host"] == "node-1"
    assert tick["missed"] == 3
    assert tick["spark"] == [1500, 2500, 900_000]
    assert tick["next_us"] - tick["last_us"] == 1_000_000
    assert tick["epoch"].isdigit(), "as text: browsers round numbers of its size"
    assert told["cards"]["entries"]["text"] == str(len(ROWS))
    assert told["cards"]["overdue"]["note"].endswith(": behind")


def test_a_crontab_is_due_when_the_code_says_that_the_replicas_have(
    site: Site,
) -> None:
    """Flower's own code is asked; where it is of another time, nobody is."""
    rows = {row["name"]: row for row in site.data("/schedules")["rows"]["entries"]}
    nightly = rows["nightly"]
    assert nightly["next_us"] > nightly["last_us"]
    assert nightly["next_us"] // 1_000_000 % 86_400 == (3 * 60 + 30) * 60
    assert rows["of other code"]["next_us"] is None


def test_the_list_is_searched_sorted_and_turned(site: Site) -> None:
    """By the server: a browser never has ten thousand entries."""
    found = site.data("/schedules", search="BOLD")
    assert [row["name"] for row in found["rows"]["entries"]] == [STRANGE]
    assert found["total"] == 1
    worst = site.data("/schedules", order="late", descending="1")
    assert worst["rows"]["entries"][0]["name"] == "tick"
    first, by_name = site.data("/schedules"), site.data("/schedules", order="name")
    assert first["rows"]["entries"][0]["name"] == "behind"
    names = [row["name"] for row in by_name["rows"]["entries"]]
    assert names == sorted(names)
    assert [row["name"] for row in first["rows"]["entries"]] != names
    beyond = site.data("/schedules", page="9", order="<script>")
    assert (beyond["rows"]["entries"], beyond["total"]) == ([], len(ROWS))


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_an_entry_has_a_page_whatever_its_name(site: Site, name: str) -> None:
    """In the address and in the page a name stays what it is."""
    answer = site.get("/schedules/entry", name=name)
    assert answer.status_code == 200
    assert embedded(answer.text)["row"]["name"] == name  # type: ignore[index]
    assert STRANGE not in answer.text
    assert STRANGE not in html.unescape(answer.text.replace("\\u003c", ""))


def test_the_page_of_an_entry_has_its_last_slots(site: Site) -> None:
    """Newest first; what was said of one slot is one state."""
    told = site.data("/schedules/entry", name="tick")
    assert [slot[1:3] for slot in told["slots"]] == [
        ["failed", 900_000],
        ["succeeded", 2500],
        ["published", 1500],
    ]
    life, host = told["holders"][told["slots"][0][6]]
    assert (life, host) == (told["row"]["holder"], "node-1")


def test_our_figures_are_among_flowers_metrics(site: Site) -> None:
    """Without a port of ours, and however Flower collects."""
    text = site.get("/metrics").text
    assert "flower_worker_number_of_currently_executing_tasks" in text
    assert "celery_pecker_up 1.0" in text
    assert f"celery_pecker_entries {len(ROWS)}.0" in text


def test_an_unknown_entry_is_not_found(site: Site) -> None:
    """Flower's own page says so, with our menu."""
    answer = site.get("/schedules/entry", name="nobody")
    assert answer.status_code == 404
    assert "all are in" in answer.text
    assert site.get("/schedules/entry").status_code == 404
    gone = site.get("/schedules/entry/data", name="gone").json()["error"]
    assert gone.startswith("Schedule: none with name 'gone'; all are in ")
    assert gone.endswith("/schedules.")
    assert site.get("/schedules/entry/data", name="a\0b").status_code == 404
    raw = site.client.get(f"{site.url}/schedules/entry?name=%FF")
    assert raw.status_code == 400


def test_what_no_browser_asks_is_no_error_of_ours(site: Site) -> None:
    """Numbers of thousands of digits, JSON without end, files that cannot be."""
    assert site.data("/schedules", page="9" * 5000)["rows"]["entries"] == []
    site.get("/schedules")
    answer = site.client.post(
        f"{site.url}/schedules/act",
        content="[" * 60_000,
        headers={"X-XSRFToken": site.client.cookies["_xsrf"]},
    )
    assert answer.status_code == 400
    for path in ("%00", "pecker.css%00.js", "nothing.js"):
        assert site.get(f"/schedules/static/{path}").status_code == 404
    for path in ("..%2fviews.py", "%2e%2e/views.py", "/etc/passwd", ""):
        assert site.get(f"/schedules/static/{path}").status_code == 403


def test_a_page_runs_no_script_but_ours_and_lies_in_no_strangers_frame(
    site: Site,
) -> None:
    """Should a name ever get out of its element, the browser still runs nothing."""
    policy = site.get("/schedules").headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'self'" in policy


def test_data_in_a_page_cannot_end_its_script(site: Site) -> None:
    """The first data stand in the page, names of strangers among them."""
    text = site.get("/schedules").text
    assert "<script>alert" not in text
    names = {row["name"] for row in embedded(text)["rows"]["entries"]}  # type: ignore[index]
    assert STRANGE in names


def test_our_files_are_served_once_and_for_all(site: Site) -> None:
    """Each under the hash of its content; none comes from another host."""
    for path in ("/schedules", "/schedules/entry?name=tick"):
        text = site.client.get(f"{site.url}{path}").text
        ours = re.findall(r'(?:src|href)="([^"]*/static/[^"]*pecker[^"]*)"', text)
        assert ours
        for address in re.findall(r'(?:src|href)="(/[^"]+static/[^"]+)"', text):
            host = site.url.removesuffix("/watch/us")
            assert site.client.get(host + address).status_code == 200
        assert not re.findall(
            r'<(?:script|link)[^>]+(?:src|href)="(?:https?:)?//', text
        )


def test_nobody_gets_anything_without_flowers_password(
    site: Site, shared_dsn: str
) -> None:
    """Pages, data and actions are behind Flower's authentication."""
    assert site.get("/schedules").status_code == 200  # so the token is known
    site.client.auth = httpx.Auth()  # none
    try:
        for path in ("/schedules", "/schedules/data", "/schedules/entry"):
            assert site.get(path).status_code == 401, path
        answer = site.post("/schedules/act", act="pause", name="tick")
        assert answer.status_code == 401
    finally:
        site.client.auth = ("anna", "secret")
    paused = "select paused from pecker_tasks where name = 'tick'"
    assert one(shared_dsn, paused) == (False,)


def test_an_entry_is_paused_and_resumed(site: Site, shared_dsn: str) -> None:
    """The row says so."""
    paused = "select paused from pecker_tasks where name = %(name)s"
    for act, after in (("pause", True), ("resume", False)):
        answer = site.post("/schedules/act", act=act, name=STRANGE)
        assert answer.status_code == 200, answer.text
        assert STRANGE in answer.json()["message"]
        assert one(shared_dsn, paused, name=STRANGE) == (after,)


def test_a_run_is_asked_for_by_whom_flower_knows(site: Site, shared_dsn: str) -> None:
    """It waits in the table for a replica, and the page of the entry shows it."""
    answer = site.post("/schedules/entry/act", act="run", name="paused")
    assert answer.status_code == 200, answer.text
    assert one(
        shared_dsn,
        "select asked, asked_by from pecker_pending where name = %(name)s",
        name="paused",
    ) == (True, "anna")
    [pending] = site.data("/schedules/entry", name="paused")["pending"]
    assert pending["asked_by"] == "anna"
    assert "anna asked: run 'paused'" in site.log


def test_what_cannot_be_done_is_told(site: Site) -> None:
    """An entry that nobody declares, one that is not there, no action at all."""
    undeclared = site.post("/schedules/act", act="run", name="forgotten")
    assert undeclared.status_code == 409
    assert "forgotten" in undeclared.json()["error"]
    assert site.post("/schedules/act", act="run", name="nobody").status_code == 404
    strange: list[dict[str, Any]] = [
        {"act": "drop", "name": "tick"},
        {"act": "run"},
        {"name": 7},
        {"act": [], "name": "tick"},
        {"act": json.loads("[" * 900 + "]" * 900), "name": "tick"},
    ]
    for body in strange:
        answer = site.post("/schedules/act", **body)
        assert answer.status_code == 400
        assert "run, pause, resume" in answer.json()["error"]


def test_a_forged_request_does_nothing(site: Site, shared_dsn: str) -> None:
    """Without the token, and from another site; though Flower would let some pass."""
    answer = site.post("/schedules/act", token=False, act="pause", name="tick")
    assert answer.status_code == 403
    site.client.headers["Sec-Fetch-Site"] = "cross-site"
    try:
        answer = site.post("/schedules/act", act="pause", name="tick")
    finally:
        del site.client.headers["Sec-Fetch-Site"]
    assert answer.status_code == 403
    assert one(shared_dsn, "select paused from pecker_tasks where name = 'tick'") == (
        False,
    )

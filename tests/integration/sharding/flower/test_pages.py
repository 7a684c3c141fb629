"""The pages of sharded jobs, as a browser gets them from a real Flower."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from celery_sharding.model import Code
from tests.integration.flower.site import Site
from tests.integration.sharding.flower.scene import STRANGE, WITH_TASKS, large, midway
from tests.integration.sharding.reading.written import Written

RUN = re.compile(r"([a-j])(\d*)")


def column(dsn: str, task_id: str, name: str) -> Any:
    """Return what stands in a job's row."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            f"select {name} from pecker_jobs where task_id = %s",  # noqa: S608
            [task_id],
        ).fetchall()
    return rows[0][0]


def test_the_list_tells_jobs_and_the_figures_of_all(
    site: Site, written: Written, shared_dsn: str
) -> None:
    """The youngest first, in pages that begin behind the last one."""
    midway(written, "list-1")
    written.job("list-2", stage="ended", outcome="succeeded", ended_at=written.at)
    written.row(
        "executors",
        "hostname",
        hostname="w1",
        slots=4,
        started_at=written.ago(9),
        seen_at=written.ago(-60),
    )
    told = site.data("/sharding", search="list-")
    rows = told["rows"]["jobs"]
    assert [(row["task_id"], row["state"]) for row in rows] == [
        ("list-2", "succeeded"),
        ("list-1", "running, some failed"),
    ]
    assert rows[1]["items"][0] == "49.5% of 210, layer 2 of 2"
    assert rows[1]["acts"] == ["pause", "cancel"]
    assert told["cards"]["workers"]["note"] == "4 slots"
    assert int(told["cards"]["held"]["text"]) >= 1
    assert int(told["cards"]["day"]["text"]) >= 1

    def found(**query: str) -> list[str]:
        data = site.data("/sharding", search="list-", **query)
        return [row["task_id"] for row in data["rows"]["jobs"]]

    youngest = column(shared_dsn, "list-2", "job")
    assert found(after=str(youngest)) == ["list-1"]
    assert told["next"] == str(column(shared_dsn, "list-1", "job"))
    assert found(open="1") == ["list-1"]


def test_a_job_is_told_with_its_layers_grid_stragglers_and_errors(
    site: Site, written: Written
) -> None:
    """Each shard by a letter, runs of them by their number."""
    midway(written, "one")
    told = site.data("/sharding/job", id="one")
    assert told["grid"] == {"per": 1, "lines": [[0, 0, "a"], [1, 1, "cec9"]]}
    assert told["codes"]["e"][:2] == [int(Code.RUNNING), "running"]
    assert told["counts"] == {"301": 1, "202": 1, "101": 10}
    assert [layer["done"] for layer in told["layers"]] == [98, 4]
    assert [one["shard"] for one in told["rows"]["stragglers"]] == ["2"]
    assert len(told["rows"]["errors"]) == 20
    assert told["more"]
    assert told["rows"]["errors"][0]["why"].endswith(STRANGE)
    rest = site.data("/sharding/job", id="one", after=told["next"])
    assert len(rest["rows"]["errors"]) == 11
    assert not rest["more"]
    chosen = site.data("/sharding/job", id="one", shard="2")["shard"]
    assert (chosen["code"], chosen["hostname"], chosen["cursor"]) == (202, "w1", 4)
    assert site.data("/sharding/job", id="one", shard="99")["shard"] is None


@pytest.mark.parametrize(
    "query",
    [
        {"after": "x"},
        {"after": "9" * 30},
        {"search": "a\0b"},
        {"search": "%_\\"},
        {"after": "-1"},
        {"after": "1.2.3"},
    ],
)
def test_an_address_may_say_anything(site: Site, query: dict[str, str]) -> None:
    """What cannot be meant is as if it were not said."""
    site.data("/sharding", **query)


def test_an_address_of_a_shard_may_say_anything(site: Site, written: Written) -> None:
    """There is no such shard then."""
    midway(written, "any")
    for shard in ("-1", "x", "9" * 30, "²"):
        assert site.data("/sharding/job", id="any", shard=shard)["shard"] is None


def test_an_unknown_job_is_not_found(site: Site) -> None:
    """Page and data alike, whatever the name."""
    for name in ("nope", "a\0b", ""):
        assert site.get("/sharding/job", id=name).status_code == 404
        assert site.get("/sharding/job/data", id=name).status_code == 404


def test_pages_come_with_their_data_in_the_frame_of_flower(
    site: Site, written: Written
) -> None:
    """No name ends the script, or becomes a tag."""
    midway(written, "framed")
    for path, query in (("/sharding", {}), ("/sharding/job", {"id": "framed"})):
        page = site.get(path, **query)
        assert page.status_code == 200
        assert STRANGE not in page.text
        found = re.search(r'id="pecker-data">(.*?)</script>', page.text, re.DOTALL)
        assert found is not None
        assert "row" in found[1]
        assert json.loads(found[1])["now"] > 0
        assert ">Sharded jobs</a>" in page.text
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]


def test_the_menu_has_them_for_apps_with_sharded_tasks_only(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """Others find them by their address."""
    site = start(shared_dsn)
    assert ">Sharded jobs</a>" not in site.get("/schedules").text
    assert site.get("/sharding").status_code == 200


def test_jobs_are_paused_resumed_cancelled_and_retried(
    site: Site, written: Written, shared_dsn: str
) -> None:
    """Each by a write to the ledger."""
    midway(written, "acted")
    for page in ("/sharding", "/sharding/job"):
        assert site.post(f"{page}/act", act="pause", name="acted").status_code == 200
        assert column(shared_dsn, "acted", "paused") is True
        assert site.post(f"{page}/act", act="resume", name="acted").status_code == 200
        assert column(shared_dsn, "acted", "paused") is False
    told = site.post("/sharding/act", act="cancel", name="acted")
    assert told.status_code == 200, told.text
    assert column(shared_dsn, "acted", "outcome") == "cancelled"
    again = site.post("/sharding/act", act="cancel", name="acted")
    assert again.status_code == 409
    ended = midway(written, "again", stage="ended", outcome="succeeded")
    assert ended
    told = site.post("/sharding/job/act", act="retry", name="again")
    assert told.status_code == 200, told.text
    assert "items run again" in told.json()["message"]
    assert column(shared_dsn, "again", "run") == 2


def test_items_of_one_error_are_retried(
    site: Site, written: Written, shared_dsn: str
) -> None:
    """Of an ended job; the others stay, and the job is never plain green."""
    midway(written, "open")
    [many, one] = site.data("/sharding/job", id="open")["rows"]["groups"]
    assert (many["count"], one["count"]) == (30, 1)
    assert not many["acts"]
    job = midway(written, "grouped", stage="ended", outcome="succeeded")
    told = site.data("/sharding/job", id="grouped")
    assert told["rows"]["job"][0]["state"] == "partly failed"
    assert told["notes"] == {"groups": ""}
    [many, one] = told["rows"]["groups"]
    assert one["acts"] == ["retry_these"]
    assert one["error"].endswith(STRANGE)
    assert one["many_of"] == "0"
    done = site.post("/sharding/job/act", act="retry_these", name=one["id"])
    assert done.status_code == 200, done.text
    assert "items run again" in done.json()["message"]
    assert column(shared_dsn, "grouped", "run") == 2
    with psycopg.connect(shared_dsn) as connection:
        left = "select count(*) from pecker_item_errors where job = %s"
        assert connection.execute(left, [job]).fetchone() == (30,)
    refused = site.post("/sharding/job/act", act="retry_these", name=one["id"])
    assert refused.status_code == 409


def test_a_job_that_failed_in_planning_says_so(site: Site, written: Written) -> None:
    """On its page, beside what was raised."""
    error = {"type": "OSError", "message": "no file"}
    given: dict[str, Any] = {"stage": "ended", "outcome": "failed", "total": 0}
    written.job("early", planned_at=None, error=error, **given)
    [row] = site.data("/sharding/job", id="early")["rows"]["job"]
    assert row["why"] == "before it had items, in planning: OSError: no file"


@pytest.mark.parametrize("name", ["nope", "a\0b", "\ud800"])
def test_an_action_on_an_unknown_job_is_refused(site: Site, name: str) -> None:
    """With the code of the error, and never as an error of the server."""
    told = site.post("/sharding/act", act="pause", name=name)
    assert told.status_code == 404
    assert "k_sc_ec_000004" in told.json()["error"]


def cut(dsn: str) -> None:
    """All connections of Flower to the ledger were dropped by the server."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name = 'celery_sharding:flower'"
        )


def test_a_server_that_was_restarted_is_asked_again(
    site: Site, written: Written, shared_dsn: str
) -> None:
    """Nobody sees an error for it; what is done is done once, over a new connection."""
    midway(written, "cut")
    assert site.data("/sharding/job", id="cut")["rows"]["job"][0]["acts"][0] == "pause"
    for path, query in (
        ("/sharding", {"search": "cut"}),
        ("/sharding/job", {"id": "cut"}),
    ):
        cut(shared_dsn)
        site.data(path, **query, other="not asked lately")
    cut(shared_dsn)
    told = site.post("/sharding/act", act="pause", name="cut")
    assert told.status_code == 200, told.text
    assert column(shared_dsn, "cut", "paused") is True


def test_nothing_is_done_without_a_token_nor_by_strangers_pages(
    site: Site, written: Written, shared_dsn: str
) -> None:
    """As for Flower's own buttons, also where everybody may."""
    midway(written, "forged")
    told = site.post("/sharding/act", token=False, act="pause", name="forged")
    assert told.status_code == 403
    assert column(shared_dsn, "forged", "paused") is False


def test_nothing_is_done_where_flower_is_read_only(
    shared_dsn: str, start: Callable[..., Site], written: Written
) -> None:
    """And it says so."""
    midway(written, "fixed")
    site = start(
        shared_dsn,
        before=WITH_TASKS,
        arguments="read_only=True",
        env={"FLOWER_UNAUTHENTICATED_API": "true"},
    )
    told = site.post("/sharding/act", act="cancel", name="fixed")
    assert told.status_code == 403
    assert "read-only" in told.json()["error"]
    assert column(shared_dsn, "fixed", "outcome") is None


def test_a_grid_of_10_000_shards_is_light(site: Site, written: Written) -> None:
    """Each shard is there, and the answer is a few bytes for each at worst."""
    large(written, "large")
    answer = site.get("/sharding/job/data", id="large")
    assert answer.is_success
    told = answer.json()
    shards = sum(
        int(many or 1)
        for _, _, compact in told["grid"]["lines"]
        for _, many in RUN.findall(compact)
    )
    assert shards == 10_000
    assert sum(told["counts"].values()) == 10_000
    assert len(answer.content) < 60_000


def test_layers_beyond_those_about_the_running_one_are_left_out(
    site: Site, written: Written
) -> None:
    """A browser gets what it can show."""
    large(written, "deep", shards=400, layers=200)
    told = site.data("/sharding/job", id="deep")
    assert told["all_layers"] == 200
    assert [layer["layer"] for layer in told["layers"]] == [*range(60)]
    assert {line[0] for line in told["grid"]["lines"]} == {*range(60)}


def test_a_task_of_flower_leads_to_its_job(site: Site, written: Written) -> None:
    """The job goes by the task's id."""
    midway(written, "origin-1")
    site.received("origin-1", STRANGE)
    [place] = site.get("/pecker/origin", id="origin-1").json()["places"]
    assert place["url"].endswith("/sharding/job?id=origin-1")
    assert (place["title"], place["text"]) == ("Sharded job", STRANGE)

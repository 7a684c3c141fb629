"""The page Throttle, as a browser gets it from a real Flower."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from celery_pecker.testing import EmbeddedRedis, eventually, free_port
from tests.integration.flower.site import Site
from tests.integration.throttle.flower.conftest import LIMITS, STRANGE


@pytest.fixture(autouse=True)
def signed_in(site: Site) -> None:
    """Anna looks."""
    site.client.auth = ("anna", "secret")


def database(site: Site, name: str = "main") -> dict[str, Any]:
    """Return how a database stands."""
    found: dict[str, Any] = next(
        one for one in site.data("/throttle")["databases"] if one["name"] == name
    )
    return found


def test_the_page_is_in_the_menu(site: Site) -> None:
    """In the frame of our other page, which this app has no use for."""
    text = site.get("/throttle").text
    assert 'href="/watch/us/schedules"' not in text
    lit = re.search(r'nav-link active"\s+href="/watch/us(\S+)"', text)
    assert lit
    assert lit[1] == "/throttle"
    for file in ("/throttle/static/throttle.js", "/throttle/static/throttle.css"):
        assert f"/watch/us{file}?v=" in text
        assert site.get(file).status_code == 200
    assert "/watch/us/schedules/static/pecker.css?v=" in text


def test_who_has_both_pages_has_the_schedules_first(
    start_over: Callable[..., Site], shared_dsn: str, redis_url: str
) -> None:
    """One menu, figures of both."""
    site = start_over(
        pecker_dsn=shared_dsn, throttle_redis_url=redis_url, throttle_limits=LIMITS
    )
    text = site.get("/throttle").text
    assert 0 < text.index('href="/schedules"') < text.index('href="/throttle"')
    figures = site.get("/metrics").text
    assert "celery_pecker_up 1.0" in figures
    assert "throttle_up 1.0" in figures


def test_it_says_how_each_database_stands(site: Site) -> None:
    """What needs a look comes first; shares, tenants, the last minutes."""
    eventually(lambda: database(site, STRANGE)["state"] == "over", 30.0, "the rush")
    told = site.data("/throttle")
    assert [one["name"] for one in told["databases"]] == [STRANGE, "main", "quiet"]
    # On a full machine what reports the traffic is late, and then reports more at once.
    eventually(lambda: database(site)["state"] == "holding", 30.0, "it holds")
    main = database(site)
    assert main["held"] == 42
    assert (
        main["summary"]
        == "42 tasks wait, the oldest for 3.5 s, most of tenant acme (42)"
    )
    assert {one["name"]: one["held"] for one in main["tenants"]} == {
        "acme": ["42", 1.0],
        STRANGE: ["0", 0.0],
    }
    assert sum(worker["share"][1] for worker in main["workers"]) <= 1.0
    eventually(lambda: len(database(site)["past"]) >= 3, 30.0, "the last seconds")
    traffic, limit, held = database(site)["past"][-1]
    assert traffic > 3_000
    assert (limit, held) == (5_000, 42)


def test_no_name_can_end_the_script_of_the_page(site: Site) -> None:
    """The first data stand in the page."""
    text = site.get("/throttle").text
    assert "<img src=x" not in text
    found = re.search(r'id="pecker-data">(.*?)</script>', text, re.DOTALL)
    assert found
    assert STRANGE in {one["name"] for one in json.loads(found[1])["databases"]}


def test_nobody_looks_without_flowers_password(site: Site) -> None:
    """As with Flower's own pages."""
    site.client.auth = httpx.Auth()
    assert site.get("/throttle").status_code == 401
    assert site.get("/throttle/data").status_code == 401


def test_our_figures_are_among_flowers_metrics(site: Site) -> None:
    """Beside Flower's own; none of the schedules, of which this app has none."""
    text = site.get("/metrics").text
    assert "flower_worker_number_of_currently_executing_tasks" in text
    assert "throttle_up 1.0" in text
    assert 'throttle_held_tasks{database="main"} 42.0' in text
    assert "celery_pecker_up" not in text


def test_redis_that_is_away_is_said_and_comes_back(
    site: Site, counting: EmbeddedRedis
) -> None:
    """The page answers all the while, with what was seen last."""
    eventually(lambda: database(site)["held"] == 42, 30.0)
    counting.kill()
    try:
        eventually(lambda: site.data("/throttle")["away"], 30.0, "the outage")
        told = site.data("/throttle")
        assert "is away" in told["away"]
        assert "the policy of each limit (safe)" in told["away"]
        assert any(one["held"] == 42 for one in told["databases"])
        assert site.get("/throttle").status_code == 200
        assert "throttle_up 0.0" in site.get("/metrics").text
        eventually(lambda: database(site)["past"][-1] is None, 30.0, "the gap")
    finally:
        counting.start()
    eventually(lambda: not site.data("/throttle")["away"], 30.0, "the return")
    eventually(lambda: database(site)["held"] == 42, 30.0, "the workers")


def test_an_app_without_limits_has_no_such_entry(
    start_over: Callable[..., Site], shared_dsn: str
) -> None:
    """And no figures; the address says what to set."""
    site = start_over(pecker_dsn=shared_dsn)
    assert "/throttle" not in site.get("/schedules").text
    assert site.data("/schedules")["rows"] == {"entries": []}
    answer = site.get("/throttle")
    assert answer.status_code == 503
    assert "this app has no throttle_limits" in answer.text
    text = site.get("/metrics").text
    assert "celery_pecker_up 1.0" in text
    assert "throttle_" not in text


def test_wrong_limits_are_said_on_the_page(start_over: Callable[..., Site]) -> None:
    """And nothing else of Flower suffers."""
    site = start_over(
        throttle_redis_url="redis://localhost/0", throttle_limits={"main": -1}
    )
    assert 'href="/throttle"' in site.get("/workers").text
    for path in ("/throttle", "/throttle/data"):
        answer = site.get(path)
        assert answer.status_code == 503
        assert "must be a number above zero, not -1" in answer.text
    assert "The traffic cannot be read" in site.get("/throttle").text
    assert site.get("/metrics").status_code == 200


def test_a_redis_that_never_was_shows_the_limits(
    start_over: Callable[..., Site],
) -> None:
    """Nothing else is known, and it is said so."""
    site = start_over(
        throttle_redis_url=f"redis://127.0.0.1:{free_port()}/0", throttle_limits=LIMITS
    )
    told = site.data("/throttle")
    assert "is away" in told["away"]
    assert {one["name"] for one in told["databases"]} == set(LIMITS)

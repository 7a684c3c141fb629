"""See a live scheduler in Flower: nothing here is written by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from celery_pecker.testing import eventually
from example_project.processes import ProcessContainer
from tests.integration.flower.site import Site

BEAT = ("-m", "celery", "-A", "proj", "beat", "-S", "pecker", "--pidfile=")


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Iterator[Site]:
    """Give a Flower beside a scheduler of the same app."""
    site = start(shared_dsn, env={"FLOWER_UNAUTHENTICATED_API": "true"})
    beat: Any = ProcessContainer([sys.executable, *BEAT], name="beat", cwd=site.folder)
    beat.start()
    try:
        eventually(
            lambda: site.data("/schedules")["rows"]["entries"],
            30.0,
            "entries are there",
        )
        yield site
    finally:
        beat.remove()


def entry(site: Site, name: str) -> dict[str, Any]:
    """Return what the page of an entry shows."""
    return site.data("/schedules/entry", name=name)


@pytest.mark.cluster
def test_what_a_scheduler_does_is_seen_and_what_people_ask_is_done(site: Site) -> None:
    """Slots with their lateness; a run that was asked for; a pause and its end."""

    def states(name: str) -> set[str]:
        return {slot[1] for slot in entry(site, name)["slots"]}

    eventually(lambda: len(entry(site, "often")["row"]["spark"]) > 2, 30.0, "slots")
    shown = entry(site, "often")
    assert shown["row"]["state"] == "ok"
    assert all(0 <= late < 5_000_000 for late in shown["row"]["spark"])
    assert {host for _, host in shown["holders"]} == {shown["row"]["host"]}
    nightly = entry(site, "nightly")["row"]
    assert nightly["schedule"].startswith("<crontab: 30 3")
    assert nightly["next_us"] > nightly["last_us"], "Flower tells it by the same words"

    assert site.post("/schedules/act", act="run", name="nightly").status_code == 200
    eventually(lambda: "published" in states("nightly"), 30.0, "it was sent")
    eventually(lambda: not entry(site, "nightly")["pending"], 30.0, "and it is done")

    assert site.post("/schedules/act", act="pause", name="often").status_code == 200
    eventually(lambda: "paused" in states("often"), 30.0, "its slots pass")
    assert entry(site, "often")["row"]["state"] == "paused"
    assert site.post("/schedules/act", act="resume", name="often").status_code == 200
    eventually(
        lambda: entry(site, "often")["slots"][0][1] == "published", 30.0, "it goes on"
    )

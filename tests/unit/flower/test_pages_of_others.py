"""Pages that other packages bring: what they read from, and what they cannot break."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from celery import Celery
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from celery_pecker.surfaces.flower import metrics, pages, schedules
from celery_pecker.surfaces.flower.install import _of_others
from celery_pecker.surfaces.flower.loader import with_entries
from celery_pecker.surfaces.flower.pages import Page, Unreadable
from celery_pecker.surfaces.flower.reader import Reader


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Page]:
    """Give the pages that there are: none, at first."""
    none: dict[str, Page] = {}
    monkeypatch.setattr(pages, "_pages", none)
    return none


def page(name: str = "jobs", **more: Any) -> Page:
    """Return a page of another package."""
    return Page(
        **{
            "name": name,
            "title": name,
            "url": f"/{name}",
            "template": "",
            "read": lambda source, _: {"is": source},
            **more,
        }
    )


def test_a_page_reads_from_what_it_opens_itself() -> None:
    """Once for an app, whoever asks; no setting of ours is needed for it."""
    opened: list[Celery] = []
    both = threading.Barrier(2, timeout=20.0)

    def opens(app: Celery) -> str:
        opened.append(app)
        return "its own"

    def read(source: str, query: Any) -> dict[str, Any]:
        both.wait()  # two threads at once
        return {"is": source, "n": query["n"]}

    app = Celery("others")
    reader, jobs = Reader(app), page(opens=opens, read=read)

    async def people() -> list[Any]:
        asked = (reader.read(jobs, {"n": str(nth)}) for nth in range(2))
        return [*await asyncio.gather(*asked)]

    told = asyncio.run(people())
    assert told == [{"is": "its own", "n": "0"}, {"is": "its own", "n": "1"}]
    assert opened == [app]


def test_what_cannot_be_opened_is_tried_again() -> None:
    """Whoever mended the settings need not restart Flower."""
    answers: Iterator[Any] = iter([Unreadable("no limits"), "there"])

    def opens(_app: Celery) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    reader, jobs = Reader(Celery("others")), page(opens=opens)
    with pytest.raises(Unreadable, match="no limits"):
        asyncio.run(reader.read(jobs, {}))
    assert asyncio.run(reader.read(jobs, {})) == {"is": "there"}


def test_the_menu_asks_the_page_whether_an_app_has_it() -> None:
    """One whose answer fails is not in it; the others are."""
    pages.register(page("jobs", shown=lambda app: app.main == "ours"))
    pages.register(page("broken", shown=lambda _: bool(1 / 0)))
    assert pages.shown("jobs", Celery("ours"))
    assert not pages.shown("jobs", Celery("theirs"))
    assert not pages.shown("broken", Celery("ours"))
    menu = with_entries("<li>{{ reverse_url('broker') }}</li>", [page("jobs")])
    assert menu
    assert "{% if pecker_shown('jobs', handler.capp) %}" in menu
    assert menu.count("{% end %}") == menu.count("{% if")


class Point:
    """An entry point."""

    def __init__(self, loads: Callable[[], Iterable[Page]]) -> None:
        self.value = "jobs:PAGES"
        self.load = loads


def test_a_package_that_cannot_be_read_takes_nothing_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Flower starts without its pages, and says so."""

    def broken() -> Iterable[Page]:
        message = "no module named jobs"
        raise ImportError(message)

    points = [Point(broken), Point(lambda: (page("fine"),))]
    # The package gives the function that name.
    module = sys.modules["celery_pecker.surfaces.flower.install"]
    monkeypatch.setattr(module, "entry_points", lambda **_: points)
    assert [one.name for one in _of_others()] == ["fine"]
    assert "no module named jobs" in caplog.text


def test_figures_of_a_page_hang_or_fail_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The scrape has the others."""
    go = threading.Event()

    def gauge(name: str) -> tuple[Metric, ...]:
        return (GaugeMetricFamily(name, "told", value=1.0),)

    def hangs(_app: Celery) -> Iterable[Metric]:
        go.wait(30.0)
        return gauge("hangs")

    def fails(_app: Celery) -> Iterable[Metric]:
        yield from gauge("fails")
        message = "in the middle"
        raise ValueError(message)

    pages.register(page("hangs", figures=hangs))
    pages.register(page("fails", figures=fails))
    pages.register(page("fine", figures=lambda _: gauge("fine")))
    monkeypatch.setattr(metrics, "READ_TIMEOUT", 0.05)
    made = metrics.Figures(Celery("others"))
    try:
        asyncio.run(made.refresh())
        text = generate_latest().decode()
        assert "\nfine 1.0" in text
        assert "celery_pecker_up" not in text, "an app without schedules"
        assert "\nhangs " not in text
        assert "\nfails " not in text
    finally:
        go.set()
        REGISTRY.unregister(made)


def test_the_menu_has_schedules_where_an_app_has_some() -> None:
    """Other pages may be all that it wants."""
    assert not schedules.wanted(Celery("others"))
    app = Celery("schedules")
    app.conf.pecker_dsn = "postgresql://nobody@localhost/nothing"
    assert schedules.SCHEDULES.shown(app)

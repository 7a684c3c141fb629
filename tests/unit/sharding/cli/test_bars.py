"""Jobs as bars, and figures as letters."""

from __future__ import annotations

from datetime import timedelta

import pytest
from rich.console import Console

from celery_sharding.cli.errors import item, short
from celery_sharding.cli.watch import Screen, line
from celery_sharding.model import LayerProgress, Outcome, Stage
from celery_sharding.views import around, percent
from tests.unit.sharding.overview.jobs import NOW, job_row


def layers(number: int, *, running: int = 0) -> list[LayerProgress]:
    """Return layers of 500 items, of which those before the running one are done."""
    return [
        LayerProgress(
            layer=nth,
            total=500,
            done=499 if nth < running else 100 if nth == running else 0,
            failed=1 if nth < running else 0,
            shards=10,
            open=0 if nth < running else 10,
            started_at=NOW - timedelta(seconds=50) if nth <= running else None,
            closed_at=NOW - timedelta(seconds=40) if nth < running else None,
        )
        for nth in range(number)
    ]


def drawn(screen: Screen, **given: object) -> str:
    """Return the picture as text."""
    console = Console(record=True, width=120, file=None, quiet=False)
    with console.capture() as capture:
        console.print(screen.drawn(**given))  # type: ignore[arg-type]
    return capture.get()


def test_each_layer_has_a_bar_with_its_figures() -> None:
    """The running one with rate and what is left; ended ones with what they took."""
    screen = Screen()
    row = job_row(layer=1, done=599, failed=1)
    told = drawn(screen, row=row, layers=layers(2, running=1)).splitlines()
    assert told[0].startswith("running, some failed  proj.import_rows  a")
    assert told[1] == "layer 2 of 2: 2 of at most 4 shards run, 1 item failed"
    first, second, whole = told[2:]
    for words in ("layer 1", "100.0%", "500/500", "1 failed", "took 10 s"):
        assert words in first
    for words in ("layer 2", "20.0%", "100/500", "12/s", "33 s"):
        assert words in second
    for words in ("all", "60.0%", "600/1,000", "12/s"):
        assert words in whole
    assert "failed" not in second


def test_the_rate_is_that_of_the_last_looks() -> None:
    """Not the mean since the beginning."""
    screen = Screen()
    drawn(screen, row=job_row(), layers=layers(1))
    told = drawn(screen, row=job_row(after=1, done=200), layers=layers(1))
    assert "100/s" in told


def test_a_job_without_layers_is_one_bar() -> None:
    """It is still planned."""
    row = job_row(stage=Stage.PLANNING, total=0, done=0, layers=0, started_at=None)
    told = drawn(Screen(), row=row, layers=[])
    assert "PreProcess gives its items" in told
    assert "all" in told


def test_of_many_layers_those_about_the_running_one_are_drawn() -> None:
    """As many as there are lines; the others are counted."""
    told = drawn(
        Screen(), row=job_row(layer=50), layers=layers(100, running=50), high=16
    )
    assert len(told.splitlines()) <= 16
    assert "45 above" in told
    assert "45 to come" in told
    assert "layer 51" in told


@pytest.mark.parametrize(
    ("layer", "most", "first"), [(0, 4, 0), (5, 4, 3), (9, 4, 6), (3, 99, 0)]
)
def test_as_many_layers_are_shown_as_there_is_room(
    layer: int, most: int, first: int
) -> None:
    """About the one that runs."""
    assert around(layer, 10, most) == first


def test_a_line_of_a_log_has_it_all() -> None:
    """State, layer, part, items, failures, rate, and what is left."""
    screen = Screen()
    screen.pace.see(job_row())
    assert line(job_row(), screen.pace) == (
        "running        layer 1/2   10.0%  100/1,000  0 failed  2/s  8 min left"
    )
    ended = job_row(stage=Stage.ENDED, outcome=Outcome.SUCCEEDED, layer=1)
    assert line(ended, screen.pace).startswith("succeeded      layer 2/2")


def test_all_is_said_only_where_nothing_is_left() -> None:
    """99.99 per cent are not all."""
    assert percent(0.9999, 1) == "99.9%"
    assert percent(1.0, 1) == "100.0%"


def test_items_and_messages_are_one_line_without_control_letters() -> None:
    """They may be anything."""
    assert item({"a": "\x1b[31mred\nline"}) == '{"a": "\\u001b[31mred\\nline"}'
    assert item("x" * 200).endswith("…")
    assert short("first\x07\nsecond") == "first\\x07"

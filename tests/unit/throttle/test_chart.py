"""Recordings: as JSON and back, and as a picture."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttle.chart import Moment, Recording, draw, read, rounded, steps, written
from throttle.errors import Misconfigured

SVG = "{http://www.w3.org/2000/svg}"


def run(
    traffic: list[float], *, limit: float = 1_000.0, held: int = 0, title: str = ""
) -> Recording:
    """Return a recording, ten looks a second."""
    moments = tuple(
        Moment(nth / 10, value, limit, held, nth) for nth, value in enumerate(traffic)
    )
    return Recording(database="main", title=title, estimator="fast", moments=moments)


def words(picture: str) -> list[str]:
    """Return what stands in the picture; it must be XML."""
    return [one.text or "" for one in ET.fromstring(picture).iter(f"{SVG}text")]  # noqa: S314 — our own


def coloured(picture: str, colour: str) -> list[ET.Element]:
    """Return the surfaces of a colour."""
    return [
        one
        for one in ET.fromstring(picture).iter(f"{SVG}polygon")  # noqa: S314 — our own
        if one.get("class") == f"f-{colour}"
    ]


def test_a_recording_comes_back_as_it_was_written() -> None:
    """Also one with gaps, and one of nothing."""
    whole = run([10.0, 2_000.5], held=3, title="Rush <hour>")
    away = Recording(
        database="b", estimator="weighted", moments=whole.moments, gaps=((0.5, 1.0),)
    )
    none = Recording(database="c", estimator="fast", moments=())
    assert read(written([whole, away, none])) == (whole, away, none)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "recordings": []}',
        '{"version": 1, "recordings": [{"database": "main"}]}',
        written([run([1.0, 2.0])]).replace("[0,1]", "[0]"),
        written([run([1.0, 2.0])]).replace('"held":[0,0]', '"held":["x",0]'),
    ],
)
def test_what_is_no_recording_is_refused(text: str) -> None:
    """By name, not by an error of the reader."""
    with pytest.raises(Misconfigured, match="recording"):
        read(text)


def test_the_figures_are_those_of_the_run() -> None:
    """Peak, part of the limit in force, most held, admitted, use while tasks waited."""
    one = run([500.0, 1_500.0, 1_000.0])
    assert (one.peak, one.over, one.most_held, one.admitted) == (1_500.0, 1.5, 0, 2)
    assert one.use is None
    assert run([500.0, 1_000.0], held=4).use == 0.75
    empty = run([])
    assert (empty.peak, empty.over, empty.seconds, empty.use) == (0.0, 0.0, 0.0, None)
    said = words(draw([run([500.0, 1_500.0], title="<b>")], title="A & B"))
    assert {"A & B", "<b>", "1,500", "150%"} <= {*said}


def test_what_is_above_the_limit_has_a_colour_of_its_own() -> None:
    """And nothing else has."""
    assert len(coloured(draw([run([900.0, 1_000.0])]), "over")) == 0
    assert len(coloured(draw([run([900.0, 1_300.0, 900.0, 1_100.0])]), "over")) == 2


def test_two_runs_side_by_side_have_one_scale() -> None:
    """Else the calm one would look as high as the rush."""
    picture = draw([run([100.0] * 20), run([9_000.0] * 20)], columns=2)
    calm, rush = coloured(picture, "traffic")

    def highest(area: ET.Element) -> float:
        return min(float(y) for y in re.findall(r",([\d.]+)", area.get("points") or ""))

    assert highest(calm) > highest(rush) + 100
    left, right = (
        float((one.get("points") or "").split(",")[0]) for one in (calm, rush)
    )
    assert right - left > 400


def test_an_outage_is_drawn_as_one() -> None:
    """Two lines with nothing between them, and why."""
    whole = run([100.0] * 30)
    gap = Recording(
        database="main",
        estimator="fast",
        moments=whole.moments[:10] + whole.moments[20:],
        gaps=((0.9, 2.0),),
    )
    picture = draw([gap])
    assert "no answer" in words(picture)
    assert len(coloured(picture, "traffic")) == 2


def test_nothing_seen_is_a_picture_too() -> None:
    """A database that was first seen during an outage."""
    assert words(draw([run([])]))
    assert words(draw([], title="None")) == ["None"]
    assert words(draw([run([5.0], limit=0.0)]))


@given(st.floats(1e-3, 1e12))
def test_an_axis_ends_with_a_round_number_that_is_no_smaller(value: float) -> None:
    """And has a few steps up to it."""
    end = rounded(value)
    assert value <= end * (1 + 1e-9)
    assert end <= max(2.0 * value, 1.0)
    marks = steps(end, 4)
    assert 1 <= len(marks) <= 6
    assert marks[0] == 0.0
    assert marks[-1] <= end * (1 + 1e-6)

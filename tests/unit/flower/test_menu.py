"""The menu of Flower, in each form that it has had."""

from __future__ import annotations

from pathlib import Path

import flower
import pytest

from celery_pecker.surfaces.flower.loader import with_entries
from celery_pecker.surfaces.flower.schedules import PAGES

OLD = """
<ul class="navbar-nav mr-auto">
  <li class="nav-item">
    <a class="nav-link text-dark" href="{{ reverse_url('broker') }}">Broker</a>
  </li>
  <li class="nav-item"><a href="https://flower.readthedocs.io/">Documentation</a></li>
</ul>
<ul class="navbar-nav"><li>GitHub</li></ul>
"""
NOW = (Path(flower.__file__).parent / "templates/navbar.html").read_text()


@pytest.mark.parametrize("navbar", [OLD, NOW], ids=["2.0", "installed"])
def test_our_entry_stands_behind_the_broker(navbar: str) -> None:
    """In the same list, in front of whatever comes behind it."""
    text = with_entries(navbar, PAGES)
    assert text
    order = [
        text.index(">Broker</a>"),
        text.index(">Schedules</a>"),
        text.index("</ul>"),
    ]
    assert order == sorted(order)
    assert text.count("reverse_url('pecker-schedules')") == 1
    assert "pecker-schedule'" not in text, "the page of an entry has no entry"
    assert text.count("<li") == navbar.count("<li") + 1 == text.count("</li>")


@pytest.mark.parametrize("navbar", ["", "<nav></nav>", "{{ reverse_url('broker') }}"])
def test_a_menu_of_another_shape_is_left_alone(navbar: str) -> None:
    """The pages are there by their address then."""
    assert with_entries(navbar, PAGES) is None

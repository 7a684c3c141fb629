"""What a page is, and which pages there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from celery_pecker.database import Database
from celery_pecker.errors import Misconfigured
from celery_pecker.flower.upcoming import Upcoming
from celery_pecker.settings import Settings

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a page reads from, on the thread that it was given."""

    database: Database
    upcoming: Upcoming
    settings: Settings


Query = Mapping[str, str]
"""What stands behind the question mark of an address; the last of each name."""
Read = Callable[[Source, Query], "dict[str, Any] | None"]
Act = Callable[[Source, str, str], "dict[str, Any]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: its address, what it shows, what can be done on it."""

    name: str
    """One word for it, that no other page has."""
    title: str
    url: str
    """Where it is: ``/schedules``; its data ``/schedules/data``, its actions
    ``/schedules/act``."""
    template: str
    """A Tornado template in ``templates`` of its folder."""
    read: Read
    """What it shows, as JSON; on a thread. None: there is no such thing (404)."""
    acts: Mapping[str, Act] = field(default_factory=dict)
    """What can be done: given a source, a name and who asks; on a thread."""
    under: str = ""
    """The page in whose part of the menu it lies; none: it has its own."""
    folder: Path = HERE
    """Where its ``templates`` and ``static`` lie."""

    @property
    def tornado(self) -> str:
        """Its name for ``reverse_url``."""
        return f"pecker-{self.name}"

    @property
    def files(self) -> str:
        """The name of its static files for ``reverse_url``."""
        return f"pecker-{self.name}-static"

    @property
    def tab(self) -> str:
        """What Flower's navigation bar calls the part that is lit."""
        return f"pecker-{self.under or self.name}"


_pages: dict[str, Page] = {}


def register(page: Page) -> None:
    """The page will be in Flower, once ``install`` is called."""
    known = _pages.get(page.name)
    if known is not None and known != page:
        message = (
            f"two pages are called {page.name!r}: at {known.url} and at {page.url};"
            " each needs a name of its own"
        )
        raise Misconfigured(message)
    _pages[page.name] = page


def registered() -> tuple[Page, ...]:
    """Return the pages, in the order of the menu."""
    return tuple(_pages.values())

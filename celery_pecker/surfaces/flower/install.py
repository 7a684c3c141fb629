"""Puts our pages into Flower, once, before it starts."""

from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import Any

from celery_pecker.kernel import user_code
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.surfaces.flower import editing, now, rendering, schedules
from celery_pecker.surfaces.flower.pages import (
    HOSTS,
    READ_ONLY,
    Page,
    register,
    registered,
)

MISSING = (
    "Flower is not installed; `pip install 'celery-pecker[flower]'` brings a version"
    " that goes with these pages"
)
KEY = "pecker"
"""Where Flower's settings say which of our pages it has."""
ORIGIN = "pecker-origin"
"""The name of `OriginView` for ``reverse_url``."""
GROUP = "celery_pecker.flower_pages"
"""Entry points of other packages: each names an iterable of pages."""


def install(*, read_only: bool = False, hosts: Iterable[str] = ()) -> None:
    """Add our pages to Flower: in ``flowerconfig.py``, before it starts.

    Args:
        read_only: Nothing can be done on our pages, whatever the rest of Flower allows;
            set once it holds, also for pages that are there already (our command
            installs them before it reads ``flowerconfig.py``).
        hosts: Names under which a Flower without authentication is asked for, beside
            ``localhost`` and its addresses.

    """
    try:
        from flower import urls  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise Misconfigured(MISSING) from error
    from celery_pecker.surfaces.flower.loader import Loader  # noqa: PLC0415  # needs Tornado

    for page in _pages():
        register(page)
    there: set[str] = urls.settings.setdefault(KEY, set())
    first = not there
    new = [page for page in registered() if page.name not in there]
    there.update(page.name for page in new)
    urls.settings[READ_ONLY] = urls.settings.get(READ_ONLY, False) or read_only
    names = (name.lower() for name in hosts)
    urls.settings[HOSTS] = urls.settings.get(HOSTS, frozenset()).union(names)
    # In front, because Flower's last handler takes every address.
    urls.handlers[:0] = _handlers(new, first=first)
    urls.settings["template_loader"] = Loader(urls.settings["template_path"])


def _pages() -> Iterable[Page]:
    """Yield all pages, in the order of the menu."""
    yield from (now.PAGE, *schedules.PAGES, *editing.PAGES, *rendering.PAGES)
    yield from _of_others()


def _of_others() -> Iterable[Page]:
    """Yield the pages of installed packages; one that cannot be read is left out."""
    for point in entry_points(group=GROUP):
        none: Iterable[Page] = ()
        yield from user_code.call(f"reading pages {point.value}", none, point.load)


def _handlers(pages: Iterable[Page], *, first: bool) -> list[Any]:
    """Return our addresses as `url`s: only of these a prefix keeps the arguments."""
    from tornado.web import url  # noqa: PLC0415  # comes with Flower

    from celery_pecker.surfaces.flower import metrics, static_files, views  # noqa: PLC0415

    made = []
    if first:
        made.append(url(r"/metrics", metrics.MetricsView))
        origin = {"page": schedules.ENTRY}
        made.append(url(r"/pecker/origin", views.OriginView, origin, name=ORIGIN))
    for page in pages:
        known = {"page": page}
        at = {"path": str(page.folder / "static")}
        made += [
            url(page.url, views.PageView, known, name=page.tornado),
            url(f"{page.url}/data", views.DataView, known),
            url(f"{page.url}/act", views.ActView, known),
            url(f"{page.url}/static/(.*)", static_files.FileView, at, name=page.files),
        ]
    return made

"""Loads our templates beside Flower's, and puts our entries into Flower's menu."""

import logging
from collections.abc import Iterable
from pathlib import Path

from tornado.template import Loader as TornadoLoader
from tornado.template import Template

from celery_pecker.surfaces.flower.pages import FOLDER, Page, registered, shown

logger = logging.getLogger(__name__)

MARK = "reverse_url('broker')"
END = "</li>"
# Pages of other packages are for apps that use these.
ENTRY = """
        {{% if pecker_shown('{name}', handler.capp) %}}<li class="nav-item">
          <a class="nav-link{{% if active_tab == '{tab}' %}} active{{% end %}}"
            href="{{{{ reverse_url('{tab}') }}}}"
            {{% if active_tab == '{tab}' %}}aria-current="page"{{% end %}}
            >{title}{badge}</a>
        </li>{{% end %}}"""

BADGE = """
          <span class="badge rounded-pill text-bg-danger bg-danger" id="pecker-badge"
            role="status" hidden data-url="{{{{ reverse_url('{name}') }}}}/data"
            data-origin="{{{{ reverse_url('pecker-origin') }}}}"></span>
          <script src="{{{{ reverse_url('{files}', 'badge.js') }}}}" defer></script>"""
"""What an entry says that counts something, on each page of Flower."""


def with_entries(navbar: str, pages: Iterable[Page]) -> str | None:
    """Return Flower's navigation bar with an entry for each page. Pure.

    Flower offers no way to add to its menu, so the text of its template is changed as
    it is loaded: behind the entry "Broker", wherever that stands. None: it has none.
    """
    mark = navbar.find(MARK)
    end = navbar.find(END, mark)
    if mark < 0 or end < 0:
        return None
    place = end + len(END)
    entries = (
        ENTRY.format(
            name=page.name,
            tab=page.tab,
            title=page.title,
            badge=BADGE.format(name=page.tornado, files=page.files)
            if page.counts
            else "",
        )
        for page in pages
        if not page.under
    )
    return navbar[:place] + "".join(entries) + navbar[place:]


OURS = "pecker/"
"""Begins the names of our templates: Flower may come to have a schedules.html too."""
NAVBAR = "navbar.html"


class Loader(TornadoLoader):
    """Flower's own templates, and below ``pecker/`` those of our pages."""

    def __init__(self, root: str) -> None:
        super().__init__(root, namespace={"pecker_shown": shown})

    def resolve_path(self, name: str, parent_path: str | None = None) -> str:
        """Take every name as it is: a page of ours extends Flower's base.html."""
        return name

    def _create_template(self, name: str) -> Template:
        text = self._find(name).read_text(encoding="utf-8")
        if name == NAVBAR:
            changed = with_entries(text, registered())
            if changed is None:
                logger.warning(
                    "pecker: no place in the menu of this Flower; its pages are at %s",
                    ", ".join(page.url for page in registered() if not page.under),
                )
            text = changed or text
        return Template(text, name=name, loader=self)

    def _find(self, name: str) -> Path:
        if not name.startswith(OURS):
            return Path(self.root) / name
        folders = [*dict.fromkeys(page.folder for page in registered()), FOLDER]
        files = [folder / "templates" / name.removeprefix(OURS) for folder in folders]
        return next((file for file in files if file.exists()), files[-1])

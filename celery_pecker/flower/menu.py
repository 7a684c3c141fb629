"""Flower's navigation bar with our entries in it. Pure.

Flower offers no way to add to its menu, so the text of its template is changed as it is
loaded: behind the entry "Broker", wherever that stands.
"""

from __future__ import annotations

from collections.abc import Iterable

from celery_pecker.flower.pages import Page

MARK = "reverse_url('broker')"
END = "</li>"
# Pages of other packages are for apps that use these.
ENTRY = """
        {{% if pecker_shown('{name}', handler.capp) %}}<li class="nav-item">
          <a class="nav-link{{% if active_tab == '{tab}' %}} active{{% end %}}"
            href="{{{{ reverse_url('{tab}') }}}}"
            {{% if active_tab == '{tab}' %}}aria-current="page"{{% end %}}>{title}</a>
        </li>{{% end %}}"""


def with_entries(navbar: str, pages: Iterable[Page]) -> str | None:
    """Return the template with an entry for each page; None if it has no place."""
    mark = navbar.find(MARK)
    end = navbar.find(END, mark)
    if mark < 0 or end < 0:
        return None
    place = end + len(END)
    entries = (
        ENTRY.format(name=page.name, tab=page.tab, title=page.title)
        for page in pages
        if not page.under
    )
    return navbar[:place] + "".join(entries) + navbar[place:]

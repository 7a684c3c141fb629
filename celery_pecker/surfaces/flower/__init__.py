"""Pages in Flower: two lines in ``flowerconfig.py`` add them.

    from celery_pecker.flower import install
    install()

or ``celery -A proj pecker flower``, which does the same and then is Flower.

    now         what is wrong, causes first, with a badge in the menu
    pages       what a page is, and which there are: further ones only register
    schedules   the list of entries and the page of one: what they show, what one can do
    stored      what pages know of stored schedules, and whether people may edit them
    editing     the form of a stored schedule: added, previewed, changed, removed
    outbox      what waits in the outbox, and what people do to it
    observers   hosts and their room, observers, the life of one
    alarms      what rings, what has recovered, and where notices go
    upcoming    when crontabs are due next, by the app that Flower was started with
    loader      our templates beside Flower's
    reader      asks the database on threads of its own, so that Flower never waits
    views       how Flower serves a page, its data and its actions
    files       scripts and styles
    figures     ours among the metrics of Flower
    menu        the entries in Flower's menu
    install     puts all of it into Flower, once
    command     ``celery -A proj pecker flower``

A page reads tables, never the event stream: what Flower missed while it was away, or
forgot at its restart, is no less true. The page comes with its first data; after that
the browser asks for data alone, every two seconds, and draws it.

Access is controlled by Flower: its authentication, its read-only mode,
its ``url_prefix``. Only the token against forged requests is asked for in any case,
because a schedule that a stranger's page can pause is no schedule.

Flower has no plug-ins. What is touched: its lists of handlers and settings (before it
starts), its template loader, and the text of its navigation bar. Should another Flower
have another navigation bar, the pages are still there by their address.
"""

from celery_pecker.surfaces.flower.install import install
from celery_pecker.surfaces.flower.pages import Page, register

__all__ = ["Page", "install", "register"]

"""The page *Throttle* in Flower: traffic against the limit, shares, what waits.

It comes with the pages of celery_pecker (``celery_pecker.flower.install``, which asks
the entry points ``celery_pecker.flower_pages``), in the same frame, and is in the menu
when the app has ``throttle_limits``.

    page       what the page is, and what its script receives
    watching   one look a second, and the last five minutes

The store is read by a thread of Flower, once a second however many people look, from
the first request until ten minutes after the last: the past is on the page if the
page was open, or Prometheus read its figures.
"""

from throttle.flower.page import PAGES, THROTTLE

__all__ = ["PAGES", "THROTTLE"]

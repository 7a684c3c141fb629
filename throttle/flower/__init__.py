"""The page *Throttle* in Flower: traffic against the limit, shares, who waits.

It comes with the pages of celery_pecker (``celery_pecker.flower.install``, which asks
the entry points ``celery_pecker.flower_pages``), in the same frame, and is in the menu
when the app has ``throttle_limits``.

    page       what the page is, and what its script receives
    watching   one look a second, and the last five minutes

The store is asked by a thread of Flower, once a second however many people look, from
the first who looked until ten minutes after the last: what was before somebody woke up
is on the page if anybody, or Prometheus, has been looking.
"""

from throttle.flower.page import PAGES, THROTTLE

__all__ = ["PAGES", "THROTTLE"]

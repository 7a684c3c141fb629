"""The pages *Sharded jobs* in Flower: the list, and one job with its shards as a grid.

They come with the pages of celery_pecker (``celery_pecker.flower.install``, which asks
the entry points ``celery_pecker.flower_pages``), in the same frame, and are in the menu
of an app that has sharded tasks.

    page      what the pages are, what they read and what can be done
    payloads  jobs, shards and errors as JSON for their scripts: pure

A page reads the ledger, over the connection of the thread that it is read on.
"""

from celery_sharding.flower.page import JOB, JOBS, PAGES

__all__ = ["JOB", "JOBS", "PAGES"]

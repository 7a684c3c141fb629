"""The pages *Sharded jobs* in Flower: the list, and one job with its shards as a grid.

They come with the pages of celery_pecker (``celery_pecker.flower.install``, which asks
the entry points ``celery_pecker.flower_pages``), in the same frame, and are in the menu
of an app that has sharded tasks. What they show is in `celery_sharding.views`; drawn by
hand is the grid.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from celery import Celery

from celery_pecker.surfaces.flower.pages import Origin, Source
from celery_pecker.surfaces.flower.rendering import page
from celery_sharding.ledger import Ledger, ledger_of_thread
from celery_sharding.messages import WORK
from celery_sharding.views import JOB, JOBS


def ledger_of(source: Source) -> Ledger:
    """Return this thread's own ledger."""
    return ledger_of_thread(source.settings, role="flower")


def wanted(app: Celery) -> bool:
    """Return whether an app has sharded tasks: one may use schedules alone."""
    return bool(app.conf.get("pecker_dsn")) and WORK in app.tasks


def figures(app: Celery) -> Iterable[Any]:
    """Return the figures of an app's jobs; none where it has no sharded tasks."""
    if not wanted(app):
        return ()
    from celery_sharding.metrics import read  # noqa: PLC0415  # needs prometheus-client

    return read(app)


def _find_job(source: Source, task_id: str, task: str) -> Origin | None:
    jobs = ledger_of(source).reading.jobs(task_id=task_id, most=1)
    return Origin({"id": task_id}, jobs[0].task) if jobs else None


_page = partial(
    page,
    source=ledger_of,
    folder=Path(__file__).parent,
    unread="The sharded jobs cannot be read",
    comfort=(
        "This says nothing about the jobs themselves: workers that reach the database"
        " go on."
    ),
)
PAGES = (
    _page(JOBS, shown=wanted, figures=figures),
    _page(
        JOB,
        url="/sharding/job",
        template="job.html",
        under="sharding",
        shown=wanted,
        finds=_find_job,
    ),
)

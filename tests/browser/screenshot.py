"""Takes the pictures of the documentation: ``python -m tests.browser.screenshot``.

A small company's schedules, written by hand and kept alive while the picture is taken.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
from celery import Celery

from celery_pecker.kernel.migrations import migrate
from celery_pecker.schedules import Schedules
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, eventually
from tests.browser.chromium import chromium
from tests.integration.flower.rows import Row, write
from tests.integration.flower.site import Site

TARGET = Path(__file__).parents[2] / "docs" / "_static"
OTHER = "5c2e9a41-7d30-4b6f-9a52-64f0c1d7e8b3"
CRON = "30 7 * * mon-fri"
SECONDS = ("check-meetings", "heartbeat")
TICK = """
update pecker_tasks
set executed_at = date_bin('1 second', clock_timestamp(), 'epoch'),
    epoch = (extract(epoch from clock_timestamp()) * 1000000)::bigint
where name = any (%s)
"""


def lateness(chance: random.Random, slots: int, usual: int) -> list[int]:
    """Return how late slots were: mostly the same, sometimes a little more."""
    return [int(usual * chance.lognormvariate(0, 0.5)) for _ in range(slots)]


def rows(chance: random.Random) -> Iterator[Row]:
    """Give what a small company runs, on a day on which not all went well."""
    fates, mine = [11] * 600, lateness(chance, 600, 3_000)
    for nth in (*range(212, 218), 371):
        fates[nth] = 2
    for nth, fate in ((430, 13), (431, 21), (432, 12), (599, 10)):
        fates[nth] = fate
    fates[488:506] = [5] * 18
    mine[560:568] = [
        1_800_000,
        1_500_000,
        1_100_000,
        700_000,
        300_000,
        90_000,
        9_000,
        9,
    ]
    yield Row(
        name="check-meetings",
        task="meetings.tasks.check",
        late=tuple(mine),
        reports=tuple(fates),
        timeout=800_000,
        missed=7,
    )
    minutes = [
        ("sync-crm", "crm.tasks.sync_accounts", 5, 20_000),
        ("poll-mailbox", "mail.tasks.poll", 1, 8_000),
        ("expire-sessions", "web.tasks.expire_sessions", 15, 4_000),
        ("send-newsletter", "mail.tasks.newsletter", 60, 9_000),
        ("cleanup-uploads", "files.tasks.cleanup", 1, 6_000),
    ]
    for name, task, every, usual in minutes:
        spike = lateness(chance, 40, usual)
        if name == "cleanup-uploads":
            spike[30:34] = [2_400_000, 900_000, 200_000, 30_000]
        yield Row(
            name=name,
            task=task,
            period=60.0 * every,
            behind=185.0 if name == "cleanup-uploads" else 0.0,
            missed=3 if name == "cleanup-uploads" else 0,
            paused=name == "send-newsletter",
            late=tuple(spike),
            holder=OTHER,
        )
    yield Row(
        name="heartbeat",
        task="ops.tasks.heartbeat",
        late=tuple(lateness(chance, 40, 1_200)),
        run="local",
        holder=OTHER,
    )
    yield Row(
        name="nightly",
        task="proj.report",
        schedule="<crontab: 30 3 * * * (m/h/dM/MY/d)>",
        grid=False,
        period=86_400.0,
        behind=-12_600.0,
        late=tuple(lateness(chance, 12, 12_000)),
    )
    yield Row(name="reindex", task="search.tasks.reindex", period=1800.0, new=True)
    yield Row(
        name="old-report",
        task="reports.tasks.monthly",
        period=3600.0,
        declared=-90.0,
        behind=7200.0,
    )


def store(dsn: str) -> None:
    """A schedule that two people have edited."""
    app = Celery("proj", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.pecker_dsn = dsn
    schedules = Schedules(app)
    for by, cron, timeout in (("anna", "0 7 * * mon-fri", None), ("bob", CRON, 600)):
        schedules.set(
            "bill-customers",
            task="shop.tasks.bill",
            schedule={"cron": cron, "zone": "Europe/Paris"},
            kwargs={"currency": "EUR"},
            timeout=timeout,
            by=by,
        )
    schedules.close()


@contextmanager
def scene() -> Iterator[tuple[str, Site]]:
    """Give the database's address, and a Flower that shows it."""
    with ExitStack() as stack:
        dsn = stack.enter_context(EmbeddedPostgres(fast=True)).dsn
        redis = stack.enter_context(EmbeddedRedis(fast=True))
        migrate(dsn, schema="public")
        write(dsn, rows(random.Random(7)))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        conf = {"pecker_dsn": dsn, "pecker_allowed_tasks": ["shop.tasks.*"]}
        store(dsn)
        site = Site(folder=folder, broker_url=redis.url, conf=conf)
        stack.callback(site.close)
        yield dsn, site.start(env={"FLOWER_UNAUTHENTICATED_API": "true"})


def main() -> None:
    """The pictures are new."""
    with scene() as (dsn, site), chromium(1400, 1000) as driver:
        for path, file, height in (
            ("/schedules", "flower-schedules.png", 1030),
            ("/schedules/entry?name=check-meetings", "flower-entry.png", 1030),
            ("/schedules/edit?name=bill-customers", "flower-edit.png", 1030),
        ):
            driver.set_window_size(1400, height)
            with psycopg.connect(dsn) as connection:
                connection.execute(TICK, [list(SECONDS)])
            driver.get(site.url + path)
            eventually(
                lambda: (
                    driver.execute_script(
                        "return document.getElementById('pecker-live').textContent"
                    )
                    == "Live"
                )
            )
            driver.save_screenshot(str(TARGET / file))


if __name__ == "__main__":
    main()

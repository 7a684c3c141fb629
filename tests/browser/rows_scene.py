"""Takes the pictures of outbox and observers: ``python -m tests.browser.rows_scene``.

What a small company's callers, relays and hosts would have left, written by hand.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
from celery import Celery

from celery_pecker.kernel.clock import new_id
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.migrations import migrate
from celery_pecker.outbox import Outbox, operations
from celery_pecker.outbox.operations import Which
from celery_pecker.testing import EmbeddedPostgres, EmbeddedRedis, eventually
from tests.browser.chromium import chromium
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.site import Site

TARGET = Path(__file__).parents[2] / "docs" / "_static"
APP = """
from celery_pecker.observers import Observers
from celery_pecker.outbox import Outbox
outbox = Outbox(app)
observers = Observers(app)
"""
RATES = {"billing.tasks.charge": 41.0, "mail.tasks.receipt": 38.5}
LATE = """
update pecker_outbox set created_at = created_at - interval '0.2 s' * (20 - id),
    due_at = due_at - interval '0.2 s' * (20 - id)
where id < 20
"""
RELAYS = """
insert into pecker_outbox_relays
    (holder, host, pid, started_at, seen_at, sent, retried, rates)
select gen_random_uuid(), host, 812, now() - interval '2 hours',
    now() + interval '1 hour', 183204, 3, %s::jsonb
from unnest(array['node-1', 'node-2']) as host
"""
KIND = "insert into pecker_observer_kinds (kind, weight, seen_at) values (%s, 1, now())"
HOST = """
insert into pecker_observer_nodes (node, name, pid, capacity, kinds, state, ttl, since,
    leased_until, started_at)
values (%s, %s, 7, %s, '{watch}', %s, '5 s', now(), now() + %s::interval, now())
"""
OBSERVER = """
insert into pecker_observers (name, kind, args, weight, status, node, epoch,
    not_before, failures, moves, parked_at, last_error, state, created_at, modified_at)
values (%(name)s, 'watch', '{"room": "weekly"}', 1, %(status)s, %(node)s,
    %(moves)s + 1, now() + %(ahead)s::interval, %(failures)s, %(moves)s,
    case when %(error)s::text is not null then now() end, %(error)s, '{"sequence": 7}',
    now() - interval '2 hours', now() - interval '2 minutes')
"""
LIFE = """
insert into pecker_observer_history
    (observer, name, kind, event, node, epoch, at, error)
select id, name, kind, e.event, %s, e.epoch, now() - e.ago::interval, e.error
from pecker_observers, (values ('created', 0, '9 min', null),
    ('started', 1, '8 min 40 s', null), ('failed', 1, '3 min', %s),
    ('parked', 1, '2 min', null)) as e (event, epoch, ago, error)
where name = %s
"""
LIVE = "return document.getElementById('pecker-live').textContent"
ERROR = "ConnectionError: media-3 refused the connection"


def record(dsn: str) -> None:
    """Leave messages of four tasks: due, for later, and parked."""
    app = Celery("proj", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.pecker_dsn = dsn
    outbox = Outbox(app)
    for task, number, countdown in (
        ("billing.tasks.charge", 12, None),
        ("mail.tasks.receipt", 7, None),
        ("mail.tasks.remind", 4, 3600),
        ("crm.tasks.sync", 2, None),
    ):
        for one in range(number):
            outbox.send(app.signature(task, args=[one]), countdown=countdown)
    outbox.close()
    database = Database.of(outbox.settings, role="pictures")
    reason = "NotFound: no exchange 'crm' in vhost '/'"
    operations.park(database, Which(tasks=["crm.tasks.sync"]), reason)
    database.close()
    with psycopg.connect(dsn) as connection:
        connection.execute(LATE)
        connection.execute(RELAYS, [json.dumps(RATES)])


def observe(dsn: str) -> None:
    """Leave three hosts, one of which drains, and a dozen observers."""
    hosts = {name: str(new_id()) for name in ("node-1", "node-2", "node-3")}
    usual: dict[str, Any] = {
        "status": "processing",
        "ahead": "-1 hour",
        "failures": 0,
        "moves": 0,
        "error": None,
    }
    with psycopg.connect(dsn) as connection:
        connection.execute(KIND, ["watch"])
        for name, capacity, state, lease in (
            ("node-1", 8, "up", "1 hour"),
            ("node-2", 8, "up", "1 hour"),
            ("node-3", 8, "draining", "1 hour"),
        ):
            connection.execute(HOST, [hosts[name], name, capacity, state, lease])
        for number in range(11):
            node = hosts[f"node-{1 + number % 2}"]
            row = {**usual, "name": f"media-1/room-{number + 101}", "node": node}
            connection.execute(OBSERVER, row | {"moves": int(number in {2, 6})})
        for name, changed in (
            ("media-3/room-207", {"error": ERROR, "failures": 4}),
            ("media-2/room-118", {"node": hosts["node-1"], "failures": 1}),
            ("media-2/room-119", {"node": hosts["node-3"], "status": "on_deleting"}),
            ("media-2/room-120", {"status": "created", "ahead": "-20 s"}),
        ):
            row = {**usual, "name": name, "node": None, **changed}
            if name == "media-2/room-118":
                row["ahead"] = "1 minute"
            connection.execute(OBSERVER, row)
        connection.execute(LIFE, [hosts["node-1"], ERROR, "media-3/room-207"])


def main() -> None:
    """Take both pictures anew."""
    with ExitStack() as stack:
        dsn = stack.enter_context(EmbeddedPostgres(fast=True)).dsn
        redis = stack.enter_context(EmbeddedRedis(fast=True))
        migrate(dsn, schema="public")
        record(dsn)
        observe(dsn)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        conf = {"pecker_dsn": dsn}
        site = Site(folder=folder, broker_url=redis.url, conf=conf, more=APP)
        stack.callback(site.close)
        site.start(env=ANYBODY)
        driver = stack.enter_context(chromium(1400, 1000))
        for path, file, height in (
            ("/outbox", "flower-outbox.png", 1040),
            ("/observers?name=media-3/room-207", "flower-observers.png", 1360),
        ):
            driver.set_window_size(1400, height)
            driver.get(site.url + path)
            eventually(lambda: driver.execute_script(LIVE) == "Live")
            driver.save_screenshot(str(TARGET / file))


if __name__ == "__main__":
    main()

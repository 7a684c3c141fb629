"""An app whose workers write down which process ran which item, and die if told to."""

from __future__ import annotations

import json
import os
import signal
from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import suppress
from itertools import repeat
from threading import Event
from typing import Any

import psycopg
from celery import Celery

from celery_pecker.kernel.clock import pause
from celery_pecker.outbox import Outbox
from celery_sharding import Job, Retry, Shard, Sharding

CONF = "SHARDING_TEST_CONF"
POISON, DEAF, STUBBORN = "poison", "deaf", "stubborn"


class Own(BaseException):
    """An error of a user's that is no Exception."""


RAISED: dict[object, BaseException] = {
    kind.__name__: kind()
    for kind in (CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit, Own)
}
"""What items of these names raise."""
OUTBOX = "jobs_outbox"
"""The setting by which the app has an outbox, too."""
SEEN = "create table seen (item text, pid int, nth bigint generated always as identity)"


def make(conf: dict[str, Any]) -> Celery:  # noqa: C901, PLR0915  # many small tasks
    """Return the app, its sharded task under `app.tasks["jobs.note"]`."""
    app = Celery("jobs", set_as_current=False)
    app.conf.update(conf)
    sharding = Sharding(app)
    if conf.get(OUTBOX):
        Outbox(app)

    @sharding.task(name="jobs.note", item_timeout=2.0)
    def note(shard: Shard) -> None:
        """Each item stands in `seen`; `shard.ok` is given it with the process."""
        pace = float(shard.job.kwargs.get("pace", 0.0))
        with psycopg.connect(conf["pecker_dsn"], autocommit=True) as connection:
            for item in shard:
                connection.execute(
                    "insert into seen (item, pid) values (%s, %s)",
                    (str(item), os.getpid()),
                )
                if item == POISON:
                    os.kill(os.getpid(), signal.SIGKILL)
                if item == DEAF:
                    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
                    Event().wait()
                if item == "ends itself":
                    os.kill(os.getpid(), signal.SIGTERM)
                    pause(1.0)
                if item in RAISED:
                    raise RAISED[item]
                with suppress(*[BaseException] if item == STUBBORN else ()):
                    pause(pace)
                shard.ok([item, os.getpid()])

    @sharding.task(name="jobs.plain")
    def plain(shard: Shard) -> None:
        """Each item is its own result; no server is asked."""
        for item in shard:
            pause(float(shard.job.kwargs.get("pace", 0.0)))
            shard.ok(item)

    @sharding.task(name="jobs.posted")
    def posted(shard: Shard) -> None:
        """Its Post takes as long as it is told."""
        for item in shard:
            shard.ok(item)

    @posted.post_process
    def post(job: Job, results: Iterator[Any], errors: Any) -> int:
        begin("post")
        pause(float(job.kwargs.get("pace", 0.0)))
        return sum(results)

    @sharding.task(
        name="jobs.whole", on_error=Retry(1, backoff=0.1, most=0.1), size=(1, 5)
    )
    def whole(shard: Shard) -> None:
        """Items that are odd fail once; Notify and Post note what they got."""
        for item in shard:
            pause(float(shard.job.kwargs.get("pace", 0.0)))
            begin(f"item {item}")
            if item % 2 and shard.attempt == 1:
                raise ValueError(item)
            shard.ok(item)

    @whole.notify(every=0.5)
    def note_progress(job: Job, progress: Any) -> None:
        begin(f"notify {progress.threshold}")

    @whole.post_process
    def add_up(job: Job, results: Iterator[Any], errors: Any) -> int:
        begin("post")
        return sum(results)

    @sharding.task(name="jobs.dying")
    def dying(shard: Shard) -> None:
        """PreProcess and Post kill their process when they are first begun."""
        shard.each(lambda item: item)

    @dying.pre_process
    def die_first(job: Job, items: list[int]) -> list[int]:
        die("pre", job)
        return items

    @dying.post_process
    def die_last(job: Job, results: Iterator[Any], errors: Any) -> int:
        die("post", job)
        return sum(results)

    def die(what: str, job: Job) -> None:
        begin(what)
        if job.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    @sharding.task(name="jobs.endless")
    def endless(shard: Shard) -> None:
        """Its PreProcess gives items without end, and waits for nothing."""

    @endless.pre_process
    def repeat_one(job: Job) -> Iterator[int]:
        begin("endless")
        return repeat(1)

    @app.task(name="jobs.blamed", shared=False)
    def blamed(request: Any, error: Any, traceback: Any) -> None:
        """Count how often an errback was run."""
        begin("blamed")

    class Users(app.Task):  # type: ignore[name-defined]  # made by the app
        """A base that reads of which user each run is, as applications have it."""

        def before_start(self, *_: Any) -> None:
            self.user = self.request.properties["user"]

    @app.task(name="jobs.user", base=Users, bind=True, shared=False)
    def user(self: Any, item: int) -> list[Any]:
        """Return what the request says beside the item."""
        return [item, self.user, self.request.headers]

    def begin(what: str) -> None:
        with psycopg.connect(conf["pecker_dsn"], autocommit=True) as connection:
            connection.execute(
                "insert into seen (item, pid) values (%s, %s)", (what, os.getpid())
            )

    @app.task(name="jobs.told", shared=False)
    def told(value: Any) -> None:
        """Count how often what follows a job was run."""
        begin("told")

    return app


if CONF in os.environ:
    app = make(json.loads(os.environ[CONF]))
    app.set_current()

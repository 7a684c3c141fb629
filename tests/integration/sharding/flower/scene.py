"""Jobs as pages show them: one in the middle of its work, and large ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from tests.integration.sharding.reading.written import Written

STRANGE = "<img src=x onerror='window.hacked = 1'>"
WITH_TASKS = """
from proj import app

@app.task(name="celery_sharding.work")
def work(job, ticket, seq):
    pass
"""
"""What Flower is told before its configuration: that the app has sharded tasks."""
COLUMNS = (
    "job, shard, layer, status, ticket, epoch, origin, hi, cursor, done, failed,"
    " claimed_at, ended_at"
)


def midway(written: Written, task_id: str, **given: Any) -> int:
    """Write a job whose second layer runs, under a ticket that is held for long."""
    job = written.job(
        task_id, **{"task": STRANGE, "total": 210, "layers": 2, "layer": 1, **given}
    )
    written.layer(job, 0, done=98, failed=2, open=0, closed_at=written.ago(20))
    written.layer(
        job, 1, total=110, shards=11, open=11, started_at=written.ago(20), done=0
    )
    written.shard(job, 0, status=301, cursor=100, hi=100, done=98, failed=2)
    written.hold(job, 1, leased_until=written.ago(-3_600))
    for shard in range(1, 12):
        if shard == 2:
            written.shard(
                job,
                shard,
                1,
                status=202,
                ticket=1,
                epoch=7,
                cursor=4,
                done=4,
                claimed_at=written.ago(12),
            )
        else:
            written.shard(job, shard, 1)
    written.error(job, 0, 3, message=STRANGE, item=None)
    for place in range(5, 35):
        written.error(job, 0, place, traceback="Traceback: here\nValueError")
    return job


def large(
    written: Written,
    task_id: str,
    *,
    shards: int = 10_000,
    layers: int = 4,
    seed: int = 5,
) -> int:
    """Write a job of so many shards, in no order that could be told shortly."""
    chance = Random(seed)
    per = shards // layers
    job = written.job(
        task_id, total=shards * 100, layers=layers, layer=1, concurrency=64
    )
    for layer in range(layers):
        ended = layer == 0
        written.layer(
            job,
            layer,
            total=per * 100,
            shards=per,
            open=0 if ended else per,
            done=per * 100 if ended else 0,
            started_at=written.ago(50) if layer < 2 else None,
            closed_at=written.ago(20) if ended else None,
        )
    for ticket in range(1, 65):
        written.hold(job, ticket, leased_until=written.ago(-36_000))
    written.copy("shards", COLUMNS, _shards(written, job, shards, per, chance))
    for place in range(40):
        written.error(job, place, 0, traceback="Traceback: here\n" * 20)
    return job


def _shards(
    written: Written, job: int, shards: int, per: int, chance: Random
) -> Iterator[Sequence[Any]]:
    held = 0
    for shard in range(shards):
        layer = shard // per
        status = 301 if layer == 0 else 100
        ticket = None
        if layer == 1:
            status = chance.choice((301, 302, 100, 202))
            if status == 202 and held < 64:
                held += 1
                ticket = held
            elif status == 202:
                status = 301
        ended = status in (301, 302)
        yield (
            job,
            shard,
            layer,
            status,
            ticket,
            7,
            shard,
            100,
            100 if ended else 40 if ticket else 0,
            100 if ended else 40 if ticket else 0,
            0,
            written.ago(30) if ended or ticket else None,
            written.ago(25) if ended else None,
        )

"""The app under measure: so many entries that are due each second, and nothing else.

The same module is run by Celery's beat and by ours; only the command line differs.
"""

from __future__ import annotations

import os

from celery import Celery
from celery.signals import before_task_publish

ENVIRONMENT = "PECKER_BENCH_"
PERIOD = 1.0


def _given(name: str, default: str = "") -> str:
    return os.environ.get(ENVIRONMENT + name, default)


def _onlooker(**_message: object) -> None:
    """Somebody listens, as Sentry or OpenTelemetry do: the slow lane is taken."""


app = Celery("bench", broker=_given("BROKER", "memory://"))
app.conf.update(
    beat_schedule={
        f"entry-{number:05}": {
            "task": "bench.tick",
            "schedule": PERIOD,
            # By this the consumer knows the entry, whoever sent the message. Not by
            # an option: beat compares all entries before each message, and a
            # dictionary of options would make that dearer by two thirds.
            "args": (number,),
        }
        for number in range(int(_given("ENTRIES", "1")))
    },
    task_default_queue=_given("QUEUE", "bench"),
    pecker_dsn=_given("DSN"),
    pecker_schema=_given("SCHEMA", "public"),
)

if _given("LANE") == "slow":
    before_task_publish.connect(_onlooker, weak=False)

if _given("ANATOMY"):
    # only here, so that Celery's beat does not carry it
    from benchmarks import anatomy

    anatomy.install(_given("ANATOMY"))


@app.task(name="bench.tick", ignore_result=True)
def tick(entry: int) -> None:
    """Nobody runs it: a raw consumer takes the messages."""

"""The app under measure: so many entries that are due each second, and nothing else.

The same module is run by all; only the command line differs, and where a peer has its
entries in a database of its own, they are written there (benchmarks/peers).
"""

from __future__ import annotations

from importlib import import_module

from celery import Celery
from celery.signals import before_task_publish

from benchmarks.peers.environment import PERIOD, TASK, entry, every, given


def _onlooker(**_message: object) -> None:
    """Somebody listens, as Sentry or OpenTelemetry do: the slow lane is taken."""


app = Celery("bench", broker=given("BROKER", "memory://"))
app.conf.update(
    beat_schedule={
        entry(number): {
            "task": TASK,
            "schedule": float(PERIOD) if given("PULSE") and not number else every(),
            # By this the consumer knows the entry, whoever sent the message. Not by
            # an option: beat compares all entries before each message, and a
            # dictionary of options would make that dearer by two thirds.
            "args": (number,),
        }
        for number in range(0 if given("PEER") else int(given("ENTRIES", "1")))
    },
    task_default_queue=given("QUEUE", "bench"),
    pecker_dsn=given("DSN"),
    pecker_schema=given("SCHEMA", "public"),
    pecker_worker={"scheduler"} if given("WORKER") else set(),
)

if given("PEER"):
    import_module(f"benchmarks.peers.{given('PEER')}").configure(app)

if given("LANE") == "slow":
    before_task_publish.connect(_onlooker, weak=False)

if given("ANATOMY"):
    # only here, so that the peers do not carry it
    from benchmarks.schedules import anatomy

    anatomy.install(given("ANATOMY"))


@app.task(name=TASK, ignore_result=True)
def tick(entry: int, edition: int = 0) -> None:
    """Nobody runs it: a raw consumer takes the messages."""

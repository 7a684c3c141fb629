"""Runs of local entries, in the worker that won them: no broker is involved.

    Service ──publish()──▶ LocalRunner ──▶ Threads ──▶ tracer.run() ──▶ the task
                               │                            │
                               └────▶ EventSender ◀─────────┘
                                          │ celery events, as far as they get out

==================  ==================================================================
``prepared_entry``  an entry made ready, and one slot of it that is to run
``threads``         a few daemon threads and the queue before them
``tracer``          a run through Celery's own tracer: signals, logs, hooks
``events``          sends `celery events`, which Flower reads, on a thread of its own
``runner``          takes won slots, refuses what cannot run, keeps count
``outbox_runner``   takes rows of an outbox that are to run in a worker, and runs them
==================  ==================================================================

A slot that was won here runs here or not at all. What it needs of the world is a thread
and, by then, the database no more: the claim is made. Neither the broker nor a result
backend is contacted on its way; events wait for a broker that is away, bounded.
"""

from celery_pecker.schedules.local.events import EventSender, sends_events
from celery_pecker.schedules.local.runner import LocalRunner

__all__ = ["EventSender", "LocalRunner", "sends_events"]

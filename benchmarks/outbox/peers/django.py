"""django-celery-outbox: rows of Django's ORM, and a relay that sends each by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import django
import structlog
from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django_celery_outbox.app import OutboxCelery

from benchmarks.outbox.field import TASK, note
from benchmarks.peers.django import settings as database
from benchmarks.peers.environment import given

TABLE = "celery_outbox"

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
settings.configure(
    **{
        **database(),
        "INSTALLED_APPS": ["django_celery_outbox"],
        "CELERY_OUTBOX_APP": f"{__name__}.app",
    }
)
django.setup()
app = OutboxCelery("bench", broker=given("BROKER"), set_as_current=False)
app.conf.update(task_default_queue=given("QUEUE"), task_ignore_result=True)
task: Any = app.task(name=TASK, shared=False)(note)


def install() -> None:
    """The tables are there."""
    call_command("migrate", verbosity=0)


@contextmanager
def sender() -> Iterator[
    tuple[Callable[[int], object], Callable[[], AbstractContextManager[object]]]
]:
    """Give a call, and a transaction that it joins."""
    yield task.delay, transaction.atomic


def consume() -> None:
    """Deliver."""
    call_command(
        "celery_outbox_relay", batch_size=1_000, idle_time=0.05, publish_concurrency=4
    )

"""A callable that takes notices for the tests of the command line."""

from __future__ import annotations

import os
from pathlib import Path

from celery_pecker.alarms import Notice


def page(notice: Notice) -> None:
    """Write down what came."""
    with Path(os.environ["PECKER_TEST_PAGED"]).open("a") as paged:
        paged.write(f"{notice.event} {notice.subject}\n")

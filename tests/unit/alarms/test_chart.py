"""Where the moment since which an alarm rings leads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import pytest

from celery_pecker.alarms.kinds import KINDS
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.surfaces.views.alarms import chart


@pytest.mark.parametrize(
    ("kind", "subject", "shown"),
    [
        ("silent", "tick & co", ("entry", "tick & co")),
        ("shut", "main", ("limit", "main")),
        ("job_failed", "proj.tidy & co 0af1-b2", ("job", "proj.tidy & co")),
        ("clock", "era", ("entry", "")),
    ],
)
def test_an_alarm_leads_to_the_chart_of_its_subject(
    kind: str, subject: str, shown: tuple[str, str]
) -> None:
    """Of an entry, a limit, a job's task; of all entries where it is about none."""
    row: Any = SimpleNamespace(
        subject=subject, opens=KINDS[kind].opens(subject), since=SYSTEM.now()
    )
    page, _, query = chart(row).partition("?")
    asked = dict(parse_qsl(query, keep_blank_values=True))
    assert (page, asked["of"], asked["name"]) == ("history", *shown)

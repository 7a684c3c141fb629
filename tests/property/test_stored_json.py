"""Schedules as JSON, whatever people write: read to one form, or refused by name."""

from __future__ import annotations

import json
from typing import Any

from celery import Celery
from hypothesis import given
from hypothesis import strategies as st

from celery_pecker.kernel.clock import from_us, to_us
from celery_pecker.kernel.errors import InvalidField
from celery_pecker.schedules.engine.model import NEVER_US, StoredSchedule
from celery_pecker.schedules.stored import schedule_json
from celery_pecker.schedules.stored.model import Definition
from celery_pecker.schedules.stored.timings import Timings
from tests.unit.stored_schedules.documents import DOCUMENTS, START

APP = Celery("x", set_as_current=False)
TIMINGS = Timings(APP)
texts = st.text(max_size=12) | st.sampled_from(
    ["UTC", "Asia/Tokyo", "CN", "2026-01-01"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(
    scalars,
    lambda one: st.lists(one, max_size=3) | st.dictionaries(texts, one, max_size=3),
    max_leaves=5,
)
KEYS = [
    *schedule_json.OPTIONS,
    "zone",
    "start",
    "end",
    "jitter",
    "splay",
    "key",
    "lat",
    "days",
]
documents = st.dictionaries(st.sampled_from(KEYS), values, max_size=4)


@st.composite
def changed(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a good document of which one part is another."""
    document = dict(draw(st.sampled_from(DOCUMENTS)))
    document[draw(st.sampled_from([*document, *KEYS]))] = draw(values)
    return document


@given(document=documents | changed() | st.sampled_from(DOCUMENTS))
def test_a_document_has_one_form_or_none(document: dict[str, Any]) -> None:
    """What is read is written the same, and read back from the database's JSON too."""
    try:
        form = schedule_json.to_json(document)
    except InvalidField:
        return
    text = json.dumps(form, allow_nan=False)
    assert (
        schedule_json.to_json(json.loads(text)) == form == schedule_json.to_json(form)
    )


@given(
    document=st.sampled_from([one for one in DOCUMENTS if "solar" not in one]),
    start_us=st.none() | st.integers(to_us(START), to_us(START) + 10**13),
    last_us=st.integers(to_us(START), to_us(START) + 10**13),
)
def test_instants_go_forward_and_stay_within(
    document: dict[str, Any], start_us: int | None, last_us: int
) -> None:
    """Whichever form a schedule was written in, each replica names the same slots."""
    start = None if start_us is None else from_us(start_us)
    wanted = Definition(
        name="x",
        task="t",
        args=[],
        kwargs={},
        options={},
        schedule=document,
        policies={},
        run="dispatch",
        start=start,
        end=None,
        once=False,
    )
    one = TIMINGS.entry(wanted)
    text = json.dumps(dict(reversed(document.items())))
    other = Timings(APP).of_row(
        StoredSchedule(
            name="x",
            version=1,
            edit=1,
            over=False,
            local=False,
            run="dispatch",
            task="t",
            schedule=text,
            policies="{}",
            starts_us=start_us,
            ends_us=None,
            once=False,
            once_us=None,
            row=None,
        )
    )
    at_us = last_us
    for _ in range(5):
        next_us = one.next(at_us, at_us)
        assert next_us == other.next(at_us, at_us)
        assert next_us > at_us
        if next_us >= NEVER_US:
            break
        if start_us is not None and "once" not in document:
            assert next_us >= start_us
        at_us = next_us
    assert one.described == other.described

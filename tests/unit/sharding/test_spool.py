"""Shards come out of a spool as they went in, as often as they are asked for."""

from __future__ import annotations

import pytest

from celery_sharding.errors import PlanLimitExceeded
from celery_sharding.model import Planned
from celery_sharding.spool import HELD, Spool

PLAN = [
    Planned(layer=0, count=2, body=b"j[1, 2]"),
    Planned(layer=0, count=1, body=b"z\n\n\x00\xff\n"),
    Planned(layer=1, count=3, reference={"source": {"é": None}}, owner="worker@1"),
    Planned(layer=1, count=0, body=b""),
]


def test_shards_come_out_as_they_went_in() -> None:
    """Whatever bytes are in them; a write that is tried again gets the same."""
    with Spool(1_000_000_000) as spool:
        spool.take(iter(PLAN[:2]))
        spool.take(PLAN[2:])
        assert [*spool] == PLAN
        assert [*spool] == PLAN


def test_an_empty_plan_is_one() -> None:
    """No items, no shards."""
    with Spool(1_000_000_000) as spool:
        spool.take([])
        assert [*spool] == []


def test_a_large_plan_lies_in_a_file() -> None:
    """More than is kept in memory comes out the same."""
    body = bytes(range(256)) * 4_000
    plan = [Planned(layer=0, count=at, body=body) for at in range(20)]
    assert len(body) * 20 > HELD
    with Spool(1_000_000_000) as spool:
        spool.take(plan)
        assert spool._file.fileno() > 0  # a file of the system's
        assert [*spool] == plan


def test_more_than_the_limit_is_refused() -> None:
    """The error says what else there is."""
    plan = (Planned(layer=0, count=1, body=b"j" * 100) for _ in range(100))
    with (
        Spool(1_000) as spool,
        pytest.raises(PlanLimitExceeded, match="more than the 1000 bytes"),
    ):
        spool.take(plan)

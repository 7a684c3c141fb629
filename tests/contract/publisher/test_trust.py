"""A process that stood still between claim and send sends nothing (I2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from celery.signals import before_task_publish

from celery_pecker.kernel.errors import BrokerUnavailable
from tests.contract.publisher.cases import CALLS, make_entry
from tests.contract.publisher.conftest import Stand, Wire, dispatch
from tests.contract.publisher.lanes import Lane, lane_of


def test_a_batch_whose_time_is_over_is_not_sent(
    wire: Wire, stand_on: Callable[..., Stand]
) -> None:
    """By the fast lane, on each broker; with time left it is."""
    stand = stand_on(wire)
    stand.known(make_entry(stand.app, "one", CALLS["nothing"]))
    assert lane_of(stand.publisher, "one").lane is Lane.FAST
    with pytest.raises(BrokerUnavailable, match="too late"):
        stand.publisher.publish([dispatch("one")], "late", within=0.0)
    assert wire.take() == []
    stand.publisher.publish([dispatch("one")], "in time", within=60.0)
    assert len(wire.take()) == 1


def test_nor_by_the_slow_lane(wire: Wire, stand_on: Callable[..., Stand]) -> None:
    """Somebody listens: Celery's own code sends, and only in time."""

    def listen(**_: object) -> None:
        """Do nothing."""

    before_task_publish.connect(listen)
    try:
        stand = stand_on(wire)
        stand.known(make_entry(stand.app, "one", CALLS["nothing"]))
        assert lane_of(stand.publisher, "one").lane is Lane.SLOW
        with pytest.raises(BrokerUnavailable, match="too late"):
            stand.publisher.publish([dispatch("one")], "late", within=0.0)
        assert wire.take() == []
        stand.publisher.publish([dispatch("one")], "in time", within=60.0)
        assert len(wire.take()) == 1
    finally:
        before_task_publish.disconnect(listen)

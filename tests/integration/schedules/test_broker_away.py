"""A broker that is away, slow or unsure costs counted misses, never doubles."""

from __future__ import annotations

from celery_pecker.kernel.errors import BrokerUnavailable, PublishUncertain
from celery_pecker.testing.manual import ManualClock
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import due, missed


def test_a_broker_that_is_away_costs_a_counted_miss_and_no_pile_up(
    start: Starter, dsn: str
) -> None:
    """The slot in hand is tried until the next is due; then one comes, not ten."""
    pecker = start({"sweep": 1.0})
    pecker.publisher.failing = BrokerUnavailable()
    pecker.pass_time(1.5)
    assert pecker.publisher.sent == []
    pecker.publisher.unreachable = True
    pecker.pass_time(8.2)
    pecker.publisher.failing, pecker.publisher.unreachable = None, False
    sent = pecker.pass_time(0.2)
    assert len(sent) == 1
    assert missed(dsn) + len(pecker.publisher.sent) == 9  # slots due


def test_a_replica_that_cannot_reach_the_broker_leaves_the_slots_to_others(
    start: Starter, dsn: str
) -> None:
    """It was the winner; from the next slot on it is not, and none is missed."""
    clock = ManualClock()
    cut, whole = start({"sweep": 1.0}, clock), start({"sweep": 1.0}, clock)
    clock.advance_us(1_000_000)
    cut.service.step()
    cut.publisher.unreachable = True
    for _ in range(42):
        clock.advance_us(100_000)
        cut.service.step()
        whole.service.step()
    assert len(cut.publisher.sent) == 1
    assert len(whole.publisher.sent) == 4
    assert missed(dsn) == 0


def test_a_slot_is_sent_late_rather_than_never_while_its_time_lasts(
    start: Starter, dsn: str
) -> None:
    """A broker away for half a second costs nothing."""
    pecker = start({"sweep": 1.0})
    pecker.publisher.failing = BrokerUnavailable()
    pecker.pass_time(1.3)
    pecker.publisher.failing = None
    [late] = pecker.pass_time(0.5)
    assert late.header["due_at"] == due(pecker)[0]
    assert missed(dsn) == 0


def test_an_uncertain_batch_is_tried_again_only_under_its_token(
    start: Starter, dsn: str
) -> None:
    """With the token a retry is exact; without it, it might double: never twice."""
    pecker = start({"sweep": 1.0})
    pecker.publisher.failing = PublishUncertain(retry_safe=True)
    pecker.pass_time(1.2)
    pecker.publisher.failing = None
    assert len(pecker.pass_time(0.5)) == 1
    pecker.publisher.failing = PublishUncertain(retry_safe=False)
    pecker.pass_time(0.5)
    pecker.publisher.failing = None
    pecker.pass_time(0.5)
    assert len(pecker.publisher.sent) == 1
    assert missed(dsn) == 1


def test_a_slot_in_hand_is_tried_again_soon(start: Starter) -> None:
    """A broker that was away for a moment costs a tenth of a second, not the slot."""
    pecker = start({"sweep": 1.0})
    pecker.publisher.failing = BrokerUnavailable()
    pecker.clock.advance_us(1_000_000)
    assert pecker.service.step() <= 0.1

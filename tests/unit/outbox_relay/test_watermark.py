"""An id is passed once nothing below it can come any more."""

from __future__ import annotations

from celery_pecker.outbox.relay.watermark import (
    FULL_WALK_INTERVAL,
    REMEMBERED,
    Watermark,
)


def test_an_id_is_passed_when_those_that_wrote_beside_it_have_ended() -> None:
    """Transaction 90 may hold an id below 100 that nobody can see yet."""
    mark = Watermark()
    assert mark.above(0.0) == 0
    mark.chosen(100, oldest=90, newest=95)
    assert mark.above(1.0) == 0
    mark.chosen(None, oldest=94, newest=99)
    assert mark.above(2.0) == 0
    mark.chosen(200, oldest=95, newest=99)
    assert mark.above(3.0) == 100
    mark.chosen(None, oldest=99, newest=99)
    assert mark.above(4.0) == 200


def test_a_walk_from_the_start_follows_from_time_to_time() -> None:
    """For an insert that stood still between its id and its transaction's number."""
    mark = Watermark()
    assert mark.above(0.0) == 0
    mark.chosen(100, oldest=5, newest=5)
    mark.chosen(None, oldest=5, newest=5)
    assert mark.above(1.0) == 100
    assert mark.above(FULL_WALK_INTERVAL) == 0
    assert mark.above(FULL_WALK_INTERVAL + 1) == 100


def test_a_long_transaction_makes_no_list_grow() -> None:
    """The first claims are those that can be passed first."""
    mark = Watermark()
    mark.above(0.0)
    for number in range(1, 10 * REMEMBERED):
        mark.chosen(number, oldest=1, newest=number + 1)
    mark.chosen(None, oldest=REMEMBERED - 1, newest=10_000)
    assert mark.above(1.0) == REMEMBERED - 2
    mark.chosen(None, oldest=10_000, newest=10_000)
    assert mark.above(2.0) == 10 * REMEMBERED - 1

"""An id is passed once nothing below it can come any more."""

from __future__ import annotations

from typing import Any

from celery_pecker.outbox.relay.watermark import (
    PREPARED,
    REMEMBERED,
    STUCK_INTERVAL,
    Watermark,
)


def took(mark: Watermark, last: int | None, **options: Any) -> None:
    """Take in a claim; one that chose nothing saw that nothing was left."""
    mark.chosen(mark.above or 0, last, **{"whole": last is None, **options})


def test_an_id_is_passed_when_those_that_wrote_beside_it_have_ended() -> None:
    """Transaction 90 may hold an id below 100 that nobody can see yet."""
    mark = Watermark()
    took(mark, 100, oldest=90, newest=95)
    assert mark.above == 0
    took(mark, None, oldest=94, newest=99)
    assert mark.above == 0
    took(mark, 200, oldest=95, newest=99)
    assert mark.above == 100
    took(mark, None, oldest=99, newest=99)
    assert mark.above == 200


def test_the_first_claim_says_where_the_others_have_come_to() -> None:
    """A new relay does not walk over what is gone."""
    assert Watermark().above is None
    mark = Watermark()
    mark.chosen(5_000, None, whole=True, oldest=9, newest=9)
    assert mark.above == 5_000


def test_what_a_full_claim_left_out_is_not_passed() -> None:
    """100,000 are committed after 1,000 later ones were chosen: none is skipped."""
    mark = Watermark()
    took(mark, 101_000, oldest=90, newest=95)
    took(mark, 1_000, oldest=95, newest=99)
    assert mark.above == 1_000
    took(mark, 2_000, oldest=99, newest=103)
    assert mark.above == 1_000
    took(mark, None, oldest=103, newest=103)
    assert mark.above == 2_000


def test_a_row_that_a_caller_holds_is_not_passed() -> None:
    """Nothing was chosen, but not because there was nothing."""
    mark = Watermark()
    took(mark, 100, oldest=5, newest=5)
    took(mark, 49, whole=False, oldest=5, newest=5)
    assert mark.above == 49


def test_who_writes_is_asked_when_an_end_does_not_come() -> None:
    """And only then: in the usual case each claim passes the one before."""
    mark = Watermark()
    took(mark, 100, oldest=1, newest=5)
    assert not mark.stuck(10.0)
    took(mark, 200, oldest=5, newest=6)
    assert not mark.stuck(10.0 + STUCK_INTERVAL)
    took(mark, 300, oldest=5, newest=7)
    assert mark.stuck(10.0 + 2 * STUCK_INTERVAL)
    mark.writers([], 10.0 + 2 * STUCK_INTERVAL)
    assert not mark.stuck(10.1 + 2 * STUCK_INTERVAL)


def test_a_long_transaction_that_writes_elsewhere_is_passed() -> None:
    """It has a number of its own, and would keep the mark where it is."""
    mark = Watermark()
    took(mark, 100, oldest=1, newest=5)
    mark.writers([], 0.0)
    assert mark.above == 0, "what was committed meanwhile has to be seen first"
    took(mark, None, oldest=1, newest=9)
    assert mark.above == 100


def test_who_writes_now_may_have_written_before() -> None:
    """Those that wrote then have to have ended; who writes later has higher ids."""
    mark = Watermark()
    took(mark, 100, oldest=1, newest=5)
    mark.writers(["3/7", "4/1"], 0.0)
    took(mark, None, oldest=1, newest=6)
    mark.writers(["4/1", "5/9"], 1.0)
    took(mark, None, oldest=1, newest=7)
    assert mark.above == 0
    mark.writers(["6/2"], 2.0)
    took(mark, None, oldest=1, newest=8)
    assert mark.above == 100


def test_a_transaction_that_was_prepared_has_not_ended() -> None:
    """Its name has changed: it may be any of those that wrote."""
    mark = Watermark()
    took(mark, 100, oldest=1, newest=5)
    mark.writers(["3/7"], 0.0)
    mark.writers([PREPARED], 1.0)
    took(mark, None, oldest=1, newest=6)
    assert mark.above == 0
    mark.writers(["5/1"], 2.0)
    took(mark, None, oldest=1, newest=7)
    assert mark.above == 100


def test_what_was_left_behind_is_walked_over_anew() -> None:
    """From the id that was seen; nothing of before counts."""
    mark = Watermark()
    took(mark, 100, oldest=5, newest=5)
    took(mark, 200, oldest=5, newest=5)
    mark.writers(["3/7"], 0.0)
    mark.lower(41)
    assert mark.above == 41
    took(mark, None, oldest=9, newest=9)
    assert mark.above == 41


def test_a_long_transaction_makes_no_list_grow() -> None:
    """The first claims are those that can be passed first."""
    mark = Watermark()
    for number in range(1, 10 * REMEMBERED):
        took(mark, number, oldest=1, newest=number + 1)
    took(mark, None, oldest=REMEMBERED - 1, newest=10_000)
    assert mark.above == REMEMBERED - 2
    took(mark, None, oldest=10_000, newest=10_000)
    assert mark.above == 10 * REMEMBERED - 1

"""Errors, and answers that did not come, leave no entry asleep and send none twice."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery.schedules import crontab

from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.testing.manual import START
from tests.integration.schedules.conftest import Starter
from tests.integration.schedules.replicas import missed


def test_a_failure_in_the_middle_leaves_no_entry_asleep(
    start: Starter, dsn: str
) -> None:
    """Whatever is raised between claim and publish, the entry wakes again."""
    pecker = start({"sweep": 1.0})
    pecker.publisher.failing = ZeroDivisionError()  # type: ignore[assignment]
    pecker.clock.advance_us(1_000_000)
    with pytest.raises(ZeroDivisionError):
        pecker.service.step()
    pecker.publisher.failing = None
    assert len(pecker.pass_time(3.5)) == 3
    assert missed(dsn) == 1


def test_a_failure_in_the_claim_leaves_no_entry_asleep(start: Starter) -> None:
    """Off the agenda and not planned anew, it would stand still for ever."""
    pecker = start({"sweep": 1.0})
    repository = pecker.repository
    claim = repository.claim

    def fail(*_args: object, **_kwargs: object) -> object:
        raise ZeroDivisionError

    repository.claim = fail  # type: ignore[method-assign,assignment]
    pecker.clock.advance_us(1_010_000)
    with pytest.raises(ZeroDivisionError):
        pecker.service.step()
    repository.claim = claim  # type: ignore[method-assign]
    assert len(pecker.pass_time(3)) == 4


def test_a_claim_whose_answer_was_lost_is_found_in_the_table(
    start: Starter, dsn: str
) -> None:
    """The server did it, the reply did not come: the holder in the row tells."""
    pecker = start({"sweep": 1.0})
    claim = pecker.repository.claim

    def lose(*args: object, **kwargs: object) -> object:
        claim(*args, **kwargs)  # type: ignore[arg-type]
        raise DatabaseUnavailable

    pecker.repository.claim = lose  # type: ignore[method-assign,assignment]
    pecker.clock.advance_us(1_000_000)
    with pytest.raises(DatabaseUnavailable):
        pecker.service.step()
    pecker.repository.claim = claim  # type: ignore[method-assign]
    pecker.clock.advance_us(100_000)
    [found] = pecker.turn()
    assert found.header["due_at"] == (START + timedelta(seconds=1)).isoformat(
        timespec="microseconds"
    )
    assert missed(dsn) == 0


def test_a_claim_found_without_answer_is_found_once(start: Starter) -> None:
    """Published when it was found; a later claim that fails must not find it new."""
    pecker = start({"hourly": crontab(minute="0")})
    repository = pecker.repository
    claim = repository.claim

    def lose_the_answer(*args: object, **kwargs: object) -> object:
        claim(*args, **kwargs)  # type: ignore[arg-type]
        raise DatabaseUnavailable

    def never_arrive(*_args: object, **_kwargs: object) -> object:
        raise DatabaseUnavailable

    for broken in (lose_the_answer, never_arrive):
        pecker.clock.advance_us(3_602_000_000)
        repository.claim = broken  # type: ignore[method-assign,assignment]
        with pytest.raises(DatabaseUnavailable):
            pecker.service.step()
        repository.claim = claim  # type: ignore[method-assign]
        pecker.turn()
    ids = [one.task_id for one in pecker.publisher.sent]
    assert len(ids) == 2
    assert len(set(ids)) == 2

"""PostgreSQL fails over to its standby: each slot is sent once, before and after."""

from __future__ import annotations

import pytest

from tests.integration.outbox_relay.standby import (
    answer_what_is_replicated,
    either,
    promote,
    replicated,
)
from tests.integration.surroundings.conftest import Begin
from tests.integration.surroundings.whole import stand

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


def test_replicas_follow_to_a_promoted_standby(redis_url: str, begin: Begin) -> None:
    """Two of them, whose address names both servers; what was won is not won again."""
    with replicated() as (primary, standby):
        answer_what_is_replicated(primary)
        dsn = either(primary, standby)
        begin(dsn, redis_url)
        played = begin(dsn, redis_url)
        played.sends(6)
        primary.kill()
        promote(standby)
        played.sends(6)


def test_rows_of_every_kind_go_on_at_a_promoted_standby(
    redis_url: str, queue_name: str
) -> None:
    """What was committed before the primary died is done, each thing once."""
    with replicated() as (primary, standby):
        answer_what_is_replicated(primary)
        with stand(either(primary, standby), redis_url, queue_name) as made:
            made.worker()
            made.begin(0)
            made.ends(0)
            made.begin(1)
            primary.kill()
            promote(standby)
            made.ends(1, lossy=True)
            made.goes_on(0)
            made.begin(2)
            made.ends(2)
            made.stop(0)

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

pytestmark = pytest.mark.soak


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

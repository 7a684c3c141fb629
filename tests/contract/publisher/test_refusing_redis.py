"""Redis is there, and refuses: to run scripts, to take writes, to take messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from celery_pecker.kernel.errors import BrokerRefuses, PublishRefused, PublishUncertain
from celery_pecker.testing import EmbeddedRedis
from tests.contract.publisher.cases import CALLS, make_entry
from tests.contract.publisher.conftest import RedisWire, Stand, dispatch
from tests.contract.publisher.lanes import Lane, lane_of

MakeStand = Callable[..., Stand]


@pytest.fixture
def client(own_redis: Callable[..., EmbeddedRedis]) -> Iterator[Any]:
    """Give what may change the server."""
    with redis.Redis.from_url(own_redis(fast=True).url) as made:
        yield made


def stand_for(client: Any, stand_on: MakeStand, user: str = "default") -> Stand:
    """Return a stand with one entry known."""
    told = client.connection_pool.connection_kwargs
    login = f"{user}:{told['password']}"
    stand = stand_on(RedisWire(f"redis://{login}@127.0.0.1:{told['port']}/0"))
    stand.known(make_entry(stand.app, "one", CALLS["nothing"]))
    return stand


def allow(client: Any, *rights: str) -> None:
    """Let a user named app do anything but what is named."""
    client.acl_setuser(
        "app",
        enabled=True,
        nopass=True,
        keys=["*"],
        channels=["*"],
        categories=["+@all", *(right for right in rights if "@" in right)],
        commands=[right for right in rights if "@" not in right],
    )


def test_a_user_without_scripts_sends_by_the_slow_lane(
    client: Any, stand_on: MakeStand
) -> None:
    """Each slot was claimed, and none was sent."""
    allow(client, "-@scripting")
    stand = stand_for(client, stand_on, "app")
    for count in (1, 2):
        stand.send([dispatch("one")])
        assert client.llen("celery") == count
    verdict = lane_of(stand.publisher, "one")
    assert verdict.lane is Lane.SLOW
    assert "lets this user run no such script" in verdict.reason


@pytest.mark.parametrize("why", ["a replica", "full"])
def test_a_redis_that_takes_no_writes_is_known_before_a_claim(
    client: Any, stand_on: MakeStand, why: str
) -> None:
    """It answers a PING."""
    stand = stand_for(client, stand_on)
    if why == "full":
        client.config_set("maxmemory", 1)
    else:
        client.replicaof("127.0.0.1", 1)
    stand.publisher._broker._answered = float("-inf")
    for _ in range(2):  # on the connection that stands, and on a new one
        with pytest.raises(BrokerRefuses, match="takes no writes"):
            stand.publisher.ensure()
    client.config_set("maxmemory", 0)
    client.replicaof("no", "one")
    stand.send([dispatch("one")])
    assert client.llen("celery") == 1


def test_a_user_that_may_send_nothing_claims_nothing_for_a_while(
    client: Any, stand_on: MakeStand
) -> None:
    """There is nothing that would change nothing and needs the same right."""
    allow(client, "-@scripting", "-lpush")
    stand = stand_for(client, stand_on, "app")
    with pytest.raises(PublishUncertain):
        stand.send([dispatch("one")])
    with pytest.raises(BrokerRefuses, match="send no messages"):
        stand.publisher.ensure()


def test_arguments_that_cannot_be_encoded_are_known_not_to_be_sent(
    client: Any, stand_on: MakeStand
) -> None:
    """It was said that the broker may or may not have them."""
    stand = stand_for(client, stand_on)
    stand.known(make_entry(stand.app, "odd", ("plain", (object(),), {}, {})))
    with pytest.raises(PublishRefused, match="odd") as caught:
        stand.send([dispatch("odd"), dispatch("one")])
    assert "may or may not" not in caught.value.why
    assert caught.value.done == {"one"}

"""A worker that may hold few messages: others pass, and nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from kombu import Connection

from celery_pecker.kernel.clock import monotonic
from tests.integration.throttle.crossed import pools_and_brokers
from tests.integration.throttle.worker.stand import LIMIT, Stand
from throttle.settings import MESSAGE_BYTES
from throttle.worker.overflow import STANDSTILL

pytestmark = pytest.mark.cluster

HOLD = 10
NAMES = [f"g{number}" for number in range(60)]


def parked(stand: Stand, database: str = "main") -> int:
    """How many its workers parked since they started."""
    holders = stand.view(database).holders.values()
    return sum(one.holding.parked for one in holders)


def in_parking(stand: Stand) -> int:
    """How many messages are in the parking queue of `main`."""
    name = f"{stand.queue}.parking.main.{stand.queue}"
    with Connection(str(stand.conf["broker_url"])) as connection:
        channel: Any = connection.default_channel
        try:
            return int(channel.queue_declare(name, passive=True).message_count)
        except connection.channel_errors:
            return 0


def overflow(stand: Stand, *options: str, pool: str = "prefork", **conf: Any) -> None:
    """A worker holds as much as it may, and the rest is parked."""
    stand.start(*options, pool=pool, throttle_hold_bytes=HOLD * MESSAGE_BYTES, **conf)
    stand.until_shut()
    stand.send("gated", *NAMES)
    stand.until(lambda: in_parking(stand) >= 30, "the rest is parked")


@pools_and_brokers("prefork", "threads", "gevent", "solo")
def test_what_is_too_much_is_parked_and_others_pass(either: Stand, pool: str) -> None:
    """All run in the end, each once."""
    overflow(either, pool=pool)
    either.send("free", "f1")
    either.send("other", "o1")
    either.until(either.ran_all("f1", "o1"), "others pass")
    # A few that were on their way from parking are held beyond it
    assert either.held() <= 2 * HOLD
    # The worker counts what is parked when it looks, and takes some back meanwhile
    either.until(lambda: parked(either) >= 30, "the worker says that they are parked")
    either.reopen()
    either.until(either.ran_all(*NAMES), "all ran")
    assert set(either.ran.values()) == {1}
    either.until(lambda: in_parking(either) == 0, "parking is empty")
    assert either.inspect()["prefetch_more"] == 0


def test_a_queue_of_one_database_is_paused(either: Stand) -> None:
    """Its messages wait where they are; nothing is parked; other queues go on."""
    second = f"{either.queue}-second"
    main = {"operations": LIMIT, "queues": [either.queue]}
    either.need_rising_prefetch()
    either.start(
        "-Q",
        f"{either.queue},{second}",
        throttle_hold_bytes=HOLD * MESSAGE_BYTES,
        throttle_limits={"main": main, "other": LIMIT},
    )
    either.until_shut()
    either.send("gated", *NAMES)
    either.until(lambda: either.held() >= HOLD, "it holds what it may")
    either.send("free", "f1", queue=second)
    either.until(either.ran_all("f1"), "others pass")
    assert either.held() < 40
    assert parked(either) == 0
    either.reopen()
    either.until(either.ran_all(*NAMES), "all ran")
    assert set(either.ran.values()) == {1}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGQUIT])
def test_parked_messages_outlive_their_worker(either: Stand, how: int) -> None:
    """The next one runs what was held, and what was parked, each once."""
    overflow(either)
    either.end(how)
    either.reopen()
    either.start(throttle_hold_bytes=HOLD * MESSAGE_BYTES)
    either.until(either.ran_all(*NAMES), "all ran")
    assert set(either.ran.values()) == {1}


def test_a_full_hold_does_not_keep_another_database_from_its_parking(
    either: Stand,
) -> None:
    """What was parked for b runs as b opens, though the hold is full of a's."""
    either.need_rising_prefetch()
    either.start(throttle_hold_bytes=HOLD * MESSAGE_BYTES)
    either.until_shut("main")
    either.until_shut("other")
    either.send("gated", *NAMES)
    either.until(lambda: parked(either) >= 30, "the hold is full")
    either.send("other", "o1", "o2")
    either.until(lambda: parked(either, "other") > 0, "b's are parked")
    either.reopen("other")
    either.until(either.ran_all("o1", "o2"), "b's ran")
    assert not set(NAMES) & set(either.ran)
    assert either.held() >= HOLD // 2
    either.reopen()
    either.until(either.ran_all(*NAMES), "all ran")
    assert set(either.ran.values()) == {1}


def test_what_cannot_be_parked_runs_when_its_database_opens(either: Stand) -> None:
    """The parking is refused: a worker must not keep its prefetch full for ever."""
    either.need_rising_prefetch()
    parking = f"{either.queue}.parking.main.{either.queue}"
    with refused(str(either.conf["broker_url"]), parking):
        worker = either.start(throttle_hold_bytes=HOLD * MESSAGE_BYTES)
        either.until_shut()
        either.send("gated", *NAMES)
        either.until(lambda: either.held() >= HOLD, "it holds what it may")
        log = worker.life_log
        either.until(
            lambda: "stay in this worker" in log() or "is refused" in log(), "no more"
        )
        either.reopen()
        either.until(either.ran_all(*NAMES), "all ran")
    assert set(either.ran.values()) == {1}
    assert either.inspect()["prefetch_more"] == 0


@contextmanager
def refused(broker: str, parking: str) -> Iterator[None]:
    """What is called like a parking queue is none, or somebody else's."""
    with Connection(broker) as connection:
        channel: Any = connection.default_channel
        if broker.startswith("redis"):
            channel.client.set(parking, "none")
            yield
            channel.client.delete(parking)
        else:
            channel.queue_declare(parking, exclusive=True)
            yield


def test_a_quorum_queue_parks_at_once(
    stands: Callable[..., Stand], amqp_url: str
) -> None:
    """Its consumer cannot ask for more: what may not pass makes room."""
    stand = stands(amqp_url)
    stand.sender.conf.task_default_queue_type = "quorum"
    stand.start(task_default_queue_type="quorum")
    stand.until_shut()
    stand.send("gated", *NAMES)
    stand.send("free", "f1")
    stand.until(stand.ran_all("f1"), "others pass")
    stand.until(lambda: parked(stand) == len(NAMES), "all are parked")
    stand.reopen()
    stand.until(stand.ran_all(*NAMES), "all ran")
    assert set(stand.ran.values()) == {1}


def test_what_is_held_too_long_goes_back(
    stands: Callable[..., Stand], amqp_url: str
) -> None:
    """RabbitMQ would close the channel: before that they go back, and come again."""
    stand = stands(amqp_url)
    worker = stand.start(throttle_hold_timeout=1.0)
    stand.until_shut()
    stand.send("gated", "one", "two")
    stand.until(lambda: worker.life_log().count("[one] received") > 2, "it came again")
    stand.reopen()
    stand.until(stand.ran_all("one", "two"), "they ran")
    assert set(stand.ran.values()) == {1}


def test_held_messages_are_renewed(
    stands: Callable[..., Stand], redis_url: str
) -> None:
    """Redis would hand them out again after the visibility timeout."""
    stand = stands()
    stand.start(broker_transport_options={"visibility_timeout": 4})
    stand.until_shut()
    stand.send("gated", *NAMES)
    stand.until_held(len(NAMES))
    with redis.Redis.from_url(redis_url) as client:

        def oldest() -> float:
            return min(
                float(x)
                for _, x in client.zrange("unacked_index", 0, -1, withscores=True)
            )

        first = oldest()
        stand.until(lambda: oldest() > first + 3, "all are renewed, again and again")
        assert client.zcard("unacked_index") == len(NAMES)


def test_what_was_handed_out_again_does_not_run_twice(
    stands: Callable[..., Stand], redis_url: str
) -> None:
    """A worker stood still, its messages went to another; then it goes on."""
    stand = stands()
    options = {"visibility_timeout": 4}
    # What it was told last is old when it goes on: all that it holds may pass at once
    first = stand.start(
        broker_transport_options=options,
        throttle_limits={
            "main": {"operations": LIMIT, "policy": "open"},
            "other": LIMIT,
        },
    )
    stand.until_shut()
    stand.send("gated", *NAMES)
    stand.until_held(len(NAMES))
    os.killpg(first.pid, signal.SIGSTOP)
    stopped = monotonic()
    try:
        # Messages go to another worker only once theirs has stood still for long
        stand.until(lambda: monotonic() > stopped + STANDSTILL, "it has stood still")
        hand_out(redis_url, stand.queue)
        stand.start(broker_transport_options=options)
        stand.reopen()
        # One may have gone to the fetch that the first had sent before
        stand.until(lambda: len(stand.ran) >= len(NAMES) - 1, "the other ran them")
    finally:
        os.killpg(first.pid, signal.SIGCONT)
    stand.until(stand.ran_all(*NAMES), "all ran")
    stand.until(lambda: stand.held() == 0, "the first knows")
    stand.send("gated", "last")
    stand.until(stand.ran_all("last"), "it goes on")
    assert set(stand.ran.values()) == {1}


def hand_out(redis_url: str, queue: str) -> None:
    """All that is delivered goes back to its queue, as after the timeout."""
    with Connection(redis_url) as connection:
        channel: Any = connection.default_channel
        for tag in channel.client.zrange("unacked_index", 0, -1):
            channel.qos.restore_by_tag(tag.decode())

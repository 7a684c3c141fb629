"""What a worker says when it cannot start, and how the gate comes to an app."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from celery_pecker.testing import EmbeddedRedis
from tests.integration.throttle.worker.stand import Stand

pytestmark = pytest.mark.cluster

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a limit": ({"throttle_limits": {"main": 0}}, "must be a number above zero"),
    "two limits": (
        {"throttle_limits": [["main", 1], ["main", 2], ["other", 1]]},
        "two limits for 'main'",
    ),
    "unknown": ({"throttle_limits": {"main": 5}}, "throttle='other', which is no"),
    "route": ({"throttle_route": "nowhere.at_all"}, "cannot be imported"),
    "no route": ({"throttle_route": "os.sep"}, "cannot be called"),
    "setting": ({"throttle_limit": 1}, "throttle_limit is not a setting"),
    "no redis": ({"throttle_redis_url": None}, "needs throttle_redis_url"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_refused_in_one_line(stand: Stand, wrong: str) -> None:
    """The worker ends with an error that names the setting, and no traceback."""
    conf, said = WRONG[wrong]
    worker = stand.start(wait=False, **conf)
    stand.until(lambda: worker.exit_code is not None, "it ended")
    log = worker.life_log()
    assert worker.exit_code != 0
    [line] = [line for line in log.splitlines() if line.startswith("Error:")]
    assert said in line
    assert "Traceback" not in log


def test_a_redis_that_is_none_is_refused(stand: Stand, http_port: int) -> None:
    """A web server answers at the address."""
    worker = stand.start(
        wait=False, throttle_redis_url=f"redis://127.0.0.1:{http_port}/0"
    )
    stand.until(lambda: worker.exit_code is not None, "it ended")
    assert worker.exit_code != 0
    assert "Error:" in worker.life_log()
    assert "Traceback" not in worker.life_log()


def test_a_redis_that_is_away_is_waited_for(stand: Stand) -> None:
    """The worker starts, and by its policy tasks pass."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{taken.getsockname()[1]}/0"
        stand.start(throttle_redis_url=url, throttle_policy="open")
        stand.send("gated", "g1", "g2")
        stand.until(stand.ran_all("g1", "g2"), "they ran")
        assert stand.inspect()["exchange"]["away"]


def test_its_redis_dies_and_comes_back(
    own_redis: Callable[..., EmbeddedRedis], redis_url: str, tmp_path: Path
) -> None:
    """Closed: nothing passes while it is away, all of it does when it is back."""
    server = own_redis()
    stand = Stand(tmp_path, broker=redis_url, store=server.url)
    try:
        worker = stand.start(throttle_policy="closed")
        stand.send("gated", "before")
        stand.until(stand.ran_all("before"), "it ran")
        server.kill()
        asked = stand.inspect
        stand.until(
            lambda: asked()["databases"]["main"]["policy"] == "closed", "it noticed"
        )
        stand.send("gated", "g1", "g2")
        stand.send("free", "f1")
        stand.until(stand.ran_all("f1"), "others pass")
        stand.until(lambda: asked()["databases"]["main"]["held"] == 2, "they are held")
        assert set(stand.ran) == {"before", "f1"}
        server.start()
        stand.until(stand.ran_all("g1", "g2"), "they ran")
        assert "Traceback" not in worker.life_log()
    finally:
        stand.close()


def test_no_limits_no_gate(stand: Stand) -> None:
    """An app without limits has a worker as it was."""
    stand.start(throttle_limits={}, throttle_redis_url=None)
    stand.send("gated", "g1")
    stand.until(stand.ran_all("g1"), "it ran")
    assert stand.inspect() == {}


def test_shadow_holds_nothing_and_counts(stand: Stand) -> None:
    """Everything but the holding."""
    limits = {"main": {"operations": 10_000, "shadow": True}, "other": 5}
    stand.start(throttle_limits=limits)
    stand.until_shut()
    names = [f"g{number}" for number in range(5)]
    stand.send("gated", *names)
    stand.until(stand.ran_all(*names), "they ran")
    told = stand.inspect()["databases"]["main"]
    assert told["would_hold"] == 5
    assert told["held"] == 0


def test_tenants_take_turns(stand: Stand) -> None:
    """A tenant's long queue does not delay another's short one."""
    stand.start("-c", "1", pool="solo", throttle_route=ROUTE)
    stand.until_shut()
    stand.send("routed", *(f"a{one}" for one in range(20)), kwargs={"tenant": "a"})
    stand.send("routed", "b0", "b1", kwargs={"tenant": "b"})
    stand.until_held(22)
    assert stand.inspect()["databases"]["main"]["tenants"]["b"]["held"] == 2
    stand.reopen()
    stand.until(lambda: len(stand.ran) == 22, "all ran")
    order = [name for _, name in stand.lines]
    assert order.index("b1 b") < 6


def test_a_route_that_fails_lets_the_task_through(stand: Stand) -> None:
    """What it raises, and a database that has no limit; counted, each logged once."""
    worker = stand.start(throttle_route=ROUTE)
    stand.until_shut()
    stand.send("routed", "r1", kwargs={"tenant": "broken"})
    stand.send("routed", "r2", "r3", headers={"database": "nobody's"})
    stand.until(stand.ran_all("r1 broken", "r2", "r3"), "they ran")
    assert stand.inspect()["route_failures"] == 3
    assert worker.life_log().count("the route of routed") == 2
    stand.send("routed", "r4", headers={"database": "other"})
    stand.until(stand.ran_all("r4"), "it ran")


ROUTE = "tests.integration.throttle.worker.app:route"

"""`sharded` calls tasks that one has, where their messages go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery, chain, chord, group

from celery_sharding import Sharding, sharded
from celery_sharding.errors import Misconfigured
from celery_sharding.messages import route_of

Rows = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def lying(redis_url: str) -> Iterator[Callable[[str], int]]:
    """Give a function that returns how many messages lie in a queue."""
    with redis.Redis.from_url(redis_url) as client:
        yield lambda name: int(client.llen(name))


@pytest.mark.filterwarnings(r"ignore:\s*The 'queue' task attribute")
def test_a_job_goes_where_its_task_goes(
    app: Celery, sharding: Sharding, queue_name: str, lying: Callable[[str], int]
) -> None:
    """By the attributes of the task: only its workers may know it."""
    special = f"{queue_name}.special"

    @app.task(name="calls.special", shared=False, queue=special)
    def act(one: int) -> int:
        return one

    sharded(act.s(), [1, 2]).delay()
    assert (lying(special), lying(queue_name)) == (1, 0)


def test_a_job_goes_where_the_apps_routes_send_its_task(
    app: Celery,
    sharding: Sharding,
    add: Any,
    queue_name: str,
    lying: Callable[[str], int],
    rows: Rows,
) -> None:
    """So do its message once more and its tickets: the row says where."""
    routed = f"{queue_name}.routed"
    app.conf.task_routes = {"calls.add": {"queue": routed}}
    sharded(add.s(), [1, 2]).delay()
    assert (lying(routed), lying(queue_name)) == (1, 0)
    ((told,),) = rows("select continuation from pecker_jobs")
    told = told if isinstance(told, dict) else json.loads(told)
    assert route_of(app, "celery_sharding.each", told)["queue"] == routed


def test_what_the_call_says_goes_before(
    app: Celery,
    sharding: Sharding,
    add: Any,
    queue_name: str,
    lying: Callable[[str], int],
) -> None:
    """A queue of the signature, or of the call."""
    app.conf.task_routes = {"calls.add": {"queue": f"{queue_name}.routed"}}
    sharded(add.s().set(queue=f"{queue_name}.set"), [1]).delay()
    sharded(add.s(), [1]).apply_async(queue=f"{queue_name}.call")
    names = ("set", "call", "routed")
    assert [lying(f"{queue_name}.{name}") for name in names] == [1, 1, 0]


@pytest.mark.parametrize("make", [chain, group, chord])
def test_what_is_no_task_is_refused(
    app: Celery, sharding: Sharding, add: Any, make: Any
) -> None:
    """Each item of it would fail."""
    parts = [add.s(1), add.s(2)]
    canvas = make(parts, add.s(3)) if make is chord else make(*parts)
    for one in (canvas, json.loads(json.dumps(canvas))):
        given = app.signature(one)
        with pytest.raises(Misconfigured, match="one task"):
            sharded(given, [1])
        with pytest.raises(Misconfigured, match="one task"):
            sharded(add.s(), [1], post=given)

"""Queues and exchanges come back from their JSON as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kombu import Exchange, Queue, binding

from celery_pecker.brokers.publisher.entities import decode, encode

MANY: Any = [
    binding(Exchange("q"), "r"),
    binding(Exchange("q"), "s", arguments={"a": 1}),
]
ENTITIES: dict[str, Any] = {
    "as Celery makes them": Queue("celery", Exchange("celery"), "celery"),
    "topic": Queue("a", Exchange("b", type="topic"), "x.#", max_priority=9, expires=60),
    "arguments": Queue(
        "q", Exchange("q"), "q", queue_arguments={"x-queue-type": "quorum"}
    ),
    "no exchange": Queue("z"),
    "bindings": Queue("m", MANY),
    "transient": Queue(
        "n", Exchange("n", delivery_mode=1), "n", durable=False, auto_delete=True
    ),
    "an exchange": Exchange("e", type="fanout", durable=False),
}


def described(entity: Any) -> dict[str, Any]:
    """Return all that is declared of it; kombu keeps bindings in a set."""
    found: dict[str, Any] = entity.as_dict(recurse=True)
    found["bindings"] = sorted(found.get("bindings") or [], key=repr)
    return found


@pytest.mark.parametrize("name", ENTITIES)
def test_an_entity_comes_back(name: str) -> None:
    """With all that is declared of it."""
    entity = ENTITIES[name]
    [found] = decode(encode([entity]))
    assert type(found) is type(entity)
    assert described(found) == described(entity)


def test_the_usual_queue_is_short() -> None:
    """It stands in each row."""
    usual = Queue("celery", Exchange("celery"), "celery")
    assert encode([usual]) == '[{"queue":"celery"}]'
    assert encode([]) is None
    assert decode(None) == []


def test_what_is_no_entity_is_refused() -> None:
    """On both ways."""
    strange: Any = "celery"
    with pytest.raises(TypeError, match="allowed are kombu's Queue and Exchange"):
        encode([strange])
    for text in ("{", '["celery"]', '[{"queue": 5, "nothing": 1, "exchange": 3}]', "5"):
        with pytest.raises(ValueError, match=r"declare is no|Expecting"):
            decode(text)
    assert json.loads(encode([Exchange("e")]) or "") == [{"exchange": {"name": "e"}}]

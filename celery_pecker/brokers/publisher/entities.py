"""Queues and exchanges that Celery declares before it sends, as short JSON.

The relay that delivers a message need not have the app's code: what has to be declared
for it stands in its row. What is as kombu makes it by default is left out; a queue
without a word on its exchange has one of its own name, as Celery makes them.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kombu import Exchange, Queue, binding

_EXCHANGE = Exchange().as_dict()
_QUEUE = Queue().as_dict()
_BINDING = binding().as_dict()


def encode(entities: Iterable[Any]) -> str | None:
    """Return the entities as JSON; None if there are none.

    Raises:
        TypeError: one of them is neither a queue nor an exchange, or has arguments
            that JSON does not know.
    """
    plain = [_plain(entity) for entity in entities]
    return json.dumps(plain, separators=(",", ":")) if plain else None


def decode(text: str | None) -> list[Any]:
    """Return the queues and exchanges that `encode` wrote, not bound to a channel.

    Raises:
        ValueError: the text is not what `encode` writes.
    """
    try:
        return [] if text is None else [_entity(plain) for plain in json.loads(text)]
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"declare is no list of queues and exchanges: {text!r}"
        ) from error


def _plain(entity: Any) -> dict[str, Any]:
    kinds: tuple[Any, ...] = (Exchange, Queue)
    if not isinstance(entity, kinds):
        raise TypeError(
            f"declare has {entity!r}; allowed are kombu's Queue and Exchange"
        )
    if not hasattr(entity, "queue_arguments"):
        return {"exchange": _exchange(entity)}
    fields = _different(entity, _QUEUE)
    fields["queue"] = fields.pop("name", "")
    exchange = entity.exchange
    if exchange is None:
        fields["exchange"] = None
    elif (as_text := _exchange(exchange)) != {"name": entity.name}:
        fields["exchange"] = as_text
    if fields.pop("routing_key", "") != entity.name:
        fields["key"] = entity.routing_key
    if entity.bindings:
        fields["bindings"] = [_binding(one) for one in entity.bindings]
    return fields


def _exchange(exchange: Any) -> dict[str, Any]:
    return _different(exchange, _EXCHANGE)


def _binding(bound: Any) -> dict[str, Any]:
    fields = _different(bound, _BINDING)
    if bound.exchange is not None:
        fields["exchange"] = _exchange(bound.exchange)
    return fields


def _different(entity: Any, usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is not as usual, but for the entities inside of it."""
    return {
        name: value
        for name, value in entity.as_dict().items()
        if name not in {"exchange", "bindings"} and value != usual[name]
    }


def _entity(plain: Mapping[str, Any]) -> Any:
    if "queue" not in plain:
        return Exchange(**plain["exchange"])
    fields = dict(plain)
    name = fields.pop("queue")
    exchange = fields.pop("exchange", {"name": name})
    bindings = [
        binding(**{**one, "exchange": Exchange(**one["exchange"])})
        if one.get("exchange")
        else binding(**one)
        for one in fields.pop("bindings", ())
    ]
    if bindings:
        fields["bindings"] = bindings
    return Queue(
        name,
        None if exchange is None else Exchange(**exchange),
        fields.pop("key", name),
        **fields,
    )

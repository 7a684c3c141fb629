"""Settling held messages in Redis, in few round trips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import islice
from typing import Any

from kombu.utils.json import dumps

from celery_pecker.redis_guard.held import Disposition, Held

BATCH = 100
SCRIPT = files(__package__).joinpath("settle.lua").read_text(encoding="utf-8")

# A queue is pushed to on the left and popped from on the right.
PUSH = {Disposition.BACK: "RPUSH", Disposition.LAST: "LPUSH", Disposition.DONE: ""}


def settle(channel: Any, messages: Sequence[Held]) -> Iterator[tuple[Held, bool]]:
    """Settle each message with a decided disposition over `channel`, exactly once.

    Yields it with whether there was anything to settle, batch by batch, so that what
    was done is known if the connection breaks on the way. A message whose queue is
    unknown to Redis is left where it is, and not among them.
    """
    known: dict[tuple[str, str], list[str]] = {}
    calls = iter(
        (held, keys)
        for held in messages
        if (keys := _keys(channel, held, known)) is not None
    )
    if not messages:
        return
    client = channel._create_client()  # noqa: SLF001 — as kombu makes its own
    script = client.register_script(SCRIPT)
    while batch := list(islice(calls, BATCH)):
        with client.pipeline(transaction=False) as pipe:
            for held, keys in batch:
                script(keys=keys, args=_arguments(held), client=pipe)
            answers = pipe.execute()
        yield from zip(
            (held for held, _ in batch),
            (answer == 1 for answer in answers),
            strict=True,
        )


def _keys(
    channel: Any, held: Held, known: dict[tuple[str, str], list[str]]
) -> list[str] | None:
    queues: list[str] = []
    if held.disposition is not Disposition.DONE:
        info = held.message.delivery_info
        route = (info["exchange"], info["routing_key"])
        if route not in known:
            known[route] = channel._lookup(*route)  # noqa: SLF001 — kombu's own way back
        if not known[route]:
            return None
        raw = held.message._raw  # noqa: SLF001 — what was sent, as it was sent
        priority = channel._get_message_priority(raw, reverse=False)  # noqa: SLF001
        queues = [channel._q_for_pri(queue, priority) for queue in known[route]]  # noqa: SLF001
    # kombu's prefixing client knows scripts with one key only and prefixes that.
    prefix = channel.global_keyprefix
    others = [channel.unacked_key, *queues]
    return [channel.unacked_index_key, *(f"{prefix}{key}" for key in others)]


def _arguments(held: Held) -> list[str]:
    payload = ""
    if held.disposition is not Disposition.DONE:
        raw = held.message._raw  # noqa: SLF001 — see above
        raw.setdefault("headers", {})["redelivered"] = True
        raw["properties"].setdefault("delivery_info", {})["redelivered"] = True
        payload = dumps(raw)
    recorded = "1" if held.recorded else "0"
    return [held.tag, repr(held.lost_at), recorded, PUSH[held.disposition], payload]

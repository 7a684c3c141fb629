"""What of a Celery task, and of its signature, `sharded` carries over or refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery.canvas import Signature

from celery_sharding.errors import Misconfigured
from celery_sharding.policies import Isolate

ROUTES = ("queue", "exchange", "routing_key", "priority", "serializer", "compression")
OF_THE_JOB = (*ROUTES, "countdown", "eta", "expires", "shadow", "headers")
"""Options of the called signature that are the job's: its message has them."""
LIMITS = ("soft_time_limit", "time_limit")
"""Those that bound a call, the first one first."""
CANVASES = {"chain", "group", "chord", "xmap", "xstarmap", "chunks"}
"""Kinds of signatures that are no single task."""


def check_task(signature: Mapping[str, Any]) -> None:
    """Refuse what is no task: each item of it would fail."""
    kind = signature.get("subtask_type")
    if kind in CANVASES:
        message = (
            f"sharded() calls one task, with items or with their results, and cannot"
            f" wait for a {kind}: let a task call it, or give the chain a job as a part"
        )
        raise Misconfigured(message)


def refuse_options(signature: Signature) -> None:
    """Refuse options of the called signature that cannot hold for an item."""
    for name in signature.options:
        if name not in OF_THE_JOB and name not in LIMITS:
            message = (
                f"{signature.task}: the option {name!r} cannot hold for an item of"
                f" sharded(); allowed are {', '.join((*OF_THE_JOB, *LIMITS))}; set"
                " others on the signature that sharded() returns"
            )
            raise Misconfigured(message)


def refuse_post_options(post: Signature) -> None:
    """Refuse options of what is called with the results: it runs in the job."""
    for name in post.options:
        message = (
            f"post={post.task}: it runs where the job does, and its option {name!r}"
            " cannot hold; give it none, or let it be the next step of a chain"
        )
        raise Misconfigured(message)


def refuse_arguments(task: Any, signature: Signature) -> None:
    """Refuse arguments that the task does not take, once and not for each item."""
    header = getattr(task, "__header__", None)
    if header is None or not task.typing:
        return
    first = () if signature.immutable else (None,)
    try:
        header(*first, *signature.args, **signature.kwargs)
    except TypeError as error:
        message = f"sharded() calls {signature.task} with an item first: {error}"
        raise TypeError(message) from error


def refuse_rate_limit(task: Any) -> None:
    """Refuse a task with a rate limit: it is of messages, and items are none."""
    if task.rate_limit:
        message = (
            f"{task.name} has rate_limit={task.rate_limit!r}, which workers hold for"
            " messages: sharded() cannot hold it for items. Call it from a sharded"
            " task of your own, with gate= or concurrency="
        )
        raise Misconfigured(message)


def carried(
    task: Any, signature: Signature, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the job's options, with what follows from the task where none is given."""
    merged = {"on_error": Isolate(max_failed=0), **options}
    seconds = _time_limit(task, signature)
    if seconds is not None:
        merged.setdefault("item_timeout", seconds)
    return merged


def _time_limit(task: Any, signature: Signature) -> float | None:
    """Return the seconds that a call may take; None: nothing says."""
    conf = signature.app.conf
    sources: tuple[list[Any], ...] = (
        [signature.options.get(name) for name in LIMITS],
        [getattr(task, name, None) for name in LIMITS],
        [conf.get(f"task_{name}") for name in LIMITS],
    )
    for soft, hard in sources:
        if soft or hard:
            return float(soft or hard)
    return None

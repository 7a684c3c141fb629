"""Shapes of canvas and options, as callers write them, beside those of entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery, canvas, chain, chord, group

from tests.contract.publisher.cases import CALLS, make_entry

VISITOR: Any = vars(canvas)["StampingVisitor"]
"""Not in the stubs."""


class Stamped(VISITOR):
    """Stamps each signature with who sent it."""

    def on_signature(self, _sig: Any, **_headers: Any) -> dict[str, Any]:
        """Return the stamps."""
        return {"who": "%me", "deep": [1, None]}


def canvases(task: Any) -> dict[str, Callable[[], Any]]:
    """Return signatures of canvas, made anew by each call."""

    def stamped() -> Any:
        signature = chain(task.s(1), task.s(2))
        signature.stamp(Stamped())
        return signature

    def linked() -> Any:
        signature = task.s(1)
        signature.link(task.s("done"))
        signature.link_error(task.si("failed").set(queue="made-up"))
        return signature

    return {
        "chain": lambda: chain(task.s(1), task.s(2), task.si(3)),
        "chain by a pipe": lambda: task.s(1) | task.s(2),
        "chain with options": lambda: chain(
            task.s(1).set(priority=3), task.s(2).set(countdown=5)
        ),
        "group": lambda: group(task.s(i) for i in range(3)),
        "group of one": lambda: group(task.s(1)),
        "group with options": lambda: group(task.s(1).set(priority=6), task.s(2)),
        "group of chains": lambda: group(
            chain(task.s(1), task.s(2)), chain(task.s(3), task.s(4))
        ),
        "chain into a group": lambda: chain(task.s(1), group(task.s(2), task.s(3))),
        "group into a task": lambda: group(task.s(1), task.s(2)) | task.s(3),
        "chord": lambda: chord([task.s(1), task.s(2)], task.s(3)),
        "chord with an error callback": lambda: chord(
            [task.s(1), task.s(2)], task.s(3).on_error(task.si("failed"))
        ),
        "chord in a chain": lambda: chain(
            task.s(1), chord([task.s(2), task.s(3)], task.s(4))
        ),
        "map": lambda: task.map([1, 2, 3]),
        "starmap": lambda: task.starmap([(1, 2), (3, 4)]),
        "chunks": lambda: task.chunks(zip(range(4), range(4), strict=True), 2).group(),
        "immutable": lambda: task.si(1, k="v"),
        "partial": lambda: task.s(2).clone((1,)),
        "link and link_error": linked,
        "stamps of a visitor": stamped,
        "replacing options": lambda: task.s(1).set(
            headers={"x": 1}, compression="zlib", serializer="yaml"
        ),
    }


def calls(app: Celery, prefix: str) -> dict[str, Callable[[], Any]]:
    """Return the calls of the publisher's contract as signatures."""

    def signature(name: str) -> Any:
        entry = make_entry(app, name, CALLS[name], prefix)
        return app.signature(
            entry.task, entry.args, dict(entry.kwargs), dict(entry.options)
        )

    return {name: lambda name=name: signature(name) for name in CALLS}  # type: ignore[misc]

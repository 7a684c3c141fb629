"""Answer ``celery inspect throttle``, and obey ``celery control throttle_…``."""

from __future__ import annotations

from typing import Any

from celery.worker.control import control_command, inspect_command

from throttle.errors import ThrottleError
from throttle.worker.install import ThrottleStep


@inspect_command()
def throttle(state: Any) -> dict[str, Any]:
    """Return databases as this worker sees them: share, held, admitted, by tenant."""
    info: dict[str, Any] = state.consumer.blueprint.info(state.consumer)
    return info.get("throttle") or {}


@control_command(
    args=[("database", str), ("operations", float), ("seconds", float), ("who", str)],
    signature="<database> <operations (0: the settings')> <seconds> <who>",
)
def throttle_limit(
    state: Any, database: str, operations: float, seconds: float = 0.0, who: str = ""
) -> dict[str, str]:
    """Set a database's limit for a while, in the whole fleet.

    Each worker that is asked writes the same to Redis: with `--destination` one does.
    """
    from throttle.limit_override import adjust  # noqa: PLC0415  # no other command needs it

    for step in state.consumer.blueprint.order:
        if isinstance(step, ThrottleStep) and step.obj is not None:
            runtime = step.obj.runtime
            limit = runtime.settings.limits.get(database)
            if limit is None:
                allowed = ", ".join(sorted(runtime.settings.limits))
                return {"error": f"{database!r} has no limit; known: {allowed}"}
            try:
                message = adjust(
                    runtime.store, limit, operations or None, seconds, who or "a user"
                )
            except ThrottleError as error:
                return {"error": str(error)}
            return {"ok": message}
    return {"error": "this worker has no throttle_limits"}

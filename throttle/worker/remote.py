"""What a worker answers to ``celery inspect throttle``."""

from __future__ import annotations

from typing import Any

from celery.worker.control import inspect_command


@inspect_command()
def throttle(state: Any) -> dict[str, Any]:
    """Databases as this worker sees them: share, held, admitted, by tenant."""
    told: dict[str, Any] = state.consumer.blueprint.info(state.consumer)
    return told.get("throttle") or {}

"""A job whose message a worker refused: it was revoked, or had expired."""

from __future__ import annotations

import logging
from typing import Any

from celery import signals

from celery_sharding import flow
from celery_sharding.canvas.task import ShardedTask
from celery_sharding.errors import PeckerError
from celery_sharding.ledger import at

logger = logging.getLogger(__name__)


def connect() -> None:
    """Cancel jobs whose message is refused, from now on."""
    signals.task_revoked.connect(
        _on_revoked, dispatch_uid="celery_sharding.revoked", weak=False
    )


def _on_revoked(
    *, sender: Any = None, request: Any = None, expired: bool = False, **_: object
) -> None:
    if not isinstance(sender, ShardedTask):
        return
    end = flow.expire if expired else flow.cancel
    try:
        end(sender.app, at(sender.app, role="caller"), request.id)
    except PeckerError as error:
        logger.warning("sharding: %s was revoked, not cancelled: %s", request.id, error)

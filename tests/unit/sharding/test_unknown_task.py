"""A job whose task this worker does not know."""

from __future__ import annotations

import pytest
from celery import Celery

from celery_sharding import ProcessorNotRegistered
from celery_sharding.canvas.each_item import signature_of


def test_a_job_of_an_unknown_task_says_which() -> None:
    """A worker of another deployment: it must not run nothing, item by item."""
    app = Celery("shop", set_as_current=False)
    given = {"task": "shop.absent", "args": (), "kwargs": {}, "options": {}}
    with pytest.raises(ProcessorNotRegistered, match=r"'shop\.absent'"):
        signature_of(app, given)

"""Run coroutines under the deadline in force."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from celery_pecker.deadline.budget import current
from celery_pecker.deadline.scopes import within

Answer = TypeVar("Answer")


def run(main: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine as asyncio.run does, under the deadline in force."""
    return asyncio.run(_bounded(main))


async def _bounded(main: Coroutine[Any, Any, Answer]) -> Answer:
    if current.get() is None:
        return await main
    async with within(None):
        return await main

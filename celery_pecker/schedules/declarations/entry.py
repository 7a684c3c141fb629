"""Celery's entry, which may carry policies of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery.beat import ScheduleEntry


class PeckerEntry(ScheduleEntry):
    """Celery's entry, which may carry policies of ours under ``pecker``."""

    def __init__(
        self, *args: Any, pecker: Mapping[str, object] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        options: dict[str, Any] = dict(self.options or {})
        policies = options.pop("pecker", None)
        self.options = options
        self.pecker: Mapping[str, object] | None = (
            pecker if policies is None else policies
        )

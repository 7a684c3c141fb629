"""What is made once for an app: its settings, and its calls on first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from celery_pecker.kernel.adapters.calls import Calls
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.settings import Settings


def real(proxy: Any) -> Any:
    """Return the app or task itself, where it is a proxy of one."""
    return getattr(proxy, "_get_current_object", lambda: proxy)()


class PerApp:
    """Belongs to a Celery app; asks nothing of any server until it is called."""

    role: ClassVar[str]
    """Part of the connections' `application_name`."""

    def __init__(self, app: Any) -> None:
        self.app: Any = real(app)

    @cached_property
    def settings(self) -> Settings:
        """What the app's configuration says, checked once."""
        conf: Mapping[str, Any] = self.app.conf
        settings = Settings.read(conf, main=self.app.main)
        Database.of(settings, role=self.role)  # refuses what is no DSN
        return settings

    def close(self) -> None:
        """Close the connections of ours that are idle."""
        if "_calls" in vars(self):
            self._calls.close()

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self.settings, role=self.role)

"""The settings of whoever asks."""

from __future__ import annotations

from typing import Any

from throttle.settings import Settings


def settings_of(where: Any) -> Settings:
    """Return the settings of an app, of its configuration, or as they are."""
    if isinstance(where, Settings):
        return where
    return Settings.read(getattr(where, "conf", where))

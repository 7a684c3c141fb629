"""Pages of ours in Flower: what a ``flowerconfig.py`` imports."""

from celery_pecker.surfaces.flower import Page, install, register

__all__ = ["Page", "install", "register"]

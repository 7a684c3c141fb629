"""What Django reads of an app in INSTALLED_APPS."""

from __future__ import annotations

from django.apps import AppConfig


class PeckerConfig(AppConfig):
    """The tables of celery-pecker."""

    name = "celery_pecker.django"
    label = "celery_pecker"
    verbose_name = "Celery Pecker"
    default_auto_field = "django.db.models.BigAutoField"

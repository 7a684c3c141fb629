"""What Django reads of an app in INSTALLED_APPS."""

from django.apps import AppConfig
from django.core.checks import register
from django.db.models.signals import pre_migrate


class PeckerConfig(AppConfig):
    """The tables of celery-pecker."""

    name = "celery_pecker.django"
    label = "celery_pecker"
    verbose_name = "Celery Pecker"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Note how the project began; check settings; have ``migrate`` make tables."""
        # Imports models, which may not be loaded before.
        from celery_pecker.django import migrating, project  # noqa: PLC0415

        project.begin()
        register(migrating.check_settings)
        pre_migrate.connect(migrating.before, sender=self)

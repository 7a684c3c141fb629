"""Where the tables are, as Django's settings say."""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

DATABASE, OUTBOXES, SCHEMA, NAMESPACED = (
    "PECKER_ADMIN_DATABASE",
    "PECKER_ADMIN_OUTBOXES",
    "PECKER_ADMIN_SCHEMA",
    "CELERY_PECKER_SCHEMA",
)


def alias() -> str:
    """Return the alias of the database with the tables."""
    name = getattr(settings, DATABASE, "default")
    if name not in settings.DATABASES:
        allowed = ", ".join(sorted(settings.DATABASES))
        message = f"{DATABASE} is {name!r}; allowed are those of DATABASES: {allowed}"
        raise ImproperlyConfigured(message)
    return str(name)


def outboxes() -> dict[str, str]:
    """Return the alias of each outbox by its name, the first of them first.

    Raises:
        ImproperlyConfigured: an alias is none of DATABASES, or there is no outbox.
    """
    aliases = getattr(settings, OUTBOXES, None)
    if aliases is None:
        return {"default": alias()}
    if not isinstance(aliases, dict) or not aliases:
        message = (
            f"{OUTBOXES} is {aliases!r}; allowed is a dict of the names of outboxes and"
            ' their aliases of DATABASES, as {"default": "default", "eu": "eu"}'
        )
        raise ImproperlyConfigured(message)
    for name, place in aliases.items():
        if place not in settings.DATABASES:
            allowed = ", ".join(sorted(settings.DATABASES))
            message = (
                f"{OUTBOXES} has {name!r}: {place!r}; allowed are aliases of"
                f" DATABASES: {allowed}"
            )
            raise ImproperlyConfigured(message)
    return {str(name): str(place) for name, place in aliases.items()}


def schema() -> str:
    """Return their schema."""
    default = getattr(settings, NAMESPACED, None) or "public"
    return str(getattr(settings, SCHEMA, None) or default)


def table(name: str) -> str:
    """Return a table's name with its schema, quoted: Django leaves it as it is."""
    parts = (part.replace('"', '""') for part in (schema(), name))
    return ".".join(f'"{part}"' for part in parts)

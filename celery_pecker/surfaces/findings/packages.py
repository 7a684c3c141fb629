"""What is installed beside us."""

import os
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement

from celery_pecker.surfaces.findings.model import Finding, ok, warn
from celery_pecker.surfaces.findings.project import Project

US = "celery-pecker"


def examine(_project: Project) -> Iterator[Finding]:
    """Yield what is installed against our bounds, and which driver Django takes."""
    for needed in map(Requirement, metadata.requires(US) or ()):
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        installed = _version(needed.name)
        if installed is None or not needed.specifier.contains(
            installed, prereleases=True
        ):
            yield warn(
                f"package {needed.name}",
                f"{installed or 'not installed'}; {US} is made for {needed.specifier}",
                f"pip install '{needed.name}{needed.specifier}'",
            )
    # As Celery itself knows a project of Django's
    if os.environ.get("DJANGO_SETTINGS_MODULE") and _version("django") is not None:
        yield driver(_version("psycopg2") or _version("psycopg2-binary"))


def driver(older: str | None) -> Finding:
    """Judge which driver of PostgreSQL Django runs on. Pure."""
    text = "Django runs on psycopg 3, which celery-pecker brings"
    if older is None:
        return ok("driver of Django", text)
    return warn(
        "driver of Django",
        f"{text}, and not on psycopg2 {older}, which is installed too",
        "test the project on psycopg 3; it goes back to psycopg2 once psycopg is"
        " uninstalled, not before",
    )


def _version(name: str) -> str | None:
    installed = next(iter(metadata.distributions(name=name)), None)
    return None if installed is None else installed.version

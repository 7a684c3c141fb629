"""Instants, JSON and crontab fields, as other schedulers store them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, tzinfo
from typing import Any

from celery_pecker.surfaces.cli.other_schedulers.model import NotImportable


def instant(field: str, value: object, zone: tzinfo) -> datetime | None:
    """Return an instant in UTC; one that is stored without a zone is of this one.

    PostgreSQL gives a datetime; SQLite has the text that Django or SQLAlchemy wrote.
    """
    if value is None or value == "":
        return None
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
    if not isinstance(moment, datetime):
        message = f"{field} is {value!r}; allowed is an instant"
        raise NotImportable(message)
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


def decoded(field: str, text: object, empty: Any) -> Any:
    """Return the value of a column that holds JSON as text; an empty one: `empty`."""
    if text is None or text == "":
        return empty
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        message = f"{field} is {text!r}; allowed is JSON ({error})"
        raise NotImportable(message) from error


def crontab(*fields: Any) -> str:
    """Return five fields of Celery's crontab as one text.

    Minute, hour, day of the month, month, day of the week; each a text, a number or a
    list of numbers.
    """
    return " ".join(_field(one) for one in fields)


def _field(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(str(one) for one in value) or "*"
    # Admin forms let spaces through: "1, 15" is one field.
    return "".join(str("*" if value is None else value).split()) or "*"


def iso(moment: datetime | None) -> str | None:
    """Return an instant as text with its offset."""
    return None if moment is None else moment.isoformat()

"""Instants, in one form for programs and one for people."""

from datetime import UTC, datetime, tzinfo


def for_programs(instant: datetime) -> str:
    """Return an instant as ISO 8601: UTC, to the microsecond, with Z."""
    plain = instant.astimezone(UTC).replace(tzinfo=None)
    return f"{plain.isoformat(timespec='microseconds')}Z"


def for_people(
    instant: datetime, zone: tzinfo, *, timespec: str = "milliseconds"
) -> str:
    """Return an instant in a zone, which is named: 2026-01-01 13:00:00.000 CET."""
    local = instant.astimezone(zone)
    plain = local.replace(tzinfo=None).isoformat(sep=" ", timespec=timespec)
    return f"{plain} {local:%Z}"

"""Rows of `airportsdata` as items: each has a key, and the key of what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

import airportsdata

LAYERS = ("countries", "subdivisions", "cities", "airports")


class Record(TypedDict):
    """One row to be imported."""

    kind: str
    """The statement that imports it."""
    key: str
    after: str | None
    """The key of the row that must be there before."""
    row: dict[str, Any]


def records() -> Iterator[Record]:
    """Give the airports, and once each the cities, subdivisions and countries of them.

    In the order of the file: which of them come first is for the job to find out.
    """
    seen: set[str] = set()
    for airport in airportsdata.load().values():
        country = airport["country"]
        parents: list[Record] = [
            Record(
                kind="import_country",
                key=country,
                after=None,
                row={"code": country},
            )
        ]
        subdivision, city = airport["subd"] or None, airport["city"] or None
        if subdivision:
            parents.append(
                Record(
                    kind="import_subdivision",
                    key=f"{country}/{subdivision}",
                    after=country,
                    row={"country": country, "name": subdivision},
                )
            )
        if subdivision and city:
            parents.append(
                Record(
                    kind="import_city",
                    key=f"{country}/{subdivision}/{city}",
                    after=f"{country}/{subdivision}",
                    row={"country": country, "subdivision": subdivision, "name": city},
                )
            )
        yield _airport(airport, parents[-1]["key"])
        for parent in parents:
            if parent["key"] not in seen:
                seen.add(parent["key"])
                yield parent


def _airport(airport: Any, after: str) -> Record:
    subdivision = airport["subd"] or None
    return Record(
        kind="import_airport",
        key=f"airport {airport['icao']}",
        after=after,
        row={
            "icao": airport["icao"],
            "iata": airport["iata"] or None,
            "name": airport["name"],
            "country": airport["country"],
            "subdivision": subdivision,
            "city": (airport["city"] or None) if subdivision else None,
            "elevation": airport["elevation"],
            "latitude": airport["lat"],
            "longitude": airport["lon"],
            "timezone": airport["tz"],
        },
    )

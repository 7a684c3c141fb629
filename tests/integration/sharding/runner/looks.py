"""What the ledger has, asked in the tests' own words."""

from __future__ import annotations

from typing import Any

from celery_sharding import codec
from celery_sharding.ledger import Ledger


def rows(ledger: Ledger, query: str, *given: object) -> list[tuple[Any, ...]]:
    """Return what the database has."""
    connection = ledger.database._connected()
    return connection.execute(query.encode(), given).fetchall()


def shards(ledger: Ledger, job: int) -> list[tuple[int, int, int, int]]:
    """Return status, cursor, done and failed of each shard."""
    return rows(
        ledger,
        "select status, cursor, done, failed from pecker_shards where job = %s"
        " order by shard",
        job,
    )


def results(ledger: Ledger, job: int) -> list[Any]:
    """Return what `ok` was given, in the order in which it is stored."""
    found = rows(
        ledger,
        "select body from pecker_results where job = %s and at >= 0 order by shard, at",
        job,
    )
    return [value for (body,) in found for value in codec.decode(bytes(body))]


def seq(ledger: Ledger, job: int, ticket: int = 1) -> int:
    """Return the number under which a ticket is to be had now."""
    ((number,),) = rows(
        ledger,
        "select seq from pecker_tickets where job = %s and ticket = %s",
        job,
        ticket,
    )
    return int(number)

"""Rows of a PostgreSQL query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, ClassVar

from celery_sharding.errors import DuplicateKey, Misconfigured, ShardingError
from celery_sharding.sources.database import opened
from celery_sharding.sources.model import Source
from celery_sharding.sources.sizes import Sizes

COUNT = "select count(*), count({key}) from (\n{query}\n) as q"
EDGES = """
    select n, k::text, again
    from (
        select
            {key} as k,
            row_number() over (order by {key}) as n,
            lag({key}) over (order by {key}) = {key} as again
        from (
{query}
) as q
    ) as numbered
    where n = any(%(pecker_edges)s) or again
    order by again desc nulls last, n
    limit %(pecker_most)s
"""
"""The keys with which parts begin and end; a key that comes twice before all others."""
PART = """
    select q.* from (
{query}
) as q
    where {key} between %(pecker_first)s and %(pecker_last)s
    order by {key}
"""


class Query(Source):
    """Rows of a query, as dicts; of a query with one column, its values.

    Parts are runs of its key, so a part is read by the index on it, and no row is in
    two. The query must give the same rows while the job runs: it may not ask for what
    the job changes (``where not done``), or after a death the rows that are done would
    be missing, and others be taken for them. That is seen, and the shard fails.
    """

    kind: ClassVar[str] = "query"

    def __init__(
        self,
        statement: str,
        params: Mapping[str, Any] | None = None,
        *,
        key: str,
        dsn: str = "pecker_dsn",
        timeout: float = 60.0,
    ) -> None:
        """Describe the query; nothing is asked yet.

        Args:
            statement: a select without a semicolon; ``%(name)s`` for parameters.
            params: of the statement, as JSON; None: it has none, and ``%`` is itself.
            key: the column by which rows are told apart: unique, never null.
            dsn: name of the app's setting that says where the database is.
            timeout: seconds that each statement may take.
        """
        for name, value in (("statement", statement), ("key", key), ("dsn", dsn)):
            if not value.strip():
                message = f"Query: {name} must be a text, not {value!r}"
                raise Misconfigured(message)
        if timeout <= 0:
            message = f"Query: timeout must be above 0 seconds, not {timeout!r}"
            raise Misconfigured(message)
        self.statement = statement
        self.params = None if params is None else dict(params)
        self.key = key
        self.dsn = dsn
        self.timeout = timeout

    def __repr__(self) -> str:
        """Return how it was made, without parameters: they may be secrets."""
        return f"Query({self.statement!r}, key={self.key!r}, dsn={self.dsn!r})"

    def as_json(self) -> dict[str, Any]:
        """Return what it was made of."""
        return {
            "statement": self.statement,
            "params": self.params,
            "key": self.key,
            "dsn": self.dsn,
            "timeout": self.timeout,
        }

    def parts(
        self, sizes: Sizes, conf: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], int | None]]:
        """Give the first and the last key of each part, as texts.

        In one snapshot: what is counted is what is cut. Raise DuplicateKey if two rows
        have the same key.
        """
        with opened(conf, self.dsn, timeout=self.timeout) as ask:
            ((rows, keys),) = ask(self._wrapped(COUNT), self._params())
            if rows != keys:
                message = f"{self!r}: {rows - keys} of {rows} rows have no key"
                raise Misconfigured(message)
            counts = sizes.of(rows)
            ends = [*accumulate(counts)]
            starts = [end - count + 1 for end, count in zip(ends, counts, strict=True)]
            edges = sorted({*starts, *ends})
            found = ask(
                self._wrapped(EDGES),
                self._params(pecker_edges=edges, pecker_most=len(edges) + 1),
            )
        if found and found[0][2]:
            message = f"{self!r}: more than one row has the key {found[0][1]!r}"
            raise DuplicateKey(message)
        at = {number: key for number, key, _ in found}
        for start, end, count in zip(starts, ends, counts, strict=True):
            yield {"first": at[start], "last": at[end], "count": count}, count

    def read(self, part: Mapping[str, Any], conf: Mapping[str, Any]) -> Iterator[Any]:
        """Give the rows of a part; the connection is closed before the first."""
        first, last = part["first"], part["last"]
        with opened(conf, self.dsn, timeout=self.timeout, named=True) as ask:
            rows = ask(
                self._wrapped(PART),
                self._params(pecker_first=first, pecker_last=last),
            )
        if len(rows) != part["count"]:
            message = (
                f"{self!r} has {len(rows)} rows from {first!r} to {last!r}, and had"
                f" {part['count']} when the job was planned: it must not ask for what"
                f" the job, or anybody else, changes meanwhile"
            )
            raise ShardingError(message)
        for row in rows:
            yield next(iter(row.values())) if len(row) == 1 else row

    def _wrapped(self, outer: str) -> str:
        query = self.statement
        if self.params is None:
            query = query.replace("%", "%%")
        quoted = self.key.replace('"', '""').replace("%", "%%")
        return outer.format(key=f'q."{quoted}"', query=query)

    def _params(self, **ours: Any) -> dict[str, Any]:
        return {**(self.params or {}), **ours}

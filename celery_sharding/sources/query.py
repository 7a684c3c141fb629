"""Rows of a PostgreSQL query."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, asdict, dataclass
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, ClassVar

import psycopg
from psycopg import IsolationLevel, conninfo
from psycopg.rows import dict_row, tuple_row

from celery_pecker.kernel.hosts import BoundedConnection
from celery_sharding.errors import (
    DatabaseUnavailable,
    DuplicateKey,
    Misconfigured,
    ShardingError,
)
from celery_sharding.sources.model import KEYS, Sizes, Source, Unreadable

Ask = Callable[[str, Mapping[str, Any]], Sequence[Any]]


@contextmanager
def opened(
    conf: Mapping[str, Any], setting: str, *, timeout: float, named: bool = False
) -> Iterator[Ask]:
    """Yield a function that queries the database a setting names, read-only.

    Args:
        conf: the app's configuration.
        setting: the setting's name, for errors too: its value may be a secret.
        timeout: seconds that connecting and each question may take.
        named: whether rows are dicts by column; otherwise tuples.

    Raises:
        Misconfigured: there is no such setting, or the server refused a statement.
        DatabaseUnavailable: no answer; another time there may be one.
    """
    try:
        connection = _connected(conf, setting, timeout)
        with connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.budget = timeout

            def ask(statement: str, params: Mapping[str, Any]) -> Sequence[Any]:
                factory: Any = dict_row if named else tuple_row
                with connection.cursor(row_factory=factory) as cursor:
                    return cursor.execute(
                        f"{statement}{LIMIT}", {**params, "pecker_limit": None}
                    ).fetchall()

            yield ask
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise DatabaseUnavailable(
            f"the database of {setting} gave no answer: {_text_of(error)}"
        ) from error
    except psycopg.Error as error:
        raise Misconfigured(
            f"the database of {setting} refused the query: {_text_of(error)}"
        ) from error


def _connected(
    conf: Mapping[str, Any], setting: str, timeout: float
) -> BoundedConnection:
    dsn = conf.get(setting)
    if not isinstance(dsn, str) or not dsn:
        raise Misconfigured(
            f"Query: the app has no setting {setting} that says where rows are"
        )
    try:
        parameters = conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        # libpq's own words quote what it could not read, and that may be a secret.
        raise Misconfigured(
            f"Query: the setting {setting} is no PostgreSQL connection string"
        ) from None
    parameters.setdefault("application_name", "celery_sharding:query")
    return BoundedConnection.within(conninfo.make_conninfo("", **parameters), timeout)


def _text_of(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__


LIMIT = "\nlimit %(pecker_limit)s"
"""Without a parameter psycopg would send it by the simple protocol, by which a query
can end the statement that it is a part of, and the read-only transaction with it."""
COUNT = "select count(*), count({key}) from (\n{query}\n) as q"
PARTS = """
    select keys[1]::text, keys[count]::text, keys::text, count, twice
    from (
        select array_agg(k order by n) as keys, count(*)::integer as count,
            min(k::text) filter (where again) as twice,
            width_bucket(n, %(pecker_starts)s::bigint[]) as nth
        from (
            select
                {key} as k,
                row_number() over (order by {key}) as n,
                lag({key}) over (order by {key}) = {key} as again
            from (
{query}
) as q
        ) as numbered
        group by nth
    ) as part
    order by nth
"""
"""The first, the last and all keys of each part, and one of them that comes twice."""
LISTED = """
    select listed.k::text as pecker_key, q.*
    from unnest((
        select case when false then array_agg({key}) else %(pecker_keys)s end
        from (
{query}
) as q
        where false
    )) with ordinality as listed (k, n)
    left join (
        select q.* from (
{query}
) as q
        where {key} between %(pecker_first)s and %(pecker_last)s
    ) as q on {key} = listed.k
    order by listed.n
"""
"""The rows of a part by its keys; nulls where there is none of that key any more. The
array that never is shows the server the type of the keys."""
PART = """
    select q.* from (
{query}
) as q
    where {key} between %(pecker_first)s and %(pecker_last)s
    order by {key}
"""
GONE = "{source} has no row of the key {key!r} any more: it had when it was planned"
TWICE = "{source} has several rows of the key {key!r}: it had one when it was planned"


@dataclass(eq=False, repr=False)
class Query(Source):
    """Rows of a query, as dicts; of a query with one column, its values.

    Parts are runs of its key, so a part is read by the index on it, and no row is in
    two. Its items are the rows of the moment at which the job is planned: their keys
    are stored. A row of which there is none any more when it is read fails, and no
    other; rows that come later are left out.
    """

    kind: ClassVar[str] = "query"

    statement: str
    """A select without a semicolon; ``%(name)s`` for parameters."""
    params: Mapping[str, Any] | None = None
    """Of the statement, as JSON; None: it has none, and ``%`` is itself."""
    _: KW_ONLY
    key: str
    """The column that identifies a row: unique, never null."""
    dsn: str = "pecker_dsn"
    """The name of the app's setting that says where the database is."""
    timeout: float = 60.0
    """Seconds that each statement may take."""

    def __post_init__(self) -> None:
        """Check it; send nothing yet."""
        for name in ("statement", "key", "dsn"):
            value: str = getattr(self, name)
            if not value.strip():
                raise Misconfigured(f"Query: {name} must be a text, not {value!r}")
        if self.timeout <= 0:
            raise Misconfigured(
                f"Query: timeout must be above 0 seconds, not {self.timeout!r}"
            )
        self.params = self.params and dict(self.params)

    def __repr__(self) -> str:
        """Return how it was made, without parameters: they may be secrets."""
        return f"Query({self.statement!r}, key={self.key!r}, dsn={self.dsn!r})"

    def as_json(self) -> dict[str, Any]:
        """Return what it was made of."""
        return asdict(self)

    def parts(
        self, sizes: Sizes, conf: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], int | None]]:
        """Yield the first and the last key of each part, as texts.

        In one snapshot: what is counted is what is cut. Raise DuplicateKey if two rows
        have the same key.
        """
        with opened(conf, self.dsn, timeout=self.timeout) as ask:
            ((rows, keys),) = ask(self._wrapped(COUNT), self._params())
            if rows != keys:
                raise Misconfigured(
                    f"{self!r}: {rows - keys} of {rows} rows have no key"
                )
            counts = sizes.of(rows)
            starts = [*accumulate([1, *counts])][:-1]
            parts = ask(self._wrapped(PARTS), self._params(pecker_starts=starts))
        for *_, twice in parts:
            if twice is not None:
                raise DuplicateKey(f"{self!r}: more than one row has the key {twice!r}")
        for first, last, keys, count, _ in parts:
            part = {"first": first, "last": last, "count": count, KEYS: keys}
            yield part, count

    def read(self, part: Mapping[str, Any], conf: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the rows of a part; the connection is closed before the first."""
        first, last, keys = part["first"], part["last"], part.get(KEYS)
        with opened(conf, self.dsn, timeout=self.timeout, named=True) as ask:
            params = self._params(pecker_first=first, pecker_last=last)
            if keys is not None:
                params["pecker_keys"] = keys
            rows = ask(self._wrapped(PART if keys is None else LISTED), params)
        if keys is not None:
            for key, same in groupby(rows, itemgetter("pecker_key")):
                yield self._listed(key, *same)
            return
        # Planned by an older version, which stored no keys.
        if len(rows) != part["count"]:
            raise ShardingError(
                f"{self!r} has {len(rows)} rows from {first!r} to {last!r}, and had"
                f" {part['count']} when the job was planned: it must not ask for what"
                f" the job, or another client, changes meanwhile"
            )
        yield from map(_item, rows)

    def _listed(self, key: str, row: dict[str, Any], *others: Any) -> Any:
        """Return the row of a key, or that there is none, or more than one, by now."""
        del row["pecker_key"]
        if others:
            return Unreadable(key, TWICE.format(source=self, key=key))
        if row[self.key] is None:
            return Unreadable(key, GONE.format(source=self, key=key))
        return _item(row)

    def _wrapped(self, outer: str) -> str:
        query = self.statement
        if self.params is None:
            query = query.replace("%", "%%")
        quoted = self.key.replace('"', '""').replace("%", "%%")
        return outer.format(key=f'q."{quoted}"', query=query)

    def _params(self, **ours: Any) -> dict[str, Any]:
        return {**(self.params or {}), **ours}


def _item(row: dict[str, Any]) -> Any:
    return next(iter(row.values())) if len(row) == 1 else row

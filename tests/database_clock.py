"""The database's clock, stepped under real processes, for one DSN only.

The house's SQL calls ``clock_timestamp()`` without a schema (law 1), so a function of
that name in a schema ahead of ``pg_catalog`` on the search path takes its place.
Nobody else on the server notices.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker.kernel.clock import new_id

if TYPE_CHECKING:
    pass

_CREATE = """
create schema {schema};
create table {schema}.shift (ahead interval not null);
insert into {schema}.shift values ('0');
create function {schema}.clock_timestamp() returns timestamptz
    language sql volatile as
    'select pg_catalog.clock_timestamp() + ahead from {schema}.shift';
grant usage on schema {schema} to public;
grant select on {schema}.shift to public
"""


class DatabaseClock:
    """A DSN whose `clock_timestamp()` is as far ahead of the server's as one says."""

    def __init__(self, dsn: str, *, schema: str = "public") -> None:
        self._server = dsn
        self._name = f"pecker_clock_{new_id().hex[:8]}"
        self._execute(_CREATE)
        self.dsn = self._shadowed(dsn, schema)

    def step(self, ahead: timedelta) -> None:
        """Set the clock `ahead` of the server's from the next statement on."""
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(
                sql.SQL("update {}.shift set ahead = %s").format(
                    sql.Identifier(self._name)
                ),
                (ahead,),
            )

    def close(self) -> None:
        """Remove the shadow: connections of `dsn` have the server's clock again."""
        self._execute("drop schema {schema} cascade")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _execute(self, statements: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(
                statements.replace("{schema}", self._name).encode(),
            )

    def _shadowed(self, dsn: str, schema: str) -> str:
        path = f"{self._name},pg_catalog,{schema}"
        option = f"-csearch_path={path}"
        if "://" in dsn:  # keep a URL a URL: it is what people configure
            joint = "&" if "?" in dsn else "?"
            return f"{dsn}{joint}options={quote(option)}"
        params = conninfo_to_dict(dsn)
        options = f"{params.pop('options', '')} {option}".strip()
        return make_conninfo(**{k: str(v) for k, v in params.items()}, options=options)

"""A test-only trigger that writes down every claim as PostgreSQL commits it.

The log of a killed process cannot say what it had claimed; the database can. One
insert per claiming statement, in its transaction: there if and only if the claim is.
"""

from __future__ import annotations

import psycopg

from tests.chaos.verdict import Claim

_INSTALL = """
create table {schema}.chaos_claims (
    name text, executed_at timestamptz, epoch bigint, era int, holder uuid,
    at timestamptz, txid xid8
);
create function {schema}.chaos_audit() returns trigger language plpgsql as $$
begin
    insert into {schema}.chaos_claims
    select now.name, now.executed_at, now.epoch, now.era, now.holder,
           pg_catalog.clock_timestamp(), pg_current_xact_id()
    from after as now join before as was using (name)
    where now.epoch <> was.epoch;
    return null;
end $$;
create trigger chaos_audit after update on {schema}.pecker_tasks
    referencing old table as before new table as after
    for each statement execute function {schema}.chaos_audit()
"""

_READ = """
select claim.name, (extract(epoch from claim.executed_at) * 1000000)::bigint,
       claim.era, claim.epoch, replica.pid,
       extract(epoch from claim.at)::float8
from {schema}.chaos_claims as claim
left join {schema}.pecker_replicas as replica using (holder)
order by claim.at
"""


class Audit:
    """Every claim on the tables of one schema, from now on."""

    def __init__(self, dsn: str, *, schema: str = "public") -> None:
        self._dsn = dsn
        self._schema = schema
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(_INSTALL.replace("{schema}", schema).encode())

    def claims(self) -> list[Claim]:
        """Return every slot that was claimed, in the order of the claims."""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            rows = connection.execute(
                _READ.replace("{schema}", self._schema).encode()
            ).fetchall()
        return [
            Claim(name=name, due_us=due, era=era, epoch=epoch, pid=pid, at=at)
            for name, due, era, epoch, pid, at in rows
        ]

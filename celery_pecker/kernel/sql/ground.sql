/* part:clock */
-- What time it is, read once for a statement (I1).
clock as materialized (
    select coalesce(%(now)s::timestamptz, clock_timestamp()) as now
)

/* part:us */
-- An instant, or a duration, as whole microseconds.
(extract(epoch from $1) * 1000000)::bigint

/* part:set_ms */
-- A timeout of the session in milliseconds; null: none.
nullif((extract(epoch from current_setting($1)::interval) * 1000)::bigint, 0)

/* part:vacuumed */
-- Of a table, in a migration: it is cleaned up after so many rows have changed, however large
-- it is, and at full speed. Released steps have this, so it stays as it is.
autovacuum_vacuum_scale_factor = 0.0,
autovacuum_vacuum_threshold = $1,
autovacuum_vacuum_cost_delay = 0

/* celery_pecker:read_server */
-- What the replica stands on, asked once per connection.
select current_setting('server_version_num')::integer as server,
       current_setting('transaction_isolation') as isolation,
       pg_is_in_recovery() as standby,
       to_regclass(%(migrations)s) is not null as migrated

/* celery_pecker:read_schema */
select version, readable_from, name
from {schema}.pecker_migrations
order by version desc
limit 1

/* celery_pecker:own_schema */
-- One schema belongs to one app (the first that came); the answer is the owner.
insert into {schema}.pecker_owner as owner (app) values (%(app)s)
on conflict (singleton) do update set app = owner.app
returning owner.app

/* celery_pecker:record_migration */
insert into {schema}.pecker_migrations (version, name, readable_from)
values (%(version)s, %(name)s, %(readable_from)s)

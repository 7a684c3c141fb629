/* celery_pecker:examine_server */
-- What the server is and what time it has; the process that answers tells two connections
-- that share one (a pooler in transaction mode) from two that do not.
with {clock}
select {us(clock.now)} as now,
       pg_backend_pid() as process,
       current_setting('server_version') as version,
       current_setting('server_version_num')::integer as number,
       current_setting('transaction_isolation') as isolation,
       pg_is_in_recovery() as standby,
       current_setting('autovacuum') = 'on' and current_setting('track_counts') = 'on'
           as vacuums
from clock

/* celery_pecker:examine_snapshots */
-- What keeps row versions from being cleaned up, the oldest first: sessions, transactions
-- prepared and forgotten, replication slots. Without the role pg_read_all_stats, sessions
-- of other roles have no times.
with {clock}
select held.what, held.who, held.versions, {us(held.since)} as since, held.key
from clock,
    lateral (
        select 'session ' || session.pid as what,
               concat_ws(', ', session.usename, nullif(session.application_name, ''),
                         session.state) as who,
               greatest(age(session.backend_xmin), age(session.backend_xid)) as versions,
               clock.now - session.xact_start as since,
               session.pid || '.' || {us(session.backend_start)} as key
        from pg_stat_activity as session
        where session.pid <> pg_backend_pid()
            and session.datname = current_database()
            and (session.backend_xmin is not null or session.backend_xid is not null
                 or session.state like 'idle in transaction%%')
            and session.backend_type <> 'autovacuum worker'
        union all
        select 'prepared transaction ' || prepared.gid, prepared.owner,
               age(prepared.transaction), clock.now - prepared.prepared, ''
        from pg_prepared_xacts as prepared
        where prepared.database = current_database()
        union all
        select 'replication slot ' || slot.slot_name,
               case when slot.active then 'active' else 'inactive' end,
               greatest(age(slot.xmin), age(slot.catalog_xmin)), null, ''
        from pg_replication_slots as slot
        where slot.xmin is not null
    ) as held
order by held.since desc nulls last, held.versions desc nulls last
limit 20

/* celery_pecker:examine_locks */
-- Transactions that have held locks of a table, or of rows of it, for more than a moment:
-- claims pass over such rows; and whatever one of our processes waits for. Who has no right
-- to see other sessions sees no query. Of a table that transactions of users write to, too,
-- modes that keep nobody from a row are `harmless`; who holds the row that is asked about is
-- known by its `locker`.
with {clock},
blocking as materialized (
    select unnest(pg_blocking_pids(waiting.pid)) as pid
    from pg_stat_activity as waiting
    where waiting.wait_event_type = 'Lock'
        and waiting.application_name ~ '^(celery_pecker|celery_sharding):'
)
select session.pid, coalesce(session.usename, '') as "user",
       coalesce(session.application_name, '') as application,
       coalesce(session.state, '') as state,
       coalesce(left(regexp_replace(session.query, '\s+', ' ', 'g'), 200), '') as query,
       {us(session.xact_start)} as since_us,
       extract(epoch from clock.now - session.xact_start)::float8 as age,
       session.pid || '.' || {us(session.backend_start)} as key
from clock, pg_stat_activity as session
where session.pid <> pg_backend_pid()
    and clock.now - session.xact_start > interval '2 seconds'
    and (
        session.pid in (select blocking.pid from blocking)
        or exists (
            select from pg_locks as held
            where held.pid = session.pid and held.granted
                and (
                    held.transactionid::text = %(locker)s::text
                    or (held.relation = to_regclass(%(tasks)s)
                        and held.mode <> all (%(harmless)s::text[]))
                )
        )
    )
order by session.xact_start
limit 5

/* celery_pecker:examine_ahead */
-- How far fencing tokens lie ahead of the clock: each is at least the clock of its claim.
with {clock}
select greatest(coalesce(max(task.epoch), 0) - max({us(clock.now)}), 0)
from clock left join {schema}.pecker_tasks as task on true

/* celery_pecker:end_session */
-- Ends a session that was seen: not a younger one under its number.
select pg_terminate_backend(session.pid)
from pg_stat_activity as session
where session.pid || '.' || {us(session.backend_start)} = %(key)s

/* celery_pecker:examine_tables */
-- How the tables are doing that each slot writes to.
select class.relname as name,
       coalesce(stat.n_live_tup, 0) as live,
       coalesce(stat.n_dead_tup, 0) as dead,
       coalesce(stat.n_tup_upd, 0) as updated,
       coalesce(stat.n_tup_hot_upd, 0) as hot,
       coalesce(array_to_string(class.reloptions, ' '), '') as options,
       (select count(*) from pg_index where pg_index.indrelid = class.oid) as indexes
from pg_class as class
left join pg_stat_user_tables as stat on stat.relid = class.oid
where class.oid = any (array[
    to_regclass(%(tasks)s), to_regclass(%(fences)s)
])
order by class.relname desc

/* celery_pecker:examine_rights */
-- Which of the rights that a scheduler needs the role of this connection lacks.
select current_user::text as role, needed.name, needed.privilege
from unnest(%(tables)s::text[], %(privileges)s::text[]) as needed (name, privilege)
join pg_class as class on class.relname = needed.name
join pg_namespace as space
    on space.oid = class.relnamespace and space.nspname = %(schema)s
where not has_table_privilege(class.oid, needed.privilege)
order by needed.name, needed.privilege

/* celery_pecker:examine_owner */
-- Whose schema it is; no row before the first scheduler.
select owner.app
from {schema}.pecker_owner as owner

/* part:stored_columns */
-- Of a stored schedule and of its hot row: what a replica follows.
stored.name, stored.version, stored.edit::text::bigint as edit,
stored.removed_at is not null
    or stored.once and task.executed_at >= stored.once_at and not exists (
        select from {schema}.pecker_pending as pending
        where pending.name = stored.name
    ) as over,
stored.run = 'local' as local,
stored.run, stored.task, stored.schedule::text as schedule,
stored.policies::text as policies,
case when isfinite(stored.starts_at)
     then {us(stored.starts_at)} end as starts,
case when isfinite(stored.ends_at)
     then {us(stored.ends_at)} end as ends,
stored.once,
case when isfinite(stored.once_at)
     then {us(stored.once_at)} end as once_at,
{us(task.executed_at)} as executed, task.epoch, task.era, task.holder, task.paused,
task.version as task_version

/* part:stored_rows */
-- Those schedules with their hot rows; one row without, where there are none.
from clock
left join stored on true
left join lateral (
    select row.*
    from {schema}.pecker_tasks as row
    where row.name = stored.name
    limit 1
) as task on true

/* celery_pecker:read_edits */
-- Stored schedules whose last edit a snapshot of before did not show, with the rows of
-- their entries; at most 1,000, in the order of their transactions. Each replica asks twice
-- a second, so it walks an index, and its work grows with the edits, not with the rows.
--
-- Transactions commit in another order than they begin in: one with a lower number may
-- commit after one with a higher. A snapshot knows which had not, so none is missed.
-- A row that is restored from another server may name a transaction that is to come
-- there: it is no edit until then (`edit < xmax`), or each look would find it.
--
-- (edit, name) is the snapshot's xmin at first, then where the last page ended. With a
-- second lower bound for xmin the walk began at the first row of all (12 ms, not 0.1).
with {clock},
stored as materialized (
    select edited.*
    from {schema}.pecker_schedules as edited
    where (edited.edit, edited.name) > (%(edit)s::xid8, %(name)s::text)
        and edited.edit < pg_snapshot_xmax(pg_current_snapshot())
        and not pg_visible_in_snapshot(edited.edit, %(since)s::pg_snapshot)
    order by edited.edit, edited.name
    limit 1000
)
select {us(clock.now)} as now,
       pg_current_snapshot()::text as snapshot,
       pg_snapshot_xmax(pg_current_snapshot())
           < pg_snapshot_xmax(%(since)s::pg_snapshot) as went_back,
       null::text as last, false as elsewhere,
       {stored_columns}
{stored_rows}
order by stored.edit, stored.name

/* celery_pecker:load_schedules */
-- Stored schedules in the order of their names, 1,000 at a time, with the rows of their
-- entries: what a replica begins with, and what it compares with after it was away.
-- Only those of its kind: entries that run in workers, or those that are published
-- (`elsewhere`: there are some of the other kind). That
-- is asked of a page when it is cut: in front of the limit it made the planner, before the
-- first ANALYZE, expect few rows and sort the whole table for each page (33 ms, not 1).
with {clock},
page as materialized (
    select kept.*
    from {schema}.pecker_schedules as kept
    where kept.name > %(name)s::text
    order by kept.name
    limit 1000
),
stored as materialized (
    select *
    from page
    where removed_at is null and (run = 'local') = %(local)s
)
select {us(clock.now)} as now,
       pg_current_snapshot()::text as snapshot,
       false as went_back,
       (select max(name) from page having count(*) = 1000) as last,
       exists (
           select from page
           where removed_at is null and (run = 'local') <> %(local)s
       ) as elsewhere,
       {stored_columns}
{stored_rows}
order by stored.name

/* celery_pecker:read_schedules */
-- Stored schedules by name, with what their messages are made of.
with {clock},
stored as materialized (
    select kept.*
    from unnest(%(names)s::text[]) as wanted (name),
        lateral (
            select row.*
            from {schema}.pecker_schedules as row
            where row.name = wanted.name
            limit 1
        ) as kept
)
select {us(clock.now)} as now,
       pg_current_snapshot()::text as snapshot,
       false as went_back, null::text as last, false as elsewhere,
       {stored_columns},
       stored.args, stored.kwargs, stored.options
{stored_rows}

/* celery_pecker:take_over */
-- Code declares these entries: claims under the version of a stored schedule win nothing
-- from here on, and those of code do. A row that is being edited is passed over, never
-- waited for: the next look finds it.
with {clock},
held as materialized (
    select task.name
    from {schema}.pecker_tasks as task
    where task.name = any (%(names)s::text[]) and task.version is not null
    order by task.name
    for update skip locked
),
declared as (
    update {schema}.pecker_declarations as kept
    set stored = false,
        declared_until = clock.now + %(term)s * interval '1 second'
    from clock, held
    where kept.name = held.name
)
update {schema}.pecker_tasks as task
set version = null
from held
where task.name = held.name
returning task.name

/* celery_pecker:read_abandoned */
-- Stored schedules whose name was code's, and no living code declares it any more.
with {clock}
select declared.name
from clock, {schema}.pecker_declarations as declared
join {schema}.pecker_schedules as stored on stored.name = declared.name
where not declared.stored
    and declared.declared_until < clock.now
    and stored.removed_at is null
order by declared.name
limit 1000

/* celery_pecker:give_back */
-- The stored definition is what counts from here on: the first slot is one period later,
-- as of a new entry. The row's version is checked once more: it may have been edited.
-- Code that died before it could take the row over (an edit held it) leaves the stored
-- version there, and a declaration of its own: then nothing but that is mended.
with {clock},
held as materialized (
    select stored.name, stored.version, wanted.task, wanted.schedule, wanted.delivery,
           wanted.period_us, wanted.timeout_us, wanted.run, stored.countdown_us
    from clock
    cross join unnest(
        %(names)s::text[], %(versions)s::bigint[], %(tasks)s::text[],
        %(schedules)s::text[], %(deliveries)s::text[],
        %(periods)s::bigint[], %(timeouts)s::bigint[], %(runs)s::text[]
    ) as wanted (name, version, task, schedule, delivery, period_us, timeout_us, run)
    join {schema}.pecker_schedules as stored
        on stored.name = wanted.name and stored.version = wanted.version
    join {schema}.pecker_tasks as task on task.name = wanted.name
    join {schema}.pecker_declarations as declared on declared.name = wanted.name
    where (task.version is null or task.version = stored.version)
        and stored.removed_at is null
        and not declared.stored
        and declared.declared_until < clock.now
    order by stored.name
    for update of task, declared skip locked
),
declared as (
    update {schema}.pecker_declarations as kept
    set task = held.task,
        schedule = held.schedule,
        delivery = held.delivery,
        period_us = held.period_us,
        timeout_us = held.timeout_us,
        run = held.run,
        countdown_us = held.countdown_us,
        stored = true,
        declared_until = 'infinity'
    from held
    where kept.name = held.name
)
update {schema}.pecker_tasks as task
set version = held.version,
    executed_at = case
        when task.version is null then greatest(task.executed_at, clock.now)
        else task.executed_at
    end,
    holder = case when task.version is not null then task.holder end
from clock, held
where task.name = held.name
returning task.name

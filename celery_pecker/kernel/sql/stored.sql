/* part:definition_columns */
-- Of a stored schedule and its entry, as edits read them.
s.task, s.args::text, s.kwargs::text, s.options::text,
s.schedule::text, s.policies::text, s.run,
s.starts_at, s.ends_at, s.once, s.once_at,
s.version, s.removed_at, s.created_at, s.changed_at, s.changed_by,
{us(task.executed_at)} as executed,
task.holder is not null as ran,
task.paused,
coalesce(
    not declared.stored and declared.declared_until > clock.now, false) as by_code

/* part:write_definition */
insert into {schema}.pecker_schedules as s
    (name, task, args, kwargs, options, schedule, policies, run, starts_at, ends_at,
     once, once_at, version, created_at, changed_at, changed_by)

/* part:removed */
version = %($1)s::bigint,
removed_at = %(at)s::timestamptz,
changed_at = %(at)s::timestamptz,
changed_by = %(by)s::text,
edit = pg_current_xact_id()

/* part:write_declaration */
insert into {schema}.pecker_declarations
    (name, task, schedule, delivery, period_us, timeout_us, run, countdown_us,
     stored, declared_until)

/* part:old_changes */
and old.id in (
    select change.id
    from {schema}.pecker_schedule_changes as change
    where change.name = %(name)s::text
    order by change.id desc
    offset 99
)

/* celery_pecker:lock_entries */
-- An edit waits for other edits of the entries, and no slot of them is claimed until
-- the edit commits. By itself: what the next statement reads is then the latest.
select task.name
from {schema}.pecker_tasks as task
where task.name = any (%(names)s::text[])
order by task.name
for update

/* celery_pecker:enroll_stored */
-- The rows of new entries; if one does not come back, another edit has just made it,
-- which is locked first.
with {clock}
{new_rows}
returning name

/* celery_pecker:read_stored */
-- What there is of each name, also if it was removed or only its hot row is there, and
-- what time it is: always one row for each.
with {clock}
select {us(clock.now)} as now, session_user::text as who,
       (select owner.app from {schema}.pecker_owner as owner) as owner,
       wanted.name,
       {definition_columns},
       task.version as hot_version
from clock
cross join unnest(%(names)s::text[]) as wanted (name)
left join lateral (
    select row.* from {schema}.pecker_schedules as row
    where row.name = wanted.name limit 1
) as s on true
left join lateral (
    select row.* from {schema}.pecker_tasks as row
    where row.name = wanted.name limit 1
) as task on true
left join lateral (
    select row.* from {schema}.pecker_declarations as row
    where row.name = wanted.name limit 1
) as declared on true

/* celery_pecker:list_schedules */
-- Stored schedules by name, with the rows that say when they ran, and what time it is.
-- Of some names only those that were not removed.
with {clock},
chosen as materialized (
    select s.*
    from {schema}.pecker_schedules as s
    where s.removed_at is null
        and s.name > coalesce(%(after)s::text, '')
        and (%(names)s::text[] is null or s.name = any (%(names)s::text[]))
        and (%(task)s::text is null or s.task = %(task)s::text)
        and (
            %(search)s::text is null
            or strpos(lower(s.name), lower(%(search)s::text)) > 0
            or strpos(lower(s.task), lower(%(search)s::text)) > 0
        )
    order by s.name
    limit %(most)s::integer
)
select {us(clock.now)} as now, session_user::text as who,
       (select owner.app from {schema}.pecker_owner as owner) as owner,
       s.name,
       {definition_columns}
from clock
cross join chosen as s
left join {schema}.pecker_tasks as task on task.name = s.name
left join {schema}.pecker_declarations as declared on declared.name = s.name
order by s.name

/* celery_pecker:write_schedules */
-- Edits, each of another name: the definition, the version under which slots are claimed,
-- where they count from, what overviews read of the entry, runs for slots that were due,
-- and the user. The rows are locked, and the instant is the one that was read under the
-- lock; or (`seen_at`) they are as they were read a moment ago and no transaction holds them now:
-- else nothing is written of them.
with wanted as materialized (
    select one.*
    from jsonb_to_recordset(%(rows)s::text::jsonb) as one (
        name text, task text, args text, kwargs text, options text, schedule text,
        policies text, run text, starts_at timestamptz, ends_at timestamptz,
        once boolean, once_at timestamptz, version bigint, at timestamptz, by text,
        executed_at timestamptz, paused boolean, described text, delivery text,
        period_us bigint, timeout_us bigint, asked timestamptz[], change text,
        definition text, seen_at timestamptz, seen_paused boolean
    )
),
held as materialized (
    select task.name
    from wanted
    join {schema}.pecker_tasks as task on task.name = wanted.name
    where wanted.seen_at is null
        or task.version = wanted.version - 1
        and task.executed_at = wanted.seen_at
        and task.paused = wanted.seen_paused
    order by task.name
    for update of task skip locked
),
written as (
    {write_definition}
    select wanted.name, wanted.task, wanted.args::jsonb, wanted.kwargs::jsonb,
           wanted.options::jsonb, wanted.schedule::jsonb, wanted.policies::jsonb,
           wanted.run, wanted.starts_at, wanted.ends_at, wanted.once, wanted.once_at,
           wanted.version, wanted.at, wanted.at, wanted.by
    from held
    join wanted on wanted.name = held.name
    on conflict (name) do update
    set {excluded(task, args, kwargs, options, schedule, policies, run, starts_at, ends_at,
                  once, once_at, version)},
        created_at = case
            when s.removed_at is null then s.created_at else excluded.created_at end,
        {excluded(changed_at, changed_by)},
        removed_at = null,
        edit = pg_current_xact_id()
    returning s.name, s.created_at, s.countdown_us
),
anchored as (
    update {schema}.pecker_tasks as task
    set version = wanted.version,
        executed_at = coalesce(wanted.executed_at, task.executed_at),
        holder = case
            when wanted.executed_at is distinct from task.executed_at
                and wanted.executed_at is not null then null
            else task.holder
        end,
        paused = coalesce(wanted.paused, task.paused)
    from written
    join wanted on wanted.name = written.name
    where task.name = written.name
    returning task.name, task.era
),
declared as (
    {write_declaration}
    select wanted.name, wanted.task, wanted.described, wanted.delivery,
           wanted.period_us, wanted.timeout_us, wanted.run, written.countdown_us,
           true, 'infinity'
    from written
    join wanted on wanted.name = written.name
    order by wanted.name
    on conflict (name) do update
    set {excluded(task, schedule, delivery, period_us, timeout_us, run, countdown_us)},
        stored = true,
        declared_until = excluded.declared_until
),
asked as (
    {asked_run}
    select anchored.name, slot.due_at, anchored.era, 0,
           '00000000-0000-0000-0000-000000000000', 'infinity', true, wanted.by
    from anchored
    join wanted on wanted.name = anchored.name
    cross join unnest(wanted.asked) as slot (due_at)
    on conflict (name, due_at, era) do nothing
),
noted as (
    insert into {schema}.pecker_schedule_changes
        (name, version, change, changed_at, changed_by, definition)
    select wanted.name, wanted.version, wanted.change, wanted.at, wanted.by,
           wanted.definition::jsonb
    from written
    join wanted on wanted.name = written.name
),
pruned as (
    delete from {schema}.pecker_schedule_changes as old
    where old.id = any (array(
        select change.id
        from written
        cross join lateral (
            select kept.id
            from {schema}.pecker_schedule_changes as kept
            where kept.name = written.name
            order by kept.id desc
            offset 99
        ) as change
    ))
)
select written.name, written.created_at from written

/* celery_pecker:remove_schedule */
-- The row stays for a day, with a version that no replica has, so that a replica that still
-- knows the definition claims no slot. What was asked for, or not confirmed, goes. An
-- entry that code declares by now keeps its own row.
with removed as (
    update {schema}.pecker_schedules as s
    set {removed(version)}
    where s.name = %(name)s::text
    returning s.name
),
ended as (
    update {schema}.pecker_declarations as declared
    set declared_until = %(at)s::timestamptz
    from removed
    where declared.name = removed.name and declared.stored
    returning declared.name
),
fenced as (
    update {schema}.pecker_tasks as task
    set version = %(version)s::bigint
    from ended
    where task.name = ended.name
),
dropped as (
    delete from {schema}.pecker_pending as pending
    using ended
    where pending.name = ended.name
),
noted as (
    insert into {schema}.pecker_schedule_changes
        (name, version, change, changed_at, changed_by)
    select removed.name, %(version)s::bigint, 'removed', %(at)s::timestamptz,
           %(by)s::text
    from removed
),
pruned as (
    delete from {schema}.pecker_schedule_changes as old
    where old.name = %(name)s::text
        {old_changes}
)
select removed.name from removed

/* celery_pecker:find_underway */
-- Whether a slot of an entry is claimed and not confirmed: its holder knows it by the name,
-- and the broker by its id; under another name it would be sent twice. The hot row is
-- locked, so none is claimed after the answer.
select 1
from {schema}.pecker_pending as pending
where pending.name = %(name)s::text
    and (not pending.asked or pending.taken_at is not null)
limit 1

/* celery_pecker:lock_reports */
-- Before a rename: reports take no lock of the entry, and one of the free name may come at
-- any moment. Each name gets a row of outcomes, at whose key a report waits until this
-- commits, also after the row is deleted. In the order of names, as reports are written,
-- or the two were a deadlock.
with pages as materialized (
    select page.name
    from {schema}.pecker_history as page
    where page.name = any (%(names)s::text[])
    order by page.name, page.first_due
    for update
)
insert into {schema}.pecker_outcomes as kept (name)
select wanted.name
from unnest(%(names)s::text[]) as wanted (name)
where (select count(*) from pages) >= 0
order by wanted.name
on conflict (name) do update
set published = kept.published

/* celery_pecker:clear_name */
-- What was kept of a name that is free: the entry that gets the name brings its own.
-- A statement by itself, as rows of one key cannot go and come in the same.
with reports as (
    delete from {schema}.pecker_history as page
    where page.name = %(name)s::text
),
outcomes as (
    delete from {schema}.pecker_outcomes as outcome
    where outcome.name = %(name)s::text
),
changes as (
    delete from {schema}.pecker_schedule_changes as change
    where change.name = %(name)s::text
)
delete from {schema}.pecker_pending as pending
where pending.name = %(name)s::text

/* celery_pecker:rename_schedule */
-- The new name gets the definition, and of the hot row what people and claims go by: the
-- last slot, the pause, the counts. Its epoch passes that of both (I3). The old name ends as
-- by remove: its row keeps its slot and epoch, so that what was claimed of it is sent once.
--
-- Both hot rows are locked, so that no slot is claimed until this commits.
--
-- owns: the hot row is that of the stored schedule. Else code has the name by now, and
-- keeps its row and all that hangs on it.
with old as materialized (
    select s.*
    from {schema}.pecker_schedules as s
    where s.name = %(old)s::text
        and s.removed_at is null
),
written as (
    {write_definition}
    select %(new)s::text, old.task, old.args, old.kwargs, old.options, old.schedule,
           old.policies, old.run, old.starts_at, old.ends_at, old.once, old.once_at,
           %(version)s::bigint, old.created_at, %(at)s::timestamptz, %(by)s::text
    from old
    on conflict (name) do update
    set {excluded(task, args, kwargs, options, schedule, policies, run, starts_at, ends_at,
                  once, once_at, version, created_at, changed_at, changed_by)},
        removed_at = null,
        edit = pg_current_xact_id()
    returning s.name
),
gone as (
    update {schema}.pecker_schedules as s
    set {removed(gone)}
    from written
    where s.name = %(old)s::text
),
hot as materialized (
    select task.epoch, task.era, task.missed, task.holder, task.paused
    from {schema}.pecker_tasks as task
    where task.name = %(old)s::text and %(owns)s::boolean
),
moved as (
    update {schema}.pecker_tasks as task
    set version = %(version)s::bigint,
        executed_at = %(executed_at)s::timestamptz,
        epoch = greatest(task.epoch + 1, hot.epoch),
        era = greatest(task.era, hot.era),
        missed = coalesce(hot.missed, 0),
        holder = case when %(ran)s::boolean then hot.holder end,
        paused = coalesce(hot.paused, false)
    from written
    left join hot on true
    where task.name = written.name
    returning task.name, task.era
),
fenced as (
    update {schema}.pecker_tasks as task
    set version = %(gone)s::bigint, missed = 0
    from written, hot
    where task.name = %(old)s::text
),
declared as (
    {write_declaration}
    select %(new)s::text, old.task, %(described)s::text, %(delivery)s::text,
           %(period)s::bigint, %(timeout)s::bigint, old.run, old.countdown_us,
           true, 'infinity'
    from old
    on conflict (name) do update
    set {excluded(task, schedule, delivery, period_us, timeout_us, run, countdown_us)},
        stored = true,
        declared_until = excluded.declared_until
),
ended as (
    update {schema}.pecker_declarations as declared
    set declared_until = %(at)s::timestamptz
    from written, hot
    where declared.name = %(old)s::text and declared.stored
),
kept as (
    update {schema}.pecker_pending as pending
    set name = written.name
    from written, hot
    where pending.name = %(old)s::text
),
asked as (
    {asked_run}
    select moved.name, slot.due_at, moved.era, 0,
           '00000000-0000-0000-0000-000000000000', 'infinity', true, %(by)s::text
    from moved
    cross join unnest(%(asked)s::timestamptz[]) as slot (due_at)
    order by slot.due_at
    on conflict (name, due_at, era) do nothing
),
reports as (
    delete from {schema}.pecker_history as page
    using written, hot
    where page.name = %(old)s::text
    returning page.*
),
-- A page of the new name may have come since its pages were deleted.
pages as (
    {write_page}
    select %(new)s::text, page.first_due, page.era, page.holder, page.host, page.last_due,
           page.written_at, page.due_us, page.epoch, page.at_us, page.report
    from reports as page
    on conflict (name, first_due, era, holder) do update
    set {excluded(last_due, written_at, due_us, epoch, at_us, report)}
),
outcomes as (
    update {schema}.pecker_outcomes as outcome
    set name = written.name
    from written, hot
    where outcome.name = %(old)s::text
),
newest as materialized (
    select change.id
    from {schema}.pecker_schedule_changes as change
    where change.name = %(old)s::text
    order by change.id desc
    limit 99
),
changes as (
    update {schema}.pecker_schedule_changes as change
    set name = written.name
    from written
    where change.name = %(old)s::text
        and change.id = any (array(select newest.id from newest))
),
pruned as (
    delete from {schema}.pecker_schedule_changes as change
    using written
    where change.name = %(old)s::text
        and change.id <> all (array(select newest.id from newest))
),
noted as (
    insert into {schema}.pecker_schedule_changes
        (name, version, change, changed_at, changed_by, definition, other_name)
    select noted.name, noted.version, 'renamed', %(at)s::timestamptz, %(by)s::text,
           noted.definition, noted.other
    from written
    cross join lateral (values
        (%(old)s::text, %(gone)s::bigint, null::jsonb, %(new)s::text),
        (%(new)s::text, %(version)s::bigint, %(definition)s::text::jsonb, %(old)s::text)
    ) as noted (name, version, definition, other)
)
select written.name from written

/* celery_pecker:pause_entry */
-- Pauses an entry, stored or of code, or lets it go on, from its next claim on. The
-- version stays: no replica has to read anything. A removed name is no entry.
with {clock},
entry as (
    select task.name, coalesce(s.version, 0) as version
    from {schema}.pecker_tasks as task
    left join {schema}.pecker_schedules as s on s.name = task.name
    where task.name = %(name)s::text
        and not (s.removed_at is not null and task.version is not null)
),
changed as (
    update {schema}.pecker_tasks as task
    set paused = %(paused)s::boolean
    from entry
    where task.name = entry.name and task.paused <> %(paused)s::boolean
    returning task.name
),
noted as (
    insert into {schema}.pecker_schedule_changes
        (name, version, change, changed_at, changed_by)
    select changed.name, entry.version,
           case when %(paused)s::boolean then 'paused' else 'resumed' end,
           clock.now, coalesce(%(by)s::text, 'db:' || session_user)
    from changed, entry, clock
),
pruned as (
    delete from {schema}.pecker_schedule_changes as old
    using changed
    where old.name = changed.name
        {old_changes}
)
select (select count(*) from changed) from entry

/* celery_pecker:read_schedule_changes */
-- The last changes of a name, newest first.
select change.id, change.name, change.version, change.change, change.changed_at,
       change.changed_by, change.definition::text, change.other_name
from {schema}.pecker_schedule_changes as change
where change.name = %(name)s::text
order by change.id desc
limit %(most)s::integer

-- Schedules that people edit at run time, and who changed what.
-- readable from: 1

-- Cold: an edit writes a row here and, in the same transaction, the version in the hot
-- row. A replica claims a slot only under the version that it has read, so no run starts
-- with an older definition than the one that is committed. A removed schedule leaves its
-- row for a day, so that replicas see it go and its name cannot repeat its past.
create table {schema}.pecker_schedules (
    name text primary key,
    task text not null,
    args jsonb not null default '[]',
    kwargs jsonb not null default '{}',
    options jsonb not null default '{}',
    schedule jsonb not null,
    policies jsonb not null default '{}',
    run text not null default 'dispatch',
    starts_at timestamptz,
    ends_at timestamptz,
    once boolean not null default false,
    once_at timestamptz,
    version bigint not null check (version > 0),
    removed_at timestamptz,
    created_at timestamptz not null,
    changed_at timestamptz not null,
    changed_by text not null,
    edit xid8 not null default pg_current_xact_id()
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
comment on table {schema}.pecker_schedules is
    'celery-pecker: schedules that people edit at run time; when they last ran, and whether they are paused, stands in pecker_tasks';
comment on column {schema}.pecker_schedules.schedule is
    'when it runs, as JSON with one key for its kind: {"every": 30}, {"cron": "0 4 * * *"}';
comment on column {schema}.pecker_schedules.policies is
    'timeout, delivery, misfire, grace and catch_up, as they were given';
comment on column {schema}.pecker_schedules.run is
    'dispatch: published to the broker; local: run in the worker that wins';
comment on column {schema}.pecker_schedules.starts_at is 'no slot lies before it';
comment on column {schema}.pecker_schedules.ends_at is 'no slot lies after it';
comment on column {schema}.pecker_schedules.once is 'it runs one time only, at once_at';
comment on column {schema}.pecker_schedules.version is
    'one more with each edit; a removed name that returns counts on';
comment on column {schema}.pecker_schedules.removed_at is
    'since when it is no more; the row goes a day later';
comment on column {schema}.pecker_schedules.changed_by is
    'who made the last edit, as the editor was named';
comment on column {schema}.pecker_schedules.edit is
    'the transaction of the last edit: replicas ask for those that their last snapshot did not show';

-- Replicas ask for edits that their last snapshot did not show: a walk of this index.
create index pecker_schedules_edits on {schema}.pecker_schedules (edit, name);

-- One-offs that have run are forgotten: those whose instant has passed are looked at.
create index pecker_schedules_once on {schema}.pecker_schedules (once_at)
    where once and removed_at is null;

-- The last hundred changes of each name: an edit prunes those of its own.
create table {schema}.pecker_schedule_changes (
    id bigint generated always as identity primary key,
    name text not null,
    version bigint not null,
    change text not null,
    changed_at timestamptz not null,
    changed_by text not null,
    definition jsonb,
    other_name text
);
comment on table {schema}.pecker_schedule_changes is
    'celery-pecker: who changed which schedule, when, and to what';
comment on column {schema}.pecker_schedule_changes.version is
    'the version that it made, or that was there; 0: an entry of code';
comment on column {schema}.pecker_schedule_changes.change is
    'created, changed, removed, returned, renamed, paused or resumed';
comment on column {schema}.pecker_schedule_changes.definition is
    'the definition from then on; null where it stayed';
comment on column {schema}.pecker_schedule_changes.other_name is
    'of a rename: the name before, or, of the name that went, the one since';
create index pecker_schedule_changes_of on {schema}.pecker_schedule_changes (name, id);

-- A claim names the version that its replica has read, and null for an entry of code:
-- code of the steps before claims without, as of stored entries it knows none.
alter table {schema}.pecker_tasks add column version bigint;
comment on column {schema}.pecker_tasks.version is
    'of the definition in pecker_schedules; null: the entry is declared by code';

-- A stored schedule has its declaration from its edit on, until infinity.
alter table {schema}.pecker_declarations
    add column stored boolean not null default false;
comment on column {schema}.pecker_declarations.stored is
    'it stands in pecker_schedules; false: some replica''s code declares it';

alter table {schema}.pecker_replicas
    add column unreadable integer not null default 0;
comment on column {schema}.pecker_replicas.unreadable is
    'stored schedules that this process cannot read, and so does not run';

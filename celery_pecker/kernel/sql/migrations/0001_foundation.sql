-- The foundation: who owns the schema, the rows that come due, who declares them.
-- readable from: 1

create table {schema}.pecker_migrations (
    version integer primary key,
    name text not null,
    readable_from integer not null,
    applied_at timestamptz not null default clock_timestamp()
);
comment on table {schema}.pecker_migrations is
    'celery-pecker: which steps of its schema were taken';

create table {schema}.pecker_owner (
    singleton boolean primary key default true check (singleton),
    app text not null,
    since timestamptz not null default clock_timestamp()
);
comment on table {schema}.pecker_owner is
    'celery-pecker: the one Celery app whose schedules live in this schema';

-- Hot and narrow: one row per entry, one HOT update per slot. No index but the
-- primary key, and a third of each page used, so that the new version of a row
-- always finds room beside the old one (at 50 %, 2 % of the updates did not).
create table {schema}.pecker_tasks (
    name text primary key,
    executed_at timestamptz not null check (isfinite(executed_at)),
    epoch bigint not null default 0,
    missed bigint not null default 0,
    era integer not null default 0,
    holder uuid
) with (
    fillfactor = 35,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table {schema}.pecker_tasks is
    'celery-pecker: last slot won of each entry; the row is the lock and the memory';
comment on column {schema}.pecker_tasks.executed_at is
    'the due instant of the last slot won, on the grid of the entry';
comment on column {schema}.pecker_tasks.epoch is
    'fencing token of the last claim: only ever rises';
comment on column {schema}.pecker_tasks.era is
    'raised when the clock of the database was found to have stepped back';
comment on column {schema}.pecker_tasks.holder is
    'who won the last slot: one process life, see pecker_replicas';
comment on column {schema}.pecker_tasks.missed is
    'slots that passed without a message, as far as anybody lived to count them';

-- Cold: what the living replicas declare, renewed about once a minute.
create table {schema}.pecker_declarations (
    name text primary key,
    task text not null,
    schedule text not null,
    delivery text not null,
    declared_until timestamptz not null
);
comment on table {schema}.pecker_declarations is
    'celery-pecker: entries that some replica''s code declares, and until when';

create table {schema}.pecker_replicas (
    holder uuid primary key,
    host text not null,
    pid integer not null,
    version text not null,
    entries integer not null,
    started_at timestamptz not null,
    seen_at timestamptz not null
);
comment on table {schema}.pecker_replicas is
    'celery-pecker: one row per process life of a scheduler';

-- At-least-once slots between their claim and the broker's word for it.
create table {schema}.pecker_pending (
    name text not null,
    due_at timestamptz not null,
    era integer not null,
    epoch bigint not null,
    holder uuid not null,
    claimed_at timestamptz not null,
    deadline timestamptz,
    attempt integer not null default 1,
    primary key (name, due_at, era)
);
comment on table {schema}.pecker_pending is
    'celery-pecker: slots claimed and not yet confirmed (delivery at_least_once)';

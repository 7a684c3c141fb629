-- Pausing, asking for a run, fencing of runs, and what people look at.
-- readable from: 1

-- A paused entry's slots pass: they are claimed as ever and not run, so that there is
-- no backlog at its end. Code of step 1 does not know and runs them.
alter table {schema}.pecker_tasks
    add column paused boolean not null default false;
comment on column {schema}.pecker_tasks.paused is
    'its slots pass without a run until somebody resumes it';

-- What a reader must know of an entry to say when it is due and what its runs may use.
alter table {schema}.pecker_declarations
    add column period_us bigint,
    add column timeout_us bigint,
    add column run text not null default 'dispatch';
comment on column {schema}.pecker_declarations.period_us is
    'microseconds; null where it is no grid (crontab and the like)';
comment on column {schema}.pecker_declarations.timeout_us is
    'microseconds that a run may take from its slot on; null: as long as it likes';
comment on column {schema}.pecker_declarations.run is
    'dispatch: published to the broker; local: run in the worker that wins';

alter table {schema}.pecker_replicas
    add column kind text not null default 'beat';
comment on column {schema}.pecker_replicas.kind is
    'beat: a scheduler process; worker: a worker that publishes; local: its local runs';

-- "Run now" is a slot that nobody has claimed. Its claimed_at is infinity for good: code
-- of step 1 would send it, and of an entry that is delivered at most once it would send
-- it again every 20 s, because it does not confirm those. Hence taken_at.
alter table {schema}.pecker_pending
    add column asked boolean not null default false,
    add column asked_by text,
    add column taken_at timestamptz;
create index pecker_pending_asked on {schema}.pecker_pending (due_at) where asked;
comment on column {schema}.pecker_pending.asked is
    'somebody asked for this run: it lies beside the grid of the entry';
comment on column {schema}.pecker_pending.taken_at is
    'since when the holder is sending a run that was asked for; null: nobody is';

-- The last run of each entry with a timeout that a worker started: a run starts only
-- above it, and a guarded statement writes only at it.
create table {schema}.pecker_fences (
    name text primary key,
    era integer not null,
    due_at timestamptz not null,
    attempt integer not null default 0,
    epoch bigint not null,
    started_at timestamptz not null
) with (
    fillfactor = 35,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table {schema}.pecker_fences is
    'celery-pecker: the run that last started of each entry; older runs may not write';
comment on column {schema}.pecker_fences.attempt is
    'which retry of the task it is, from 0';

-- What became of slots, bounded: a row is what one process reports of up to 60 slots of
-- an entry, written again while it fills. Four arrays of one length, side by side.
create table {schema}.pecker_history (
    name text not null,
    first_due timestamptz not null,
    era integer not null,
    holder uuid not null,
    last_due timestamptz not null,
    written_at timestamptz not null,
    due_us bigint[] not null,
    epoch bigint[] not null,
    at_us bigint[] not null,
    report smallint[] not null,
    primary key (name, first_due, era, holder)
) with (fillfactor = 70);
comment on table {schema}.pecker_history is
    'celery-pecker: reports of the last slots of each entry, for people; nothing depends on it';
comment on column {schema}.pecker_history.due_us is
    'the slot, microseconds since 1970';
comment on column {schema}.pecker_history.at_us is
    'when it was reported, by the clock of the database, microseconds since 1970';
comment on column {schema}.pecker_history.report is
    'what: the codes are in celery_pecker.schedules.history and docs/reference/tables.md';

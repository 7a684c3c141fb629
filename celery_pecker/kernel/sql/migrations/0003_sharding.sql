-- Sharded jobs: their layers, shards, items, results, errors and tickets.
-- readable from: 1

create table {schema}.pecker_jobs (
    job bigint generated always as identity primary key,
    task_id text not null unique,
    task text not null,
    key text,
    stage text not null default 'submitted' check (
        stage in ('submitted', 'planning', 'sharding', 'posting', 'delivering', 'ended')
    ),
    outcome text check (outcome in ('succeeded', 'failed', 'cancelled')),
    run integer not null default 1,
    epoch bigint not null default 0,
    holder text,
    leased_until timestamptz,
    attempts integer not null default 0,
    sent_at timestamptz,
    paused boolean not null default false,
    concurrency integer not null check (concurrency > 0),
    options jsonb not null,
    call bytea not null,
    continuation jsonb not null,
    layer integer not null default 0,
    layers integer not null default 0,
    total bigint not null default 0,
    notified integer not null default 0,
    reported_at timestamptz,
    value bytea,
    error jsonb,
    follows bigint,
    submitted_at timestamptz not null,
    planned_at timestamptz,
    decided_at timestamptz,
    ended_at timestamptz,
    deadline_at timestamptz
);
comment on table {schema}.pecker_jobs is 'one row for each sharded job';
comment on column {schema}.pecker_jobs.task_id is 'the task id by which Celery knows it';
comment on column {schema}.pecker_jobs.task is 'the processor: name of a Celery task';
comment on column {schema}.pecker_jobs.key is
    'a second submission of the same task and key follows the first until it has ended';
comment on column {schema}.pecker_jobs.stage is
    'submitted, planning, sharding, posting; delivering: decided, to be reported to Celery';
comment on column {schema}.pecker_jobs.run is 'raised when ended shards are run again';
comment on column {schema}.pecker_jobs.epoch is
    'the fencing token of who plans, posts or delivers; it never goes back';
comment on column {schema}.pecker_jobs.attempts is
    'how often the stage in hand was begun: it is not begun without end';
comment on column {schema}.pecker_jobs.sent_at is
    'when a message for the stage in hand was last sent; no message is load-bearing';
comment on column {schema}.pecker_jobs.concurrency is 'shards that run at once, at most';
comment on column {schema}.pecker_jobs.call is 'arguments, or what names stored items';
comment on column {schema}.pecker_jobs.continuation is
    'chain, chord, group, links and stamps that the job was called with';
comment on column {schema}.pecker_jobs.layer is 'the layer that runs now, from 0';
comment on column {schema}.pecker_jobs.notified is
    'how many thresholds of progress were reported';
comment on column {schema}.pecker_jobs.reported_at is
    'when progress was last reported to the result backend';
comment on column {schema}.pecker_jobs.value is 'what the job returns, encoded';
comment on column {schema}.pecker_jobs.error is
    'why it failed: code, type, message, traceback';
comment on column {schema}.pecker_jobs.follows is
    'the job whose outcome is its own: it had the same key';
-- A key has one leader that has not ended.
create unique index pecker_jobs_key on {schema}.pecker_jobs (task, key)
    where key is not null and follows is null and stage not in ('delivering', 'ended');
create index pecker_jobs_follows on {schema}.pecker_jobs (follows)
    where follows is not null;
create index pecker_jobs_open on {schema}.pecker_jobs (job) where stage <> 'ended';
create index pecker_jobs_ended on {schema}.pecker_jobs (ended_at) where stage = 'ended';

create table {schema}.pecker_layers (
    job bigint not null,
    layer integer not null,
    total bigint not null,
    shards integer not null,
    open integer not null,
    done bigint not null default 0,
    failed bigint not null default 0,
    started_at timestamptz,
    closed_at timestamptz,
    primary key (job, layer)
);
comment on column {schema}.pecker_layers.open is
    'shards that have not ended; the shards themselves are the truth';
comment on column {schema}.pecker_layers.done is
    'items of ended shards that succeeded; those of running shards stand with them';

-- Narrow, because it is written to again and again.
create table {schema}.pecker_shards (
    job bigint not null,
    shard integer not null,
    layer integer not null,
    status smallint not null default 100,
    ticket integer,
    epoch bigint not null default 0,
    origin integer not null,
    lo integer not null default 0,
    hi integer not null,
    cursor integer not null default 0,
    ahead integer not null default 0,
    done integer not null default 0,
    failed integer not null default 0,
    deaths smallint not null default 0,
    attempt smallint not null default 0,
    owner text,
    not_before timestamptz,
    claimed_at timestamptz,
    ended_at timestamptz,
    picks integer[],
    reference jsonb,
    primary key (job, shard)
) with (fillfactor = 80);
comment on column {schema}.pecker_shards.status is
    '100 waiting, 201 claimed, 202 running, 203 timed out, 301 done, 302 failed, 403 its
    process died; 101, 401 and 402 are derived from these and the time';
comment on column {schema}.pecker_shards.epoch is
    'seq of the ticket that claimed it: with another, nothing of it may be written';
comment on column {schema}.pecker_shards.origin is
    'the shard whose items it runs: itself, or the one whose failed items it repeats';
comment on column {schema}.pecker_shards.picks is
    'places, in the items of the origin, of those it runs; null: from lo to hi';
comment on column {schema}.pecker_shards.cursor is
    'how many of its items have ended, successes and failures';
comment on column {schema}.pecker_shards.ahead is
    'items up to here may have been begun: what killed a process lies before';
comment on column {schema}.pecker_shards.deaths is
    'processes that died over it since its cursor last moved';
comment on column {schema}.pecker_shards.owner is
    'hostname of the worker that it was dealt to; null: any';
comment on column {schema}.pecker_shards.reference is
    'the part of a source that its items are read from; null: they are stored';
create index pecker_shards_waiting on {schema}.pecker_shards (job, layer, shard)
    where status = 100;
create index pecker_shards_held on {schema}.pecker_shards (job, ticket)
    where status in (201, 202);

create table {schema}.pecker_items (
    job bigint not null,
    shard integer not null,
    body bytea not null,
    primary key (job, shard)
);
comment on table {schema}.pecker_items is 'what each shard works on, encoded';
alter table {schema}.pecker_items alter column body set storage external;

create table {schema}.pecker_inputs (
    ref text primary key,
    items bigint not null,
    body bytea not null,
    stored_at timestamptz not null
);
comment on table {schema}.pecker_inputs is
    'items that were given in a call: stored before its message is sent';

create table {schema}.pecker_results (
    job bigint not null,
    shard integer not null,
    at integer not null,
    body bytea not null,
    primary key (job, shard, at)
);
comment on column {schema}.pecker_results.at is
    'their order: three times the cursor at which they were written, and 1 if the shard
    was given back with it, 2 if it was closed; -1: what the processor returned at the end';
alter table {schema}.pecker_results alter column body set storage external;

create table {schema}.pecker_item_errors (
    job bigint not null,
    origin integer not null,
    place integer not null,
    shard integer not null,
    layer integer not null,
    code smallint not null,
    attempt smallint not null,
    type text not null,
    message text not null,
    traceback text,
    item bytea,
    worker text not null,
    at timestamptz not null,
    primary key (job, origin, place)
);
comment on column {schema}.pecker_item_errors.place is
    'where in the items of its origin; -1: the shard as a whole';

create table {schema}.pecker_tickets (
    job bigint not null,
    ticket integer not null,
    seq bigint not null default 0,
    state text not null default 'idle' check (state in ('idle', 'sent', 'held')),
    holder text,
    hostname text,
    sent_at timestamptz,
    leased_until timestamptz,
    wake_at timestamptz,
    primary key (job, ticket)
) with (fillfactor = 50);
comment on table {schema}.pecker_tickets is
    'who holds one may run shards of the job: there are as many as its concurrency';
comment on column {schema}.pecker_tickets.seq is
    'raised each time that it is taken or lost: an older message or holder is nobody';
comment on column {schema}.pecker_tickets.wake_at is
    'until then it lies idle: a gate said so, or shards wait for their next attempt; of
    one that was sent: since when it is on its way';
create index pecker_tickets_held on {schema}.pecker_tickets (leased_until)
    where state = 'held';
create index pecker_tickets_sent on {schema}.pecker_tickets (sent_at)
    where state = 'sent';

create table {schema}.pecker_executors (
    hostname text primary key,
    slots integer not null,
    direct_queue text,
    queues text[] not null default '{}',
    started_at timestamptz not null,
    seen_at timestamptz not null
);
comment on table {schema}.pecker_executors is 'workers that run shards, as last seen';
comment on column {schema}.pecker_executors.queues is
    'those that it consumes from: shards of their jobs may be dealt to it';
comment on column {schema}.pecker_executors.started_at is
    'since when it is heard of without a gap';

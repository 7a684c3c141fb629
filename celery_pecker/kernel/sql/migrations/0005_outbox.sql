-- The outbox: messages that Celery built and that were recorded beside the data they
-- are about, until the broker has them or until their task has succeeded.
-- readable from: 1

-- No foreign key, no trigger and no NOTIFY: recording is one insert in the transaction
-- of the caller. Rows of mode 0 are never updated, so no page needs room.
create table {schema}.pecker_outbox (
    id bigint generated always as identity primary key,
    due_at timestamptz,
    mode smallint not null default 0 check (mode between 0 and 2),
    priority smallint,
    task text not null,
    task_id text not null,
    exchange text not null,
    routing_key text not null,
    content_type text not null,
    content_encoding text not null,
    declare text,
    headers text not null,
    properties text not null,
    body bytea not null,
    dedupe_key text,
    created_at timestamptz not null,
    attempt integer,
    epoch bigint,
    running boolean,
    pushes smallint,
    held_at timestamptz,
    held_until timestamptz,
    parked_at timestamptz,
    last_error text
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table {schema}.pecker_outbox is
    'celery-pecker: messages recorded in transactions, until they are delivered';
comment on column {schema}.pecker_outbox.due_at is
    'not before; null: at once, and nothing has to be compared';
comment on column {schema}.pecker_outbox.mode is
    '0 relay: until the broker has it; 1 until_done: until the task succeeded;
    2 local: as 1, run by a worker without the broker';
comment on column {schema}.pecker_outbox.declare is
    'queues and exchanges that Celery declares before it sends, as JSON; null: none';
comment on column {schema}.pecker_outbox.headers is
    'headers of the message, as JSON; eta is null, because it is due_at';
comment on column {schema}.pecker_outbox.properties is
    'properties of the message, as JSON';
comment on column {schema}.pecker_outbox.body is
    'the body as Celery serialized and compressed it';
comment on column {schema}.pecker_outbox.dedupe_key is
    'while a row of this key waits, another of the same key is not recorded';
comment on column {schema}.pecker_outbox.attempt is
    'of modes 1 and 2: how many runs have started; null: none';
comment on column {schema}.pecker_outbox.epoch is
    'of modes 1 and 2: fencing token of the run that has it';
comment on column {schema}.pecker_outbox.running is
    'of modes 1 and 2: whether a run has started and nobody reported its end';
comment on column {schema}.pecker_outbox.pushes is
    'of mode 1: messages sent since the last run started; null: none';
comment on column {schema}.pecker_outbox.held_at is
    'of modes 1 and 2: when the last push or run moved due_at';
comment on column {schema}.pecker_outbox.held_until is
    'of modes 1 and 2: where it moved due_at to; until then no other run starts';
comment on column {schema}.pecker_outbox.parked_at is
    'since when it waits for somebody to look at it: see last_error';

-- What was done, of modes 1 and 2, for people: the newest of it.
create table {schema}.pecker_outbox_done (
    number bigint generated always as identity primary key,
    id bigint not null,
    task text not null,
    task_id text not null,
    attempt integer not null,
    emergency boolean not null,
    created_at timestamptz not null,
    done_at timestamptz not null
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table {schema}.pecker_outbox_done is
    'celery-pecker: rows of pecker_outbox whose task succeeded, the newest of them';
comment on column {schema}.pecker_outbox_done.id is 'of the row in pecker_outbox';
comment on column {schema}.pecker_outbox_done.attempt is
    'which run of it succeeded, from 1';
comment on column {schema}.pecker_outbox_done.emergency is
    'whether its emergency completion did it';

-- How hard the processing may work; people change it while workers run.
create table {schema}.pecker_outbox_load (
    id smallint primary key default 1 check (id = 1),
    threads smallint check (threads between 0 and 1000),
    pause_empty real check (pause_empty between 0 and 3600),
    pause_error real check (pause_error between 0 and 3600),
    pause_done real check (pause_done between 0 and 3600),
    only_tasks text[],
    changed_at timestamptz not null
);
comment on table {schema}.pecker_outbox_load is
    'celery-pecker: one row: how hard the processing may work; null: the default';
comment on column {schema}.pecker_outbox_load.threads is
    'of mode 2, in each worker; 0: nothing is taken';
comment on column {schema}.pecker_outbox_load.pause_empty is
    'seconds that a thread rests when nothing was due';
comment on column {schema}.pecker_outbox_load.pause_error is
    'seconds that a thread rests after a run that failed';
comment on column {schema}.pecker_outbox_load.pause_done is
    'seconds that a thread rests after a run that succeeded';
comment on column {schema}.pecker_outbox_load.only_tasks is
    'of modes 1 and 2: what is not named waits; null: nothing waits';

-- What a relay walks: in the order of ids, without a look at what waits.
create unique index pecker_outbox_ready on {schema}.pecker_outbox (id)
    where mode = 0 and due_at is null and parked_at is null;
-- What waits for its time.
create index pecker_outbox_later on {schema}.pecker_outbox (due_at, id)
    where mode = 0 and due_at is not null and parked_at is null;
-- What runs until it is done, by task: each task's rows are found beside a million
-- of another's, and one task's backlog keeps none of the others waiting.
create index pecker_outbox_runs on {schema}.pecker_outbox (mode, task, (coalesce(due_at, created_at)), id)
    where mode > 0 and parked_at is null;
-- What was held before the clock stepped back.
create index pecker_outbox_held on {schema}.pecker_outbox (held_at)
    where held_at is not null and parked_at is null;
-- What people look at first: what is parked, and what has failed most often.
create index pecker_outbox_parked on {schema}.pecker_outbox (id)
    where parked_at is not null;
create index pecker_outbox_attempts on {schema}.pecker_outbox (attempt desc, id)
    where attempt > 0;
create unique index pecker_outbox_key on {schema}.pecker_outbox (dedupe_key)
    where dedupe_key is not null;

-- What relays hold: a batch of ids under one token, never a mark in the rows, which
-- would cost each row a second write.
create table {schema}.pecker_outbox_batches (
    batch bigint generated always as identity primary key,
    token uuid not null,
    ids bigint[] not null,
    holder uuid not null,
    epoch bigint not null,
    hold interval not null,
    held_until timestamptz not null,
    alone boolean not null default false,
    tries integer not null default 0,
    created_at timestamptz not null
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table {schema}.pecker_outbox_batches is
    'celery-pecker: rows of pecker_outbox that a relay has in hand';
comment on column {schema}.pecker_outbox_batches.token is
    'under which Redis knows what was pushed of it';
comment on column {schema}.pecker_outbox_batches.epoch is
    'fencing token: each relay that takes the batch raises it';
comment on column {schema}.pecker_outbox_batches.held_until is
    'after it another relay may take the batch, whole';
comment on column {schema}.pecker_outbox_batches.alone is
    'its messages are sent one by one';
comment on column {schema}.pecker_outbox_batches.tries is
    'how often it was taken over';

-- One row: whoever changes what can be claimed takes the turn.
create table {schema}.pecker_outbox_turn (
    id smallint primary key default 1 check (id = 1),
    turn bigint not null default 0,
    passed bigint not null default 0
) with (
    fillfactor = 10,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table {schema}.pecker_outbox_turn is
    'celery-pecker: one claim at a time on pecker_outbox';
comment on column {schema}.pecker_outbox_turn.passed is
    'up to this id of pecker_outbox nothing waits: from here a new relay looks';
insert into {schema}.pecker_outbox_turn default values;

create table {schema}.pecker_outbox_relays (
    holder uuid primary key,
    host text not null,
    pid integer not null,
    started_at timestamptz not null,
    seen_at timestamptz not null,
    sent bigint not null default 0,
    retried bigint not null default 0,
    parked bigint not null default 0,
    broker text,
    rates jsonb not null default '{}'
);
comment on table {schema}.pecker_outbox_relays is
    'celery-pecker: processes that deliver what pecker_outbox holds; for people';
comment on column {schema}.pecker_outbox_relays.broker is
    'why it cannot send; null: it can';
comment on column {schema}.pecker_outbox_relays.rates is
    'messages that it sends per second, by task';

-- What requests of the intake recorded, so that one that comes again records nothing.
create table {schema}.pecker_intake_keys (
    key text primary key,
    digest bytea not null,
    task_ids text[] not null,
    created_at timestamptz not null
);
create index pecker_intake_keys_created on {schema}.pecker_intake_keys (created_at);
comment on table {schema}.pecker_intake_keys is
    'celery-pecker: Idempotency-Key of requests that recorded tasks, for a day';
comment on column {schema}.pecker_intake_keys.digest is
    'SHA-256 of the request''s body: the same key with another body is refused';

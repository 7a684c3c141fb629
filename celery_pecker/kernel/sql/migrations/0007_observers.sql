-- Observers: jobs that run until they are stopped, on hosts that hold one lease each.
-- readable from: 1

-- What hosts can run: one row for each kind of observer that code declares. Who starts
-- an observer by name needs none of its code.
create table {schema}.pecker_observer_kinds (
    kind text primary key,
    weight integer not null check (weight > 0),
    on_parked text,
    on_moved text,
    seen_at timestamptz not null
);
comment on table {schema}.pecker_observer_kinds is
    'celery-pecker: kinds of observers that hosts can run';
comment on column {schema}.pecker_observer_kinds.on_parked is
    'signature that is sent when one is parked, as JSON; null: none';
comment on column {schema}.pecker_observer_kinds.on_moved is
    'signature that is sent when one has moved, as JSON; null: none';

-- One row for each life of a host process. Its lease is the only thing that is renewed:
-- the rows of its observers are not written while all is well.
create table {schema}.pecker_observer_nodes (
    node uuid primary key,
    name text not null,
    pid integer not null,
    capacity integer not null check (capacity > 0),
    kinds text[] not null,
    state text not null check (state in ('up', 'draining', 'dead')),
    ttl interval not null,
    since timestamptz not null,
    leased_until timestamptz not null,
    started_at timestamptz not null,
    left_at timestamptz
) with (
    fillfactor = 35,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table {schema}.pecker_observer_nodes is
    'celery-pecker: hosts of observers, one row for each life of a process';
comment on column {schema}.pecker_observer_nodes.name is
    'what people call it; a host that comes back has the same name and another id';
comment on column {schema}.pecker_observer_nodes.capacity is
    'the sum of weights that it may hold';
comment on column {schema}.pecker_observer_nodes.kinds is
    'kinds of observers that its code has';
comment on column {schema}.pecker_observer_nodes.state is
    'up; draining: gives away what it has and takes nothing; dead: left, or buried';
comment on column {schema}.pecker_observer_nodes.ttl is
    'length of its lease';
comment on column {schema}.pecker_observer_nodes.since is
    'since when its lease is unbroken: who has none for a whole ttl buries nobody';
comment on column {schema}.pecker_observer_nodes.leased_until is
    'after it others may bury the host';
comment on column {schema}.pecker_observer_nodes.left_at is
    'when it left or was buried; null: it did not';

create table {schema}.pecker_observers (
    id bigint generated always as identity primary key,
    name text not null,
    kind text not null,
    args jsonb not null default '{}',
    weight integer not null check (weight > 0),
    status text not null default 'created'
        check (status in ('created', 'processing', 'on_deleting', 'deleted')),
    node uuid,
    last_node uuid,
    epoch bigint not null default 0,
    restart bigint,
    not_before timestamptz not null,
    failures integer not null default 0,
    moves integer not null default 0,
    parked_at timestamptz,
    last_error text,
    state jsonb,
    on_parked text,
    on_moved text,
    created_at timestamptz not null,
    modified_at timestamptz not null,
    check (node is null or (parked_at is null and status in ('processing', 'on_deleting')))
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table {schema}.pecker_observers is
    'celery-pecker: jobs that run until they are stopped';
comment on column {schema}.pecker_observers.name is
    'what people call it; unique among those that are not deleted';
comment on column {schema}.pecker_observers.status is
    'created, processing, on_deleting, deleted: forward only';
comment on column {schema}.pecker_observers.node is
    'the host that runs it; null: none does';
comment on column {schema}.pecker_observers.last_node is
    'the host that ran it last';
comment on column {schema}.pecker_observers.epoch is
    'fencing token: each host that takes the row raises it';
comment on column {schema}.pecker_observers.restart is
    'the life of this epoch is to end and to begin anew; null: none is';
comment on column {schema}.pecker_observers.not_before is
    'no host takes it before; after a failure: when it is tried again';
comment on column {schema}.pecker_observers.failures is
    'how often it failed in a row';
comment on column {schema}.pecker_observers.moves is
    'how often another host than before has taken it';
comment on column {schema}.pecker_observers.parked_at is
    'since when it waits for people: see last_error';
comment on column {schema}.pecker_observers.state is
    'the small cursor that its next life begins from';

create unique index pecker_observers_name on {schema}.pecker_observers (name)
    where status <> 'deleted';
create index pecker_observers_deleted on {schema}.pecker_observers (name, id)
    where status = 'deleted';
-- What a host holds, and how heavy that is.
create index pecker_observers_held on {schema}.pecker_observers (node) include (weight)
    where node is not null;
-- What people asked of those that run.
create index pecker_observers_orders on {schema}.pecker_observers (node)
    where node is not null and (status = 'on_deleting' or restart is not null);
-- What no host has.
create index pecker_observers_waiting on {schema}.pecker_observers (kind, not_before) include (weight)
    where node is null and parked_at is null and status in ('created', 'processing');
create index pecker_observers_parked on {schema}.pecker_observers (parked_at)
    where parked_at is not null;

-- What happened to observers, for people; the newest of it.
create table {schema}.pecker_observer_history (
    id bigint generated always as identity primary key,
    observer bigint not null,
    name text not null,
    kind text not null,
    event text not null,
    node uuid,
    epoch bigint not null,
    at timestamptz not null,
    error text
) with (
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
create index pecker_observer_history_name on {schema}.pecker_observer_history (name, id);
comment on table {schema}.pecker_observer_history is
    'celery-pecker: what happened to observers, the newest of it';
comment on column {schema}.pecker_observer_history.observer is
    'id of the row in pecker_observers';
comment on column {schema}.pecker_observer_history.event is
    'created, started, moved, restarting, failed, parked, released, stopping, stopped';

-- Signatures that are to be sent: written with the event, deleted when they are sent.
create table {schema}.pecker_observer_notices (
    id bigint generated always as identity primary key,
    signature text not null,
    event jsonb not null,
    held_until timestamptz not null,
    tries integer not null default 0,
    created_at timestamptz not null,
    last_error text
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
create index pecker_observer_notices_due on {schema}.pecker_observer_notices (held_until);
comment on table {schema}.pecker_observer_notices is
    'celery-pecker: on_parked and on_moved of observers, until they are sent';
comment on column {schema}.pecker_observer_notices.event is
    'what the signature is called with';
comment on column {schema}.pecker_observer_notices.held_until is
    'no host sends it before: one has it in hand, or failed to send it';

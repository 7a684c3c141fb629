-- Who has which long runs in hand, so that runs of a process that was killed are known as lost.
-- readable from: 1

-- A row stands only while its process has such runs, and a renewal changes no indexed
-- column: looking through all of them costs nothing, and renewals are HOT.
create table {schema}.pecker_lives (
    holder uuid primary key,
    host text,
    seen_at timestamptz not null,
    names text[] not null,
    due_us bigint[] not null,
    eras integer[] not null,
    epochs bigint[] not null
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table {schema}.pecker_lives is
    'celery-pecker: process lives that have long runs in hand; a life that is not renewed for a minute has lost them';
comment on column {schema}.pecker_lives.holder is
    'one process life: the one that reports in pecker_history';
comment on column {schema}.pecker_lives.host is
    'the worker; null: local runs of a scheduler, whose host is in pecker_replicas';
comment on column {schema}.pecker_lives.seen_at is
    'when it was renewed last; a sweep removes the row only as it read it';
comment on column {schema}.pecker_lives.names is
    'the runs: entry, slot in microseconds since 1970, era and epoch, side by side';

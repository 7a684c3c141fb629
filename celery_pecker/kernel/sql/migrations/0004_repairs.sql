-- Repairs: what is due is found by an index, what is written often keeps its place, and
-- how runs ended is counted.
-- readable from: 1

-- A renewal changes leased_until alone. While that was in an index no renewal could be
-- HOT (heap-only): each left a dead entry in every index of the table. Held tickets are
-- as many as workers have slots, so looking through all of them costs nothing.
drop index {schema}.pecker_tickets_held;
create index pecker_tickets_held on {schema}.pecker_tickets (job, ticket)
    where state = 'held';
alter table {schema}.pecker_tickets add column resend_at timestamptz;
comment on column {schema}.pecker_tickets.resend_at is
    'of one that was sent: from when on its message counts as lost';
-- Null where an older version sent it: looked at from the moment on at which it did.
drop index {schema}.pecker_tickets_sent;
create index pecker_tickets_sent
    on {schema}.pecker_tickets ((coalesce(resend_at, sent_at)), job)
    where state = 'sent';

-- A shard changes its status with almost every write, and both of its indexes are by
-- status: no such write can be HOT, so room on its page was of no use.
alter table {schema}.pecker_shards reset (fillfactor);

-- Of 10,000 open jobs these are the ones that each sweep looks at.
create index pecker_jobs_sharding on {schema}.pecker_jobs (job)
    where stage = 'sharding' and not paused;
create index pecker_jobs_messages on {schema}.pecker_jobs (job)
    where stage in ('submitted', 'planning', 'posting', 'delivering');
create index pecker_jobs_deadline on {schema}.pecker_jobs (deadline_at)
    where deadline_at is not null and stage in ('submitted', 'planning', 'sharding');
-- The figures of all open jobs are counted from the index alone.
drop index {schema}.pecker_jobs_open;
create index pecker_jobs_open on {schema}.pecker_jobs (job) include (stage, paused)
    where stage <> 'ended';

-- Messages for Notify that nobody took: while shards run sent_at is theirs.
create index pecker_jobs_notify on {schema}.pecker_jobs (sent_at)
    where stage = 'sharding' and sent_at is not null;

-- What became of runs: counted for each entry, with the last good one and the last bad one.
-- A table of its own: a claim skips a row that somebody else locks, so nothing but claims
-- may write to pecker_tasks while slots are due.
create table {schema}.pecker_outcomes (
    name text primary key,
    published bigint not null default 0,
    not_sent bigint not null default 0,
    succeeded bigint not null default 0,
    failed bigint not null default 0,
    overrun bigint not null default 0,
    lost bigint not null default 0,
    refused_late bigint not null default 0,
    refused_overtaken bigint not null default 0,
    refused_unknown bigint not null default 0,
    refused_repeated bigint not null default 0,
    good_era integer,
    good_due timestamptz,
    bad_era integer,
    bad_due timestamptz,
    bad_at timestamptz,
    bad_report smallint,
    bad_host text,
    bad_error text,
    sent_era integer,
    sent_due timestamptz,
    unsent_era integer,
    unsent_due timestamptz,
    unsent_at timestamptz,
    unsent_report smallint,
    failing boolean not null generated always as (coalesce(
        (bad_era, bad_due) > (good_era, good_due), bad_due is not null)) stored,
    undelivered boolean not null generated always as (
        coalesce((unsent_era, unsent_due) > (sent_era, sent_due), unsent_due is not null)
        and coalesce((unsent_era, unsent_due) > (good_era, good_due), true)) stored
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table {schema}.pecker_outcomes is
    'celery-pecker: how the runs of each entry ended; for people and alarms, nothing depends on it';
comment on column {schema}.pecker_outcomes.published is
    'slots whose message the broker has, or that a worker took to run';
comment on column {schema}.pecker_outcomes.not_sent is
    'slots that were claimed and had no message and no run';
comment on column {schema}.pecker_outcomes.good_due is
    'the last slot whose run succeeded';
comment on column {schema}.pecker_outcomes.bad_due is
    'the last slot whose run failed, overran, was lost or was refused; what it was is in bad_report';
comment on column {schema}.pecker_outcomes.bad_error is
    'what it raised, cut to 200 characters';
comment on column {schema}.pecker_outcomes.sent_due is
    'the last slot that was sent; unsent_due the last one that was not';
comment on column {schema}.pecker_outcomes.failing is
    'no run succeeded after the last bad one';
comment on column {schema}.pecker_outcomes.undelivered is
    'nothing was sent, and nothing succeeded, after the last slot that was not sent';

-- Who reports: workers do, too, and they have no row in pecker_replicas.
alter table {schema}.pecker_history add column host text;
comment on column {schema}.pecker_history.host is
    'the worker that reports; null: a scheduler, see pecker_replicas';

-- A value that a processor returns went with the call where that was killed or raised.
-- Written by an older version a shard has 0, and runs again if there are values.
alter table {schema}.pecker_shards add column returned integer not null default 0;
comment on column {schema}.pecker_shards.returned is
    'of those done: items of calls of the processor that returned';

-- One process at a time calls Notify of a job, so that thresholds come in their order.
alter table {schema}.pecker_jobs
    add column notifier text,
    add column notifier_until timestamptz;
comment on column {schema}.pecker_jobs.notifier is
    'who calls Notify, until notifier_until; thresholds are reported in their order';

-- Repairs: what is due is found by an index, and what is written often keeps its place.
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

-- Calls that are ended and billed by tasks of an outbox (example_project/billing).

/* example_project:billing_schema */
create table billing_calls (
    id int generated always as identity primary key,
    caller text not null,
    -- Each by the clock at the commit's side: somebody hung up, a task ended the call.
    hung_up_at timestamptz,
    ended_at timestamptz
);
create index billing_calls_live on billing_calls (caller, id) where hung_up_at is null;
create table billing_runs (
    -- One row per run of a task, not per message: one that came twice is two.
    task_id uuid not null,
    call int not null references billing_calls,
    ran_at timestamptz not null default clock_timestamp()
);
create table bills (
    -- A call that is billed again is no second row: it is counted.
    call int primary key references billing_calls,
    times int not null default 1,
    billed_at timestamptz not null default clock_timestamp()
)

/* example_project:billing_begin */
insert into billing_calls (caller)
select %(caller)s from generate_series(1, %(calls)s)

/* example_project:billing_hang_up */
with live as materialized (
    select id from billing_calls
    where caller = %(caller)s and hung_up_at is null
    order by id
    limit 1
    for update skip locked
)
update billing_calls as c
set hung_up_at = clock_timestamp()
from live
where c.id = live.id
returning c.id

/* example_project:billing_run */
insert into billing_runs (task_id, call) values (%(task)s, %(call)s)

/* example_project:billing_end */
-- A second message of the same task ends nothing, and so bills nothing.
update billing_calls
set ended_at = clock_timestamp()
where id = %(call)s and ended_at is null

/* example_project:billing_bill */
insert into bills (call) values (%(call)s)
on conflict (call) do update set times = bills.times + 1

/* example_project:billing_counted */
-- Lost is what was hung up, in a transaction that was committed, and has no bill.
select count(*) filter (where c.hung_up_at is not null) as hung_up,
       count(*) filter (where c.ended_at is not null) as ended,
       count(b.call) filter (where c.hung_up_at is not null) as billed,
       count(*) filter (where c.hung_up_at is not null and b.call is null) as lost,
       coalesce(sum(b.times - 1), 0)::int as doubled,
       (select count(*) - count(distinct task_id) from billing_runs) as repeated,
       (select count(*) from pecker_outbox) as waiting
from billing_calls as c
left join bills as b on b.call = c.id

/* example_project:billing_relays */
select count(*) from pecker_outbox_relays

/* example_project:billing_pin */
-- The newest message cannot be deleted until this transaction ends.
select id from pecker_outbox
where mode = 0 and parked_at is null
order by id desc
limit 1
for update skip locked

/* example_project:billing_stuck */
-- The relay whose delete waits for the message that %(pinned)s holds: it has pushed the
-- batch. Its process, its connection, and how many messages the batch has.
select relay.pid, activity.pid, batch.batch, cardinality(batch.ids)
from pecker_outbox_batches as batch
join pecker_outbox_relays as relay using (holder)
join pg_stat_activity as activity on %(pinned)s = any (pg_blocking_pids(activity.pid))
where %(id)s = any (batch.ids)
  and activity.query like '%%celery_pecker:%%_outbox_batch%%'

/* example_project:billing_cut */
-- What was sent over a dead process's connection is not done; five seconds at most.
select pg_terminate_backend(%(backend)s, 5000)

/* example_project:billing_open */
select count(*) from pecker_outbox_batches where batch = %(batch)s

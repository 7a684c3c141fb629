/* celery_sharding:bound_transaction */
-- A process that is frozen in an open transaction keeps others waiting on its rows. So the
-- server ends it when it was idle for that long; where the user's own setting is
-- stricter, that one counts. Gone with the transaction.
select set_config(
    'idle_in_transaction_session_timeout',
    least(
        %(idle_ms)s::bigint,
        {set_ms('idle_in_transaction_session_timeout')}
    )::text, true)

/* celery_sharding:begin_plan */
-- The process that gets this row plans: the job is new, or its planner's lease has ended. A
-- follower has nothing to plan.
with {clock}
update {schema}.pecker_jobs as job
set stage = 'planning',
    epoch = job.epoch + 1,
    {taken_job}
    and job.follows is null
    and (
        job.stage = 'submitted'
        or (job.stage = 'planning' and job.leased_until <= clock.now)
    )
returning job.job, job.epoch, job.task, job.call, job.options, job.run, job.attempts,
          extract(epoch from job.deadline_at - clock.now)::float8 as deadline_in

/* celery_sharding:write_shards */
-- Some shards of a plan; none is claimed while the job is being planned.
with given as (
    select * from unnest(
        %(shards)s::integer[], %(layers)s::integer[], %(counts)s::integer[],
        %(owners)s::text[], %(references)s::text[]
    ) as one (shard, layer, count, owner, reference)
)
insert into {schema}.pecker_shards (job, shard, layer, origin, hi, owner, reference)
select %(job)s, given.shard, given.layer, given.shard, given.count, given.owner,
       given.reference::jsonb
from given

/* celery_sharding:write_items */
-- What those shards work on; none for shards that are read from a source.
with given as (
    select * from unnest(%(shards)s::integer[], %(bodies)s::bytea[]) as one (shard, body)
)
insert into {schema}.pecker_items (job, shard, body)
select %(job)s, given.shard, given.body
from given

/* celery_sharding:write_layers */
-- The layers of a plan; the first begins.
with {clock},
given as (
    select * from unnest(
        %(layers)s::integer[], %(totals)s::bigint[], %(shards)s::integer[]
    ) as one (layer, total, shards)
)
insert into {schema}.pecker_layers (job, layer, total, shards, open, started_at)
select %(job)s, given.layer, given.total, given.shards, given.shards,
       case when given.layer = %(first)s then clock.now end
from given, clock

/* celery_sharding:end_plan */
-- The plan counts from here on, if its writer still plans: else it has no row, and
-- what was written before in the same transaction is undone.
--
-- without shards there is nothing to run: Post is next.
with {clock},
ended as (
    update {schema}.pecker_jobs as job
    set stage = case when %(shards)s = 0 then 'posting' else 'sharding' end,
        layer = %(first)s,
        layers = %(layers)s,
        total = %(total)s,
        attempts = 0,
        holder = null,
        leased_until = null,
        sent_at = null,
        planned_at = clock.now
    from clock
    where job.job = %(job)s and job.epoch = %(epoch)s and job.stage = 'planning'
    returning job.job, job.concurrency
),
dealt as (
    insert into {schema}.pecker_tickets (job, ticket)
    select ended.job, one
    from ended, generate_series(1, least(ended.concurrency, %(shards)s)) as one
)
select job from ended

/* celery_sharding:pause_job */
-- Paused or not, as long as the job is not decided: one row, however many shards wait.
-- Holders of tickets read it with their next write.
update {schema}.pecker_jobs as job
set paused = %(paused)s
where job.task_id = %(task_id)s and job.stage = any (%(stages)s::text[])
returning job.job

/* celery_sharding:read_options */
-- How the job of that task id runs.
select job.job, job.stage, job.options
from {schema}.pecker_jobs as job
where job.task_id = %(task_id)s

/* celery_sharding:change_options */
-- How the job runs from now on, if it was not changed since it was read.
update {schema}.pecker_jobs as job
set options = %(options)s,
    concurrency = %(concurrency)s,
    deadline_at = job.submitted_at + %(deadline)s::float8 * interval '1 second'
where job.job = %(job)s
    and job.options = %(before)s
    and job.stage = any (%(stages)s::text[])

/* celery_sharding:reopen_job */
-- An ended job has one more run: nothing of the former may be written or sent any more
-- (epoch, run). The first statement of the transaction: the second caller finds a job that
-- has not ended. Its shards are its own: a follower has none. What the purge has begun
-- to forget (holder) is not whole any more.
with {clock},
ended as materialized (
    select job.job, job.outcome, job.planned_at is not null as planned
    from {schema}.pecker_jobs as job
    where job.task_id = %(task_id)s
        and job.stage = 'ended'
        and job.follows is null
        and job.holder is null
    for update skip locked
)
update {schema}.pecker_jobs as job
set stage = 'sharding',
    run = job.run + 1,
    epoch = job.epoch + 1,
    outcome = null,
    value = null,
    error = null,
    attempts = 0,
    holder = null,
    leased_until = null,
    sent_at = null,
    paused = false,
    decided_at = null,
    ended_at = null,
    deadline_at = clock.now
        + (job.options ->> 'deadline')::float8 * interval '1 second'
from ended, clock
where job.job = ended.job
returning job.job, ended.outcome, ended.planned, job.options

/* celery_sharding:restart_job */
-- A job whose items are not what is to be done again: it begins at that stage, at once.
with {clock}
update {schema}.pecker_jobs as job
set stage = %(stage)s,
    layer = job.layers,
    leased_until = clock.now
from clock
where job.job = %(job)s and job.stage = 'sharding'

/* part:meant_errors */
-- Errors that are meant: all (null), those of the items of shards, or those of places.
(
    %(origins)s::integer[] is null
    or %(places)s::integer[] is null and error.origin = any (%(origins)s::integer[])
    or (error.origin, error.place) in (
        select * from unnest(%(origins)s::integer[], %(places)s::integer[])
    )
)

/* celery_sharding:whole_failures */
-- Shards that failed after their last item: each of their items is to be run again.
select distinct shard.origin
from {schema}.pecker_item_errors as error
join {schema}.pecker_shards as shard
    on shard.job = error.job and shard.shard = error.shard
where error.job = %(job)s
    and error.place = -1
    and {meant_errors}
    and shard.status in (203, 302, 403)
    and shard.cursor >= coalesce(cardinality(shard.picks), shard.hi - shard.lo)

/* celery_sharding:origins_of_shards */
-- Which of these shards there are, and whose items they run.
select shard.shard, shard.origin
from {schema}.pecker_shards as shard
where shard.job = %(job)s and shard.shard = any (%(shards)s::integer[])

/* celery_sharding:forget_results */
-- What these shards came to, and those that repeated items of them.
delete from {schema}.pecker_results as result
using {schema}.pecker_shards as shard
where shard.job = %(job)s
    and shard.origin = any (%(origins)s::integer[])
    and result.job = shard.job
    and result.shard = shard.shard

/* celery_sharding:forget_errors */
-- Failures of items that run again.
delete from {schema}.pecker_item_errors as error
where error.job = %(job)s and {meant_errors}

/* celery_sharding:restart_shards */
-- These shards are as they were planned; those that repeated items of them have none left.
update {schema}.pecker_shards as shard
set status = case when shard.shard = shard.origin then 100 else 301 end,
    hi = case when shard.shard = shard.origin then shard.hi else shard.lo end,
    picks = case when shard.shard = shard.origin then shard.picks else '{}' end,
    ticket = null,
    cursor = 0,
    ahead = 0,
    done = 0,
    failed = 0,
    returned = 0,
    deaths = 0,
    not_before = null,
    claimed_at = null,
    ended_at = case when shard.shard = shard.origin then null else shard.ended_at end
where shard.job = %(job)s and shard.origin = any (%(origins)s::integer[])

/* celery_sharding:resume_shards */
-- Shards that ended before their last item, and have an error that is meant, go on from
-- where they were. Items that they never reached have not failed any more.
with meant as materialized (
    select distinct error.shard
    from {schema}.pecker_item_errors as error
    where error.job = %(job)s and {meant_errors}
)
update {schema}.pecker_shards as shard
set status = 100,
    ticket = null,
    ahead = shard.cursor,
    failed = greatest(
        shard.failed - (coalesce(cardinality(shard.picks), shard.hi - shard.lo)
            - shard.cursor), 0),
    deaths = 0,
    not_before = null,
    claimed_at = null,
    ended_at = null
where shard.job = %(job)s
    and shard.status in (203, 302, 403)
    and shard.cursor < coalesce(cardinality(shard.picks), shard.hi - shard.lo)
    and (%(origins)s::integer[] is null or shard.shard in (select meant.shard from meant))

/* celery_sharding:repeat_failures */
-- Failed items get shards of their own, in the layer of the shard whose items they are.
-- What an open shard is to run anyway is left to it. The shards in which they failed do
-- not count them any more.
with waiting as materialized (
    select shard.origin, shard.picks, shard.cursor,
           shard.lo + shard.cursor as first, shard.hi
    from {schema}.pecker_shards as shard
    where shard.job = %(job)s and shard.status = 100
),
failed as (
    select error.origin, error.place, error.shard,
           (row_number() over (partition by error.origin order by error.place) - 1)
               / %(most)s::integer as part
    from {schema}.pecker_item_errors as error
    where error.job = %(job)s
        and error.place >= 0
        and {meant_errors}
        and not exists (
            select from waiting
            where waiting.origin = error.origin
                and case
                    when waiting.picks is null then
                        error.place >= waiting.first and error.place < waiting.hi
                    else error.place = any (waiting.picks[waiting.cursor + 1:])
                end
        )
),
parts as (
    select failed.origin, failed.part,
           array_agg(failed.place order by failed.place) as picks,
           row_number() over (order by failed.origin, failed.part) as nth
    from failed
    group by failed.origin, failed.part
),
fewer as (
    update {schema}.pecker_shards as shard
    set failed = case when %(origins)s::integer[] is null then 0
        else greatest(shard.failed - counted.items, 0) end
    from (
        select known.shard, count(failed.place)::integer as items
        from {schema}.pecker_shards as known
        left join failed on failed.shard = known.shard
        where known.job = %(job)s and known.failed <> 0
        group by known.shard
    ) as counted
    where shard.job = %(job)s and shard.shard = counted.shard
)
insert into {schema}.pecker_shards
    (job, shard, layer, origin, lo, hi, picks, reference, owner)
select origin.job,
       (
           select max(shard.shard)
           from {schema}.pecker_shards as shard
           where shard.job = %(job)s
       ) + parts.nth,
       origin.layer, parts.origin, 0, cardinality(parts.picks), parts.picks,
       origin.reference, origin.owner
from parts
join {schema}.pecker_shards as origin
    on origin.job = %(job)s and origin.shard = parts.origin

/* celery_sharding:recount_layers */
-- Counts of layers as their shards have them.
update {schema}.pecker_layers as layer
set shards = counted.shards,
    open = counted.open,
    done = counted.done,
    failed = counted.failed,
    closed_at = case when counted.open = 0 then layer.closed_at end
from (
    select shard.layer,
           count(*) as shards,
           count(*) filter (where shard.status in (100, 201, 202)) as open,
           coalesce(sum(shard.done) filter (
               where shard.status not in (100, 201, 202)), 0) as done,
           coalesce(sum(shard.failed) filter (
               where shard.status not in (100, 201, 202)), 0) as failed
    from {schema}.pecker_shards as shard
    where shard.job = %(job)s
    group by shard.layer
) as counted
where layer.job = %(job)s and layer.layer = counted.layer

/* celery_sharding:first_open_layer */
-- The first layer that has an open shard runs.
with first as (
    select min(shard.layer) as layer
    from {schema}.pecker_shards as shard
    where shard.job = %(job)s and shard.status = 100
)
update {schema}.pecker_jobs as job
set layer = first.layer
from first
where job.job = %(job)s and first.layer is not null

/* celery_sharding:count_open_items */
-- Items that are to be run.
select coalesce(sum(
           coalesce(cardinality(shard.picks), shard.hi - shard.lo) - shard.cursor
       ), 0)::bigint as items
from {schema}.pecker_shards as shard
where shard.job = %(job)s and shard.status in (100, 201, 202)

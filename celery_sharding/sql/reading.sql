/* part:living_executors */
-- Workers that run shards and were seen of late.
from {schema}.pecker_executors as executor
cross join clock
where executor.seen_at > clock.now - %(fresh)s::float8 * interval '1 second'

/* celery_sharding:list_jobs */
-- Jobs, the youngest first, or the one of that task id. Read by people: nothing is held
-- by it and nothing decided.
--
-- state:    as `verdict` says of a row; looked for only where it is asked for.
-- lead:     a job with the key of another that had not ended follows that one: it has no
--           shards of its own, so all but its names and its end are read of the other.
-- counted:  items of ended shards stand with the layers, in the transaction that closed
--           the shard; those of the others with the shards. Waiting ones are asked for
--           by the layers that have open shards: where one large job has most of the
--           table, the planner would scan that once for each job that has ended.
with {clock},
living as materialized (
    select count(*)::integer as executors
    {living_executors}
),
listed as materialized (
    select own.job as own, coalesce(lead.job, own.job) as job,
           lead.task_id as leader
    from {schema}.pecker_jobs as own
    cross join clock
    cross join living
    left join {schema}.pecker_jobs as lead on lead.job = own.follows
    where (%(task_id)s::text is null or own.task_id = %(task_id)s)
        and (%(before)s::bigint is null or own.job < %(before)s)
        and (not %(open_only)s or own.stage <> 'ended')
        and (%(search)s::text is null
            or strpos(lower(own.task), lower(%(search)s::text)) > 0
            or strpos(lower(coalesce(own.key, '')), lower(%(search)s::text)) > 0
            or strpos(own.task_id, lower(%(search)s::text)) > 0)
        and (%(task)s::text is null or own.task = %(task)s)
        and (%(until)s::timestamptz is null or own.submitted_at <= %(until)s)
        and (%(state)s::text is null or %(state)s =
            case
                when own.outcome = 'cancelled' and own.stage = 'ended' then 'cancelled'
                when own.outcome = 'failed' and own.stage = 'ended' then 'failed'
                when own.stage = 'ended' then case when exists (
                    select from {schema}.pecker_layers as layer
                    where layer.job = coalesce(lead.job, own.job) and layer.failed > 0
                ) then 'partly failed' else 'succeeded' end
                when own.stage = 'delivering' then 'delivering'
                when coalesce(lead.paused, own.paused) then 'paused'
                when coalesce(lead.stage, own.stage) <> 'sharding' then coalesce(lead.stage, own.stage)
                when exists (
                    select from {schema}.pecker_tickets as ticket
                    where ticket.job = coalesce(lead.job, own.job) and ticket.state = 'held'
                        and ticket.leased_until > clock.now
                ) then 'running'
                when living.executors = 0 then 'starved'
                else 'waiting'
            end)
    order by own.job desc
    limit %(most)s
)
select clock.now, own.job, listed.job as leading, own.task_id, listed.leader, own.task,
       own.key,
       case when own.stage in ('delivering', 'ended') then own.stage else job.stage end
           as stage,
       own.outcome, job.run, job.paused, job.concurrency, job.layer, job.layers,
       job.total, counted.done, counted.failed, job.options, own.error,
       own.submitted_at, job.planned_at, counted.started_at, counted.closed_at,
       own.decided_at, own.ended_at, job.deadline_at,
       (select count(*)::integer from {schema}.pecker_tickets as ticket
        where ticket.job = listed.job and ticket.state = 'held'
            and ticket.leased_until > clock.now) as held,
       living.executors, job.holder, job.attempts
from listed
cross join clock
cross join living
join {schema}.pecker_jobs as own on own.job = listed.own
join {schema}.pecker_jobs as job on job.job = listed.job
cross join lateral (
    select coalesce(sum(part.done), 0)::bigint as done,
           coalesce(sum(part.failed), 0)::bigint as failed,
           min(part.started_at) as started_at, max(part.closed_at) as closed_at
    from (
        select layer.done, layer.failed, layer.started_at, layer.closed_at
        from {schema}.pecker_layers as layer
        where layer.job = listed.job
        union all
        select waiting.done, waiting.failed, null, null
        from {schema}.pecker_layers as layer
        cross join lateral (
            select shard.done, shard.failed
            from {schema}.pecker_shards as shard
            where shard.job = layer.job and shard.layer = layer.layer
                and shard.status = 100 and shard.cursor > 0
            offset 0
        ) as waiting
        where layer.job = listed.job and layer.open > 0
        union all
        select shard.done, shard.failed, null, null
        from {schema}.pecker_shards as shard
        where shard.job = listed.job and shard.status in (201, 202)
    ) as part
) as counted
order by own.job desc

/* celery_sharding:list_layers */
-- A job's layers in their order, each with the items of its shards that have not ended.
with open as materialized (
    select part.layer, sum(part.done)::bigint as done, sum(part.failed)::bigint as failed
    from (
        select shard.layer, shard.done, shard.failed
        from {schema}.pecker_shards as shard
        where shard.job = %(job)s and shard.status = 100 and shard.cursor > 0
        union all
        select shard.layer, shard.done, shard.failed
        from {schema}.pecker_shards as shard
        where shard.job = %(job)s and shard.status in (201, 202)
    ) as part
    group by part.layer
)
select layer.layer, layer.total, layer.done + coalesce(open.done, 0) as done,
       layer.failed + coalesce(open.failed, 0) as failed, layer.shards, layer.open,
       layer.started_at, layer.closed_at
from {schema}.pecker_layers as layer
left join open on open.layer = layer.layer
where layer.job = %(job)s
order by layer.layer

/* celery_sharding:list_errors */
-- Failed items in the order of their places, from one place on: what was read before is
-- not looked at again, so that any number of them is read in pages as cheap as the first.
select error.origin, error.place, error.shard, error.layer, error.code, error.attempt,
       error.type, error.message, error.traceback, error.item, error.worker, error.at
from {schema}.pecker_item_errors as error
where error.job = %(job)s
    and (error.origin, error.place) > (%(origin)s::integer, %(place)s::integer)
order by error.origin, error.place
limit %(most)s

/* celery_sharding:list_results */
-- Results in the order of shards, from one on. What a shard returned at its end is
-- written at -1 and comes before the rest of its own.
--
-- sized:  a page ends before it is larger than that, but never before its first row.
--         The length of a value that lies apart is known without reading it.
with sized as (
    select result.shard, result.at,
           sum(octet_length(result.body)) over (order by result.shard, result.at) as size,
           row_number() over (order by result.shard, result.at) as nth
    from (
        select shard, at, body
        from {schema}.pecker_results
        where job = %(job)s
            and (shard, at) > (%(shard)s::integer, %(at)s::integer)
        order by shard, at
        limit %(most)s
    ) as result
)
select result.shard, result.at, result.body
from sized
join {schema}.pecker_results as result
    on result.job = %(job)s and result.shard = sized.shard and result.at = sized.at
where sized.size <= %(bytes)s or sized.nth = 1
order by result.shard, result.at

/* celery_sharding:read_totals */
-- The figures of all jobs at once: those that have not ended, and what became of those
-- that ended within a day; each part by an index of its own.
with {clock},
open as materialized (
    select count(*)::integer as jobs,
           count(*) filter (where job.paused)::integer as paused,
           count(*) filter (where job.stage = 'sharding')::integer as sharding
    from {schema}.pecker_jobs as job
    where job.stage <> 'ended'
),
day as materialized (
    select count(*) filter (where job.outcome = 'succeeded')::integer as succeeded,
           count(*) filter (where job.outcome = 'failed')::integer as failed,
           count(*) filter (where job.outcome = 'cancelled')::integer as cancelled
    from {schema}.pecker_jobs as job
    cross join clock
    where job.stage = 'ended' and job.ended_at > clock.now - interval '1 day'
),
living as materialized (
    select count(*)::integer as executors, coalesce(sum(executor.slots), 0)::integer as slots
    {living_executors}
),
held as materialized (
    select count(*)::integer as held
    from {schema}.pecker_tickets as ticket
    cross join clock
    where ticket.state = 'held' and ticket.leased_until > clock.now
)
select clock.now, open.jobs, open.sharding, open.paused, held.held, living.executors,
       living.slots, day.succeeded, day.failed, day.cancelled
from clock
cross join open
cross join day
cross join living
cross join held

/* celery_sharding:read_figures */
-- What monitoring reads beside the totals.
--
-- overdue:  tickets whose lease or message is over, and that no sweep has taken up yet.
with {clock},
open as materialized (
    select count(*) filter (where job.stage = 'submitted') as submitted,
           count(*) filter (where job.stage = 'planning') as planning,
           count(*) filter (where job.stage = 'sharding') as sharding,
           count(*) filter (where job.stage = 'posting') as posting,
           count(*) filter (where job.stage = 'delivering') as delivering
    from {schema}.pecker_jobs as job
    where job.stage <> 'ended'
),
oldest as materialized (
    select job.submitted_at
    from {schema}.pecker_jobs as job
    where job.stage <> 'ended'
    order by job.job
    limit 1
),
items as materialized (
    select coalesce(sum(part.total), 0)::bigint as total,
           coalesce(sum(part.done), 0)::bigint as done,
           coalesce(sum(part.failed), 0)::bigint as failed
    from {schema}.pecker_jobs as job
    cross join lateral (
        select sum(layer.total) as total, sum(layer.done) as done,
               sum(layer.failed) as failed
        from {schema}.pecker_layers as layer
        where layer.job = job.job
    ) as part
    where job.stage = 'sharding'
        and job.stage <> 'ended'
),
lapsed as materialized (
    select count(*) as tickets, min(ticket.leased_until) as since
    from {schema}.pecker_tickets as ticket
    where ticket.state = 'held'
        and ticket.leased_until <= (select clock.now from clock)
),
lost as materialized (
    select count(*) as tickets,
           min(coalesce(ticket.resend_at, ticket.sent_at)) as since
    from {schema}.pecker_tickets as ticket
    where ticket.state = 'sent'
        and coalesce(ticket.resend_at, ticket.sent_at) <= (select clock.now from clock)
),
sent as materialized (
    select count(*) as tickets
    from {schema}.pecker_tickets as ticket
    where ticket.state = 'sent'
)
select open.submitted, open.planning, open.sharding, open.posting, open.delivering,
       coalesce(extract(epoch from clock.now - (select oldest.submitted_at from oldest)), 0)
           ::float8 as oldest,
       items.total, items.done, items.failed, sent.tickets as sent,
       lapsed.tickets + lost.tickets as overdue,
       coalesce(extract(epoch from clock.now - least(lapsed.since, lost.since)), 0)
           ::float8 as overdue_seconds
from clock
cross join open
cross join items
cross join lapsed
cross join lost
cross join sent

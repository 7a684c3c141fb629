/* part:job_read */
-- The job whose shards are read, and whether what may be claimed is not taken.
read as materialized (
    select job.job, job.layer, job.stage = 'sharding' as runs, clock.now,
           (job.options ->> 'shard_deadline')::float8 as shard_deadline,
           (job.options ->> 'item_timeout')::float8 as item_timeout,
           job.stage = 'sharding' and not job.paused and not exists ({taken_tickets})
               and clock.now - %(stall_timeout)s * interval '1 second'
                   > coalesce({last_begun}, job.planned_at, job.submitted_at) as untaken
    from {schema}.pecker_jobs as job
    cross join clock
    where job.job = %(job)s
)

/* part:shards_read */
-- Its shards, each with the ticket under which it is held, if it is.
from read
join {schema}.pecker_shards as shard on shard.job = read.job
left join {schema}.pecker_tickets as ticket
    on shard.status in (201, 202) and ticket.job = read.job
    and ticket.ticket = shard.ticket and ticket.seq = shard.epoch
    and ticket.state = 'held' and ticket.leased_until > read.now

/* part:shard_code */
-- The code of a shard: see list_shards.
case
    when shard.status not in (100, 201, 202) then shard.status
    when shard.status = 100 then case
        when not read.runs or shard.layer <> read.layer
            or shard.not_before > read.now then 100
        when read.untaken then 401
        else 101
    end
    when ticket.seq is null then case when read.runs then 403 else 100 end
    when shard.status = 201 then case
        when shard.cursor = 0 and shard.deaths = 0 and shard.claimed_at
            < read.now - %(stall_timeout)s * interval '1 second' then 402
        else 201
    end
    when extract(epoch from read.now - shard.claimed_at) > least(
        read.shard_deadline,
        case when shard.cursor = 0 and shard.deaths = 0
            then read.item_timeout end
    ) then 203
    else 202
end::integer

/* celery_sharding:read_grid */
-- How each shard of a job stands, as one letter each: `GRADES` of ledger/rows.py says
-- which. Shards of a layer lie beside each other, but for those that repeat items of
-- others: a part whose numbers are no unbroken line comes with all of them.
--
-- coded:  as in list_shards, where it is explained.
with {clock},
{job_read},
coded as (
    select shard.layer, shard.shard,
           {shard_code} as code
    {shards_read}
)
select layer, min(shard) as first, string_agg(
           case code
               when 301 then 'a' when 100 then 'b' when 101 then 'c' when 201 then 'd'
               when 202 then 'e' when 402 then 'f' when 401 then 'g' when 203 then 'h'
               when 302 then 'i' when 403 then 'j'
           end, '' order by shard) as letters,
       case when max(shard) - min(shard) + 1 <> count(*)
           then array_agg(shard order by shard) end as numbers
from coded
group by layer, shard / 1024
order by layer, first

/* celery_sharding:list_shards */
-- Shards of a job with their codes, by their number; or those that run longest first.
-- What is derived from the rows and the time, and stored nowhere:
--
-- untaken:  what may be claimed is not: no worker holds a ticket, none lies idle until a
--           moment that was derived, and for long nothing was claimed or begun (401).
-- 101:      its layer is the one that runs, and it waits for no moment.
-- 402:      claimed for long, and not begun. One that ran before, and was given back, has
--           the moment of its first claim, which says nothing of this one.
-- 203:      it runs longer than it may, or none of its items has ended for longer than
--           one may take.
-- 403:      the ticket under which it was claimed is held no more, or has moved on: it
--           waits for the sweep that gives it back. Of a job that has left the stage,
--           it just did not end.
with {clock},
{job_read},
coded as (
    select shard.*, ticket.hostname, ticket.leased_until, read.now,
           {shard_code} as code
    {shards_read}
    where shard.shard > %(after)s
        and (%(shard)s::integer is null or shard.shard = %(shard)s)
        and (%(layer)s::integer is null or shard.layer = %(layer)s)
        and (not %(oldest)s or shard.status in (201, 202))
)
select shard, layer, code, status, origin,
       coalesce(cardinality(picks), hi - lo) as items, cursor, done, failed, deaths, attempt, hostname, owner, claimed_at, ended_at, not_before,
       case when status in (201, 202)
           then extract(epoch from now - claimed_at)::float8
           else extract(epoch from ended_at - claimed_at)::float8 end as spent
from coded
where %(codes)s::integer[] is null or code = any (%(codes)s)
order by case when %(oldest)s then claimed_at end, shard
limit %(most)s

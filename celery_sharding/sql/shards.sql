/* part:shard_is_ready */
(
    shard.not_before is null
    or shard.not_before <= (select clock.now from clock)
)

/* celery_sharding:claim_shards */
-- Claims shards of the layer that runs, in their order, for the holder of the ticket.
--
-- fence:   the ticket's row first, written to, so that it is locked: a hold that was
--          ended meanwhile claims nothing, and one that is being ended waits for us.
-- mine:    what a job that is paused, or further on, gives: nothing.
-- further: from the greatest number that this holder had before on: what was claimed at
--          the front stays in the index for a while, and is passed over again and again.
-- back:    there is none: at the first.
-- others:  a shard over which a process died is claimed alone: if it kills again, it
--          was this one. The first runs at once, the others wait behind it.
-- ahead:   of a shard over which no process died it begins again at the cursor, which means
--          that what was begun was not written since.
-- Only what is claimed is locked: a rival passes over what is locked, and would think
-- that there is nothing left.
with {clock},
fence as (
    update {schema}.pecker_tickets as ticket
    set leased_until = coalesce(
            clock.now + %(lease)s::float8 * interval '1 second', ticket.leased_until
        )
    from clock
    where {held_ticket}
    returning ticket.job
),
mine as materialized (
    select job.job, job.layer
    from fence
    join {schema}.pecker_jobs as job on job.job = fence.job
    where job.stage = 'sharding'
        and not job.paused
        and job.layer = %(layer)s
        and %(ticket)s <= job.concurrency
),
further as materialized (
    select shard.shard, shard.deaths
    from {schema}.pecker_shards as shard
    where shard.job = (select mine.job from mine)
        and shard.layer = (select mine.layer from mine)
        and shard.status = 100
        and shard.shard > %(after)s
        and {shard_is_ready}
        and (shard.owner is null or shard.owner = %(hostname)s)
    order by shard.shard
    limit 1
    for update of shard skip locked
),
back as materialized (
    select shard.shard, shard.deaths
    from {schema}.pecker_shards as shard
    where shard.job = (select mine.job from mine)
        and shard.layer = (select mine.layer from mine)
        and shard.status = 100
        and shard.shard <= %(after)s
        and {shard_is_ready}
        and (shard.owner is null or shard.owner = %(hostname)s)
    order by shard.shard
    limit (select 1 - count(*) from further)
    for update of shard skip locked
),
first as materialized (
    select further.shard, further.deaths from further
    union all
    select back.shard, back.deaths from back
),
others as materialized (
    select shard.shard
    from {schema}.pecker_shards as shard
    where shard.job = (select mine.job from mine)
        and shard.layer = (select mine.layer from mine)
        and shard.status = 100
        and shard.shard > (select first.shard from first)
        and shard.deaths = 0
        and {shard_is_ready}
        and (shard.owner is null or shard.owner = %(hostname)s)
    order by shard.shard
    limit (select (%(most)s - 1) * (first.deaths = 0)::integer from first)
    for update of shard skip locked
),
chosen as materialized (
    select first.shard, true as first from first
    union all
    select others.shard, false as first from others
),
claimed as (
    update {schema}.pecker_shards as shard
    set status = case when chosen.first then 202 else 201 end,
        ticket = %(ticket)s,
        epoch = %(seq)s,
        ahead = case when shard.deaths = 0 then shard.cursor else shard.ahead end,
        claimed_at = coalesce(shard.claimed_at, clock.now)
    from chosen, mine, clock
    where shard.job = mine.job
        and shard.shard = chosen.shard
    returning shard.shard, shard.layer, shard.origin, shard.lo, shard.hi, shard.cursor,
        shard.ahead, shard.done, shard.failed, shard.deaths, shard.attempt,
        shard.picks, shard.returned, shard.reference, shard.claimed_at
),
begun as (
    update {schema}.pecker_layers as layer
    set started_at = clock.now
    from mine, clock
    where layer.job = mine.job
        and layer.layer = mine.layer
        and layer.started_at is null
        and exists (select from claimed)
)
select claimed.*,
       extract(epoch from clock.now - claimed.claimed_at)::float8 as spent
from claimed, clock
order by claimed.shard

/* celery_sharding:read_items */
-- What shards work on, encoded, as it was stored.
select items.shard, items.body
from {schema}.pecker_items as items
where items.job = %(job)s
    and items.shard = any (%(origins)s::integer[])

/* celery_sharding:read_pending */
-- Items of which an earlier holder of these same shards wrote that they failed.
select error.shard, error.place, error.code
from {schema}.pecker_item_errors as error
where error.job = %(job)s
    and error.origin = any (%(origins)s::integer[])
    and error.shard = any (%(shards)s::integer[])
    and error.place >= 0
order by error.shard, error.place

/* celery_sharding:write_steps */
-- What shards have come to, all of it at once, if the writer still holds its ticket.
--
-- Locks are taken in one order: ticket, shards, layer, job.
--
-- fence:   the ticket's row, renewed. A writer whose hold is being ended waits here
--          for that transaction, finds another number, and writes nothing further.
-- wrote:   the shards that are this hold's and open, by their own rows: what is looked at
--          again after a wait is the row that is written to, and nothing else. All that
--          follows is of these. A write that is repeated because its answer was lost
--          finds them closed or given back, counts nothing twice, and has lost nothing.
-- forgotten: results of a shard whose items run again, so that none is there twice.
-- extra:   items that failed and are to be tried again are shards of their own.
-- number:  after all that the layers have. The row of the layer is locked and counted up
--          by now, so two writers never deal the same numbers.
-- open:    a counter that tells the writer whether to check; the shards are the truth.
with {clock},
fence as (
    update {schema}.pecker_tickets as ticket
    set leased_until = clock.now + %(lease)s * interval '1 second'
    from clock
    where {held_ticket}
    returning ticket.job, ticket.hostname, ticket.holder
),
given as materialized (
    select step.*, step.status not in (100, 201, 202) as ended,
           known.hi - known.lo as planned,
           step.status not in (201, 202)
               and known.status = step.status
               and known.cursor = step.cursor
               and known.epoch = %(seq)s
               and coalesce(known.ticket, %(ticket)s) = %(ticket)s as repeated
    from unnest(
        %(shards)s::integer[], %(cursors)s::integer[], %(aheads)s::integer[],
        %(dones)s::integer[], %(failed)s::integer[], %(returned)s::integer[],
        %(statuses)s::integer[], %(counts)s::integer[]
    ) as step (shard, cursor, ahead, done, failed, returned, status, count)
    left join {schema}.pecker_shards as known
        on known.job = %(job)s
        and known.shard = step.shard
),
wrote as (
    update {schema}.pecker_shards as shard
    set status = given.status,
        cursor = given.cursor,
        ahead = given.ahead,
        done = given.done,
        failed = given.failed,
        returned = given.returned,
        hi = case
            when given.ended and given.count is not null then shard.lo + given.count
            else shard.hi
        end,
        deaths = case when given.cursor > shard.cursor then 0 else shard.deaths end,
        ticket = case when given.status = 100 then null else shard.ticket end,
        claimed_at = case
            when shard.status <> 201 or given.cursor > 0 or shard.deaths > 0
                then shard.claimed_at
            when given.status = 100 then null
            when given.status = 202 then clock.now
            else shard.claimed_at
        end,
        ended_at = case when given.ended then clock.now end
    from given, fence, clock
    where shard.job = fence.job
        and shard.shard = given.shard
        and shard.ticket = %(ticket)s
        and shard.epoch = %(seq)s
        and shard.status in (201, 202)
    returning shard.job, shard.shard, shard.layer, shard.origin, shard.attempt,
        shard.owner,
        shard.done, shard.failed, shard.reference, given.ended,
        case when given.ended and given.count is not null
            then given.count - given.planned
            else 0
        end as growth
),
forgotten as (
    delete from {schema}.pecker_results as result
    using unnest(%(forgotten)s::integer[]) as input (shard), wrote
    where wrote.shard = input.shard
        and result.job = wrote.job
        and result.shard = wrote.shard
),
results as (
    insert into {schema}.pecker_results as result (job, shard, at, body)
    select wrote.job, input.shard, input.at, input.body
    from unnest(
        %(result_shards)s::integer[], %(result_ats)s::integer[], %(results)s::bytea[]
    ) as input (shard, at, body)
    join wrote on wrote.shard = input.shard
    on conflict (job, shard, at) do update
    set body = excluded.body
    where result.at = -1
),
failures as (
    insert into {schema}.pecker_item_errors as error (
        job, origin, place, shard, layer, code, attempt, type, message, traceback,
        item, worker, at
    )
    select wrote.job, input.origin, input.place, input.shard, input.layer, input.code,
           input.attempt, input.type, input.message, input.traceback, input.item,
           coalesce(fence.hostname, fence.holder, ''), clock.now
    from unnest(
        %(error_steps)s::integer[], %(error_origins)s::integer[],
        %(error_places)s::integer[], %(error_shards)s::integer[],
        %(error_layers)s::integer[], %(error_codes)s::integer[],
        %(error_attempts)s::integer[], %(error_types)s::text[],
        %(error_messages)s::text[], %(error_tracebacks)s::text[],
        %(error_items)s::bytea[]
    ) as input (
        step, origin, place, shard, layer, code, attempt, type, message, traceback, item
    )
    join wrote on wrote.shard = input.step
    cross join fence
    cross join clock
    on conflict (job, origin, place) do update
    set {excluded(shard, layer, code, attempt, type, message, traceback, item, worker, at)}
),
mended as (
    delete from {schema}.pecker_item_errors as error
    using unnest(
        %(mended_steps)s::integer[], %(mended_origins)s::integer[],
        %(mended_places)s::integer[]
    ) as input (step, origin, place), wrote
    where wrote.shard = input.step
        and error.job = wrote.job
        and error.origin = input.origin
        and error.place = input.place
),
extra as materialized (
    select wrote.job, wrote.layer, wrote.origin, wrote.attempt, wrote.reference,
           wrote.owner,
           input.picks::integer[] as picks, input.delay,
           row_number() over (order by input.shard) as nth
    from unnest(
        %(retry_shards)s::integer[], %(retry_picks)s::text[], %(retry_delays)s::float8[]
    ) as input (shard, picks, delay)
    join wrote on wrote.shard = input.shard
    where wrote.ended
),
sums as materialized (
    select wrote.job, wrote.layer,
           count(*) filter (where wrote.ended) as closed,
           coalesce(sum(wrote.done) filter (where wrote.ended), 0) as done,
           coalesce(sum(wrote.failed) filter (where wrote.ended), 0) as failed,
           sum(wrote.growth) as growth,
           (select count(*) from extra where extra.layer = wrote.layer) as retried
    from wrote
    group by wrote.job, wrote.layer
),
layer as (
    update {schema}.pecker_layers as layer
    set open = layer.open - sums.closed + sums.retried,
        shards = layer.shards + sums.retried,
        done = layer.done + sums.done,
        failed = layer.failed + sums.failed,
        total = layer.total + sums.growth
    from sums
    where layer.job = sums.job
        and layer.layer = sums.layer
        and sums.closed > 0
    returning layer.layer, layer.open, layer.shards
),
number as materialized (
    select greatest(
               (
                   select max(shard.shard) + 1
                   from {schema}.pecker_shards as shard
                   where shard.job = %(job)s
               ),
               (select sum(layer.shards) from layer)
               + (
                   select coalesce(sum(other.shards), 0)
                   from {schema}.pecker_layers as other
                   where other.job = %(job)s
                       and other.layer not in (select layer.layer from layer)
               )
               - (select count(*) from extra)
           ) as first
),
repeated as (
    insert into {schema}.pecker_shards (
        job, shard, layer, origin, lo, hi, attempt, not_before, picks, reference, owner
    )
    select extra.job, number.first + extra.nth - 1, extra.layer, extra.origin, 0,
           cardinality(extra.picks), extra.attempt + 1,
           clock.now + extra.delay * interval '1 second', extra.picks, extra.reference,
           extra.owner
    from extra, number, clock
),
grown as (
    update {schema}.pecker_jobs as job
    set total = job.total + more.items
    from (select sum(sums.growth) as items from sums) as more
    where job.job = %(job)s
        and more.items <> 0
)
select job.stage, job.paused, job.concurrency, job.layer,
       coalesce(
           (select min(layer.open) from layer),
           (
               select known.open
               from {schema}.pecker_layers as known
               where known.job = job.job
                   and known.layer = job.layer
           ),
           -1
       ) as layer_open,
       array(
           select given.shard
           from given
           where not coalesce(given.repeated, false)
               and not exists (select from wrote where wrote.shard = given.shard)
           order by given.shard
       ) as lost
from fence
join {schema}.pecker_jobs as job on job.job = fence.job

/* celery_sharding:serving_executors */
-- Workers that were seen of late and take messages of these queues (null: of any).
with {clock}
select executor.hostname, executor.slots, executor.direct_queue, executor.started_at,
       executor.seen_at
{living_executors}
    and (%(queues)s::text[] is null or executor.queues && %(queues)s::text[])
order by executor.hostname

/* celery_sharding:orphaned_shards */
-- Open shards, running ones too, whose owner is gone: all of them at once, so that they
-- can be dealt evenly. A holder that lives on goes on with what it holds.
--
-- gone:     it signed off, or cannot be reached any more, or sent no heartbeat while
--           another was.
-- witness:  a worker that sent heartbeats all that time. After PostgreSQL was away each worker
--           seems dead but the first to report, which must not get the shards of all others.
with {clock},
known as materialized (
    select executor.hostname, executor.direct_queue,
           executor.seen_at > past.moment as live,
           executor.seen_at > past.moment and executor.started_at <= past.moment
               as witness
    from {schema}.pecker_executors as executor
    cross join (
        select clock.now - %(fresh)s::float8 * interval '1 second' as moment from clock
    ) as past
)
select shard.job, shard.shard
from {schema}.pecker_jobs as job
join {schema}.pecker_shards as shard on shard.job = job.job
where job.stage <> 'ended'
    and job.stage = 'sharding'
    and job.options ->> 'placement' = 'even'
    and (shard.status = 100 or shard.status in (201, 202))
    and shard.owner is not null
    and not exists (
        select
        from known
        where known.hostname = shard.owner
            and case
                when known.live then known.direct_queue is not null
                else not exists (select from known as other where other.witness)
            end
    )
order by shard.job, shard.shard
limit %(most)s

/* celery_sharding:deal_shards */
-- These shards are for other workers, or for any (null), from their next claim on.
update {schema}.pecker_shards as shard
set owner = dealt.owner
from unnest(%(shards)s::integer[], %(owners)s::text[]) as dealt (shard, owner)
where shard.job = %(job)s
    and shard.shard = dealt.shard
    and (shard.status = 100 or shard.status in (201, 202))

/* celery_sharding:release_shards */
-- What was dealt to a worker that cannot run it is for any.
update {schema}.pecker_shards as shard
set owner = null
where shard.job = %(job)s
    and shard.owner = %(hostname)s
    and (shard.status = 100 or shard.status in (201, 202))

/* celery_sharding:tickets_to_publish_by_worker */
-- As tickets_to_publish, where shards have owners: each ticket is sent to a worker that has some.
--
-- reach:   workers that have a queue of their own; what was sent to one that is not
--          among them any more is lost, and is sent to another at once.
-- known:   what becomes of each ticket. `hostname` is the worker that holds it, or to which it was
--          sent; null: the job's queue, for shards without an owner.
-- room:    how many tickets an owner has use for: one for each shard that it may claim,
--          and no more than its slots and one.
-- needs:   as many of those as the concurrency leaves, the worker that has fewest out first.
with {clock},
{open_job},
reach as materialized (
    select executor.hostname, executor.direct_queue, executor.slots
    {living_executors}
        and executor.direct_queue is not null
),
known as materialized (
    select ticket.ticket, ticket.hostname, ticket.state = 'held' as held,
           ticket.state = 'sent'
               and clock.now < coalesce(
                   ticket.resend_at,
                   ticket.sent_at + %(resend)s::float8 * interval '1 second'
               )
               and (
                   ticket.hostname is null
                   or ticket.hostname in (select reach.hostname from reach)
               ) as sent,
           ticket.state = 'idle'
               and coalesce(ticket.wake_at > clock.now, false) as rests
    from job
    cross join clock
    join {schema}.pecker_tickets as ticket on ticket.job = job.job
),
ready as materialized (
    select shard.owner, count(*) as shards
    {shards_to_take}
    group by shard.owner
),
room as materialized (
    select ready.owner, tally.out,
           least(
               ready.shards - tally.sent,
               coalesce(reach.slots, %(slots)s::integer) + 1 - tally.out
           ) as tickets
    from ready
    left join reach on reach.hostname = ready.owner
    cross join lateral (
        select count(*) filter (
                   where known.sent and known.hostname is not distinct from ready.owner
               ) as sent,
               count(*) filter (
                   where (known.held or known.sent)
                       and (ready.owner is null or known.hostname = ready.owner)
               ) as out
        from known
    ) as tally
    where ready.owner is null
        or reach.hostname is not null
),
wanted as materialized (
    select job.concurrency
        - (select count(*) from known where known.held or known.sent) as tickets
    from job
),
needs as materialized (
    select room.owner,
           row_number() over (order by room.out + nth.ticket, room.owner) as nth
    from job, room, lateral generate_series(
        1, least(room.tickets, job.concurrency)
    ) as nth (ticket)
    order by nth
    limit (select greatest(wanted.tickets, 0) from wanted)
),
chosen as materialized (
    select ticket.job, ticket.ticket
    from {schema}.pecker_tickets as ticket
    where ticket.job = (select job.job from job)
        and ticket.ticket <= (select job.concurrency from job)
        and ticket.state in ('idle', 'sent')
        and ticket.ticket in (
            select known.ticket from known where not known.sent and not known.rests
        )
    order by ticket.state desc, ticket.ticket
    limit (select count(*) from needs)
    for update of ticket skip locked
),
placed as materialized (
    select chosen.job, chosen.ticket, row_number() over (order by chosen.ticket) as nth
    from chosen
),
sent as (
    update {schema}.pecker_tickets as ticket
    set state = 'sent',
        sent_at = clock.now,
        resend_at = clock.now + greatest(
            %(resend)s::float8 * interval '1 second',
            case when ticket.state = 'sent' and ticket.hostname is not distinct from needs.owner
            then least(
                clock.now - coalesce(ticket.wake_at, ticket.sent_at),
                %(resend)s::float8 * interval '30 seconds'
            ) end
        ),
        wake_at = case
            when ticket.state = 'sent' and ticket.hostname is not distinct from needs.owner
                then coalesce(ticket.wake_at, ticket.sent_at)
            else clock.now
        end,
        hostname = needs.owner
    from placed
    join needs on needs.nth = placed.nth
    cross join clock
    where ticket.job = placed.job
        and ticket.ticket = placed.ticket
    returning ticket.ticket, ticket.seq, ticket.hostname
),
missing as materialized (
    select nth.ticket,
           (select count(*) from chosen) + row_number() over (order by nth.ticket) as nth
    from job, lateral generate_series(1, job.concurrency) as nth (ticket)
    where nth.ticket not in (select known.ticket from known)
),
made as (
    insert into {schema}.pecker_tickets as ticket
        (job, ticket, state, sent_at, resend_at, hostname)
    select job.job, missing.ticket, 'sent', clock.now,
           clock.now + %(resend)s::float8 * interval '1 second', needs.owner
    from missing
    join needs on needs.nth = missing.nth
    cross join job
    cross join clock
    on conflict (job, ticket) do nothing
    returning ticket.ticket, ticket.seq, ticket.hostname
)
select summoned.ticket, summoned.seq, reach.direct_queue
from (
    select sent.ticket, sent.seq, sent.hostname from sent
    union all
    select made.ticket, made.seq, made.hostname from made
) as summoned
left join reach on reach.hostname = summoned.hostname

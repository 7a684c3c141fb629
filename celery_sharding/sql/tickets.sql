/* part:held_ticket */
-- The ticket, if it is held under that number (I3).
ticket.job = %(job)s
    and ticket.ticket = %(ticket)s
    and ticket.seq = %(seq)s
    and ticket.state = 'held'

/* part:open_job */
job as materialized (
    select job.job, job.concurrency, job.layer
    from {schema}.pecker_jobs as job
    where job.job = %(job)s
        and job.stage = 'sharding'
        and not job.paused
)

/* part:shards_to_take */
from {schema}.pecker_shards as shard
where shard.job = (select job.job from job)
    and shard.layer = (select job.layer from job)
    and shard.status = 100
    and {shard_is_ready}

/* celery_sharding:take_ticket */
-- Taken once: of all copies of a message only the first finds the number that it names.
--
-- seq:   raised as it is taken: the number of the hold. What the holder before wrote, or
--        a copy of the message still names, is a number that never comes back.
-- open:  a job that is paused, decided or limited to fewer tickets takes none: the ticket
--        lies idle until it is summoned.
with {clock},
job as materialized (
    select job.job, job.task_id, job.task, job.run, job.options, job.call,
           job.continuation, job.concurrency, job.paused, job.layer, job.layers,
           job.stage, job.deadline_at,
           job.stage = 'sharding' and not job.paused
               and %(ticket)s <= job.concurrency as open
    from {schema}.pecker_jobs as job
    where job.job = %(job)s
),
taken as (
    update {schema}.pecker_tickets as ticket
    set state = case when job.open then 'held' else 'idle' end,
        seq = ticket.seq + job.open::integer,
        holder = case when job.open then %(holder)s::text end,
        hostname = case when job.open then %(hostname)s::text end,
        leased_until = case
            when job.open then clock.now + %(lease)s * interval '1 second'
        end,
        sent_at = null,
        wake_at = null
    from job, clock
    where ticket.job = job.job
        and ticket.ticket = %(ticket)s
        and ticket.seq = %(seq)s
        and ticket.state in ('idle', 'sent')
    returning ticket.state, ticket.seq
)
select taken.seq, job.task_id, job.task, job.run, job.options, job.call,
       job.continuation, job.concurrency, job.paused, job.layer, job.layers, job.stage,
       extract(epoch from job.deadline_at - clock.now)::float8 as deadline_in
from taken, job, clock
where taken.state = 'held'

/* celery_sharding:renew_ticket */
-- The hold goes on, if it is one; and how the job stands.
with {clock},
renewed as (
    update {schema}.pecker_tickets as ticket
    set leased_until = clock.now + %(lease)s * interval '1 second'
    from clock
    where {held_ticket}
    returning ticket.job
)
select job.stage, job.paused, job.concurrency, job.layer
from renewed
join {schema}.pecker_jobs as job on job.job = renewed.job

/* celery_sharding:free_ticket */
-- The holder has done: its ticket is on its way to another worker, or lies idle.
--
-- freed:  what is still claimed under it may be claimed by each worker; no death is counted. A claim of
--         this holder that is on its way, unseen by this statement, is an orphan: see
--         free_orphans.
with {clock},
gone as (
    update {schema}.pecker_tickets as ticket
    set state = %(state)s,
        holder = null,
        hostname = null,
        leased_until = null,
        sent_at = case when %(state)s = 'sent' then clock.now end,
        resend_at = clock.now + %(resend)s::float8 * interval '1 second',
        wake_at = clock.now + %(wake_in)s::float8 * interval '1 second'
    from clock
    where {held_ticket}
    returning ticket.job, ticket.ticket, ticket.seq
),
freed as (
    update {schema}.pecker_shards as shard
    set status = 100,
        ticket = null,
        claimed_at = case
            when shard.status = 202 or shard.cursor > 0 or shard.deaths > 0
            then shard.claimed_at
        end
    from gone
    where shard.job = gone.job
        and shard.ticket = gone.ticket
        and shard.epoch = gone.seq
        and shard.status in (201, 202)
)
select gone.seq
from gone

/* celery_sharding:tickets_to_publish */
-- Marks as many tickets as sent as are of use, and returns them to be published.
--
-- tickets: what becomes of each. The message of one that was sent is given up after a
--          while, and after a longer one each time (wake_at of such a ticket: since when
--          it is on its way): where its workers are down, or a queue is long, copies
--          would pile up without end.
-- out:     held, or sent and not yet given up. Those above a concurrency that was
--          lowered count too: they have yet to end.
-- ready:   shards that may be claimed; a ticket that is on its way takes at least one.
-- chosen:  idle ones, and those whose message was not taken; rivals are passed over, and
--          what they chose meanwhile is seen again as it now stands.
-- made:    rows that are not there because the concurrency was lower at first.
with {clock},
{open_job},
tickets as materialized (
    select ticket.ticket, ticket.state,
           ticket.state = 'sent' and clock.now < coalesce(
               ticket.resend_at,
               ticket.sent_at + %(resend)s::float8 * interval '1 second'
           ) as on_its_way
    from job
    cross join clock
    join {schema}.pecker_tickets as ticket on ticket.job = job.job
),
out as materialized (
    select count(*) filter (where tickets.state = 'held') as held,
           count(*) filter (where tickets.on_its_way) as sent
    from tickets
),
ready as materialized (
    select count(*) as shards
    from (
        select
        {shards_to_take}
        limit (select job.concurrency from job)
    ) as any_of_them
),
wanted as materialized (
    select greatest(0, least(
               least(job.concurrency, %(slots)s::integer + 1) - out.held - out.sent,
               ready.shards - out.sent
           )) as tickets
    from job, out, ready
),
chosen as materialized (
    select ticket.job, ticket.ticket
    from {schema}.pecker_tickets as ticket
    where ticket.job = (select job.job from job)
        and ticket.ticket <= (select job.concurrency from job)
        and (
            ticket.state = 'idle' and (
                ticket.wake_at is null
                or ticket.wake_at <= (select clock.now from clock)
            )
            or ticket.state = 'sent' and ticket.ticket in (
                select tickets.ticket from tickets where not tickets.on_its_way
            )
        )
    order by ticket.state desc, ticket.ticket
    limit (select wanted.tickets from wanted)
    for update of ticket skip locked
),
sent as (
    update {schema}.pecker_tickets as ticket
    set state = 'sent',
        sent_at = clock.now,
        resend_at = clock.now + greatest(
            %(resend)s::float8 * interval '1 second',
            case when ticket.state = 'sent' then least(
                clock.now - coalesce(ticket.wake_at, ticket.sent_at),
                %(resend)s::float8 * interval '30 seconds'
            ) end
        ),
        wake_at = case
            when ticket.state = 'sent' then coalesce(ticket.wake_at, ticket.sent_at)
            else clock.now
        end
    from chosen, clock
    where ticket.job = chosen.job
        and ticket.ticket = chosen.ticket
    returning ticket.ticket, ticket.seq
),
made as (
    insert into {schema}.pecker_tickets as ticket
        (job, ticket, state, sent_at, resend_at)
    select job.job, missing.ticket, 'sent', clock.now,
           clock.now + %(resend)s::float8 * interval '1 second'
    from job, clock, lateral (
        select nth.ticket
        from generate_series(1, job.concurrency) as nth (ticket)
        where not exists (
            select
            from {schema}.pecker_tickets as known
            where known.job = job.job
                and known.ticket = nth.ticket
        )
        order by nth.ticket
        limit (select wanted.tickets from wanted) - (select count(*) from chosen)
    ) as missing
    on conflict (job, ticket) do nothing
    returning ticket.ticket, ticket.seq
)
select sent.ticket, sent.seq
from sent
union all
select made.ticket, made.seq
from made

/* celery_sharding:resend_tickets */
-- Tickets whose message was not taken are on their way once more, those that wait longest
-- first; returned are those that are to be published.
--
-- overdue:  jobs whose shards belong to workers are left out: see tickets_to_publish_by_worker.
-- sent:     of a job that takes no ticket now they lie idle, until they are summoned.
with {clock},
overdue as materialized (
    select ticket.job, ticket.ticket, job.open, job.task, job.queue, job.continuation
    from {schema}.pecker_tickets as ticket
    cross join lateral (
        select one.stage = 'sharding' and not one.paused
                   and ticket.ticket <= one.concurrency as open,
               one.task, one.options ->> 'queue' as queue, one.continuation
        from {schema}.pecker_jobs as one
        where one.job = ticket.job
            and one.options ->> 'placement' is distinct from 'even'
        limit 1
    ) as job
    where ticket.state = 'sent'
        and coalesce(ticket.resend_at, ticket.sent_at) <= (select clock.now from clock)
        and coalesce(
            ticket.resend_at, ticket.sent_at + %(resend)s::float8 * interval '1 second'
        ) <= (select clock.now from clock)
    order by coalesce(ticket.resend_at, ticket.sent_at)
    limit %(most)s
    for update of ticket skip locked
),
sent as (
    update {schema}.pecker_tickets as ticket
    set state = case when overdue.open then 'sent' else 'idle' end,
        sent_at = case when overdue.open then clock.now end,
        resend_at = clock.now + greatest(
            %(resend)s::float8 * interval '1 second',
            least(
                clock.now - coalesce(ticket.wake_at, ticket.sent_at),
                %(resend)s::float8 * interval '30 seconds'
            )
        ),
        wake_at = case
            when overdue.open then coalesce(ticket.wake_at, ticket.sent_at)
        end
    from overdue, clock
    where ticket.job = overdue.job
        and ticket.ticket = overdue.ticket
    returning ticket.job, ticket.ticket, ticket.seq, overdue.open, overdue.task,
        overdue.queue, overdue.continuation
)
select sent.job, sent.ticket, sent.seq, sent.task, sent.queue, sent.continuation
from sent
where sent.open

/* celery_sharding:unsent_tickets */
-- The broker did not take their messages: they lie idle, until the next sweep.
with {clock}
update {schema}.pecker_tickets as ticket
set state = 'idle',
    hostname = null,
    sent_at = null,
    wake_at = clock.now + interval '1 second'
from unnest(%(tickets)s::integer[], %(seqs)s::bigint[]) as released (ticket, seq), clock
where ticket.job = %(job)s
    and ticket.ticket = released.ticket
    and ticket.seq = released.seq
    and ticket.state = 'sent'

/* part:held_no_more */
state = 'idle',
seq = ticket.seq + 1,
holder = null,
hostname = null,
leased_until = null,
wake_at = null

/* celery_sharding:end_expired_holds */
-- A holder that did not renew the lease of its ticket holds nothing from here on.
--
-- A renewal that comes first is seen: a row that has changed is looked at again as it
-- now is. One that comes later names a number that is gone. The shards are freed by
-- another statement: this one cannot see what was claimed while it waited its turn.
with {clock},
lapsed as materialized (
    select ticket.job, ticket.ticket
    from {schema}.pecker_tickets as ticket
    where ticket.state = 'held'
        and ticket.leased_until <= (select clock.now from clock)
        and (%(job)s::bigint is null or ticket.job = %(job)s::bigint)
    order by ticket.leased_until
    limit %(most)s
    for update of ticket skip locked
)
update {schema}.pecker_tickets as ticket
set {held_no_more}
from lapsed
where ticket.job = lapsed.job
    and ticket.ticket = lapsed.ticket
returning ticket.job

/* celery_sharding:end_holds */
-- All holds of a process that is known to be dead end at once, or all of a job.
update {schema}.pecker_tickets as ticket
set {held_no_more}
where ticket.state = 'held'
    and (%(job)s::bigint is null or ticket.job = %(job)s::bigint)
    and (%(prefix)s::text is null or starts_with(ticket.holder, %(prefix)s::text))
returning ticket.job

/* celery_sharding:free_orphans */
-- Shards that are claimed under a hold which is no more may be claimed again; the cursor
-- stays.
--
-- died:      their holder may have died of any of them: short ones are run one after the
--            other without a write in between. Each is claimed alone from here on.
-- shard:     unless it is known which one was in hand, of the job `over`. Then no other
--            counts a death, and all of its own items are suspects (ahead).
-- A hold is its ticket and number, and a number that is gone does not come back: what is
-- seen to be an orphan stays one.
--
-- orphaned:  as they stood when the statement began.
-- caught:    locked, and still claimed under that same hold. Looking for the hold again
--            here would be wrong: a shard that was claimed anew meanwhile would be judged
--            by tickets as they stood before, and taken from its new holder.
with orphaned as materialized (
    select shard.job, shard.shard, shard.ticket, shard.epoch
    from {schema}.pecker_shards as shard
    where shard.status in (201, 202)
        and (%(jobs)s::bigint[] is null or shard.job = any (%(jobs)s::bigint[]))
        and not exists (
            select
            from {schema}.pecker_tickets as hold
            where hold.job = shard.job
                and hold.ticket = shard.ticket
                and hold.seq = shard.epoch
                and hold.state = 'held'
        )
),
caught as materialized (
    select shard.job, shard.shard,
           %(shard)s::integer is null
               or shard.job = %(over)s::bigint and shard.shard = %(shard)s::integer
               as blamed
    from orphaned
    join {schema}.pecker_shards as shard
        on shard.job = orphaned.job
        and shard.shard = orphaned.shard
        and shard.ticket = orphaned.ticket
        and shard.epoch = orphaned.epoch
        and shard.status in (201, 202)
    for update of shard skip locked
)
update {schema}.pecker_shards as shard
set status = 100,
    ticket = null,
    deaths = shard.deaths + (caught.blamed and %(died)s)::integer,
    ahead = case
        when caught.blamed and %(died)s and %(shard)s::integer is not null
            and shard.deaths = 0 and shard.ahead <= shard.cursor then 2147483647
        else shard.ahead
    end
from caught
where shard.job = caught.job
    and shard.shard = caught.shard
returning shard.job

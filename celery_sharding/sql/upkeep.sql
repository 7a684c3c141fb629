/* part:message_is_due */
-- Its own message was not taken, or its stage was left by a dead process.
(
    job.stage = 'delivering'
    or (job.stage in ('submitted', 'planning') and job.follows is null)
    or (job.stage = 'posting' and not job.paused)
)
and (job.leased_until is null or job.leased_until <= clock.now)
and (
    job.sent_at is null
    or job.sent_at < job.leased_until
    or clock.now - job.sent_at >= greatest(
        %(resend)s::float8 * interval '1 second',
        least(
            job.sent_at - coalesce(job.leased_until, job.submitted_at),
            %(resend)s::float8 * interval '30 seconds'
        )
    )
)

/* part:step */
-- How far the clock was set back, and what lies before that was written since.
step as materialized (
    select clock.now, clock.now + %(seconds)s::float8 * interval '0.5 seconds' as past,
           %(seconds)s::float8 * interval '1 second' as back
    from clock
)

/* part:set_back */
$1 - case when $1 > step.past then step.back else '0' end

/* part:purge */
-- Rows of these jobs, some at a time.
delete from {schema}.$1 as gone
where gone.ctid = any (array(
    select one.ctid from {schema}.$1 as one
    where one.job = any (%(jobs)s::bigint[])
    limit %(most)s
))

/* part:shards_of_layer */
from {schema}.pecker_shards as shard
where shard.job = job.job
    and shard.layer = job.layer

/* celery_sharding:due_messages */
-- Jobs whose own message was not taken, or whose stage was left by a dead process; the
-- conditions are those of send_again, which decides who sends.
with {clock}
select job.job
from {schema}.pecker_jobs as job, clock
where job.stage in ('submitted', 'planning', 'posting', 'delivering')
    and {message_is_due}
order by coalesce(job.sent_at, job.submitted_at)
limit %(most)s

/* celery_sharding:due_shards */
-- Jobs with shards that have to be moved on, those that were checked longest ago
-- first. With 10,000 open jobs nearly all need nothing, and a look at each takes minutes.
--
-- out:      tickets that are held or on their way. What is overdue is neither.
-- closed:   no shard of the layer is open, and the process that closed the last one died before
--           it went on. The counter says so; where no ticket is out the shards are asked.
-- wanting:  more tickets are of use than are out.
-- ready:    a shard may be claimed that no ticket on its way will take.
-- spare:    and there is a ticket for it that does not rest.
with {clock},
out as materialized (
    select one.job, count(*) as tickets, sum(one.sent) as sent
    from (
        select ticket.job, 0 as sent
        from {schema}.pecker_tickets as ticket
        where ticket.state = 'held'
        union all
        select ticket.job, 1
        from {schema}.pecker_tickets as ticket
        where ticket.state = 'sent'
            and coalesce(ticket.resend_at, ticket.sent_at)
                > (select clock.now from clock)
    ) as one
    group by one.job
)
select job.job
from {schema}.pecker_jobs as job
left join out on out.job = job.job
left join lateral (
    select known.open
    from {schema}.pecker_layers as known
    where known.job = job.job and known.layer = job.layer
    limit 1
) as layer on true
where job.stage = 'sharding'
    and not job.paused
    and case
        when coalesce(layer.open, 0) <= 0 then true
        when coalesce(out.tickets, 0)
            >= least(job.concurrency, %(slots)s::integer + 1, layer.open) then false
        when (
            select count(*)
            from (
                select
                {shards_of_layer}
                    and shard.status = 100
                    and {shard_is_ready}
                limit coalesce(out.sent, 0) + 1
            ) as ready
        ) > coalesce(out.sent, 0) then exists (
            select
            from {schema}.pecker_tickets as spare
            where spare.job = job.job
                and spare.ticket <= job.concurrency
                and spare.state <> 'held'
                and (
                    spare.state = 'sent'
                    or spare.wake_at is null
                    or spare.wake_at <= (select clock.now from clock)
                )
        ) or (
            select count(*)
            from {schema}.pecker_tickets as known
            where known.job = job.job and known.ticket <= job.concurrency
        ) < job.concurrency
        else out.job is null and not exists (
            select
            {shards_of_layer}
                and shard.status = 100
        ) and not exists (
            select
            {shards_of_layer}
                and shard.status in (201, 202)
        )
    end
order by job.reported_at nulls first, job.job
limit %(most)s

/* celery_sharding:due_reports */
-- Jobs that run now, and whose progress was last reported a second ago; and those whose
-- message for Notify was lost (call_notify).
with {clock},
one as materialized (
    select ticket.job
    from {schema}.pecker_tickets as ticket
    where ticket.state = 'held'
    union
    select job.job
    from {schema}.pecker_jobs as job
    where job.stage = 'sharding'
        and job.sent_at <= (select clock.now from clock)
            - %(resend)s::float8 * interval '6 seconds'
)
select job.job
from one
join {schema}.pecker_jobs as job on job.job = one.job
where job.stage = 'sharding'
    and not job.paused
    and (
        job.reported_at is null
        or job.reported_at <= (select clock.now from clock)
            - %(every)s::float8 * interval '1 second'
    )
order by job.reported_at nulls first, job.job
limit %(most)s

/* celery_sharding:due_followers */
-- Jobs that were decided, and some of their followers were not.
select distinct leader.job
from {schema}.pecker_jobs as job
join {schema}.pecker_jobs as leader on leader.job = job.follows
where job.follows is not null
    and job.stage not in ('delivering', 'ended')
    and leader.stage in ('delivering', 'ended')
limit %(most)s

/* celery_sharding:over_deadline */
-- Jobs whose last item should have ended by now; Post is beyond it.
with {clock}
select job.job, job.task_id, job.options ->> 'deadline' as deadline
from {schema}.pecker_jobs as job, clock
where job.stage in ('submitted', 'planning', 'sharding')
    and job.deadline_at <= clock.now
order by job.deadline_at
limit %(most)s

/* celery_sharding:clock_ahead */
-- By how many seconds that which was written of late lies ahead of the clock: more than
-- a little, if it was set back, or another server answers now.
with {clock}
select extract(epoch from greatest(
           (select max(executor.seen_at) from {schema}.pecker_executors as executor),
           (
               select ticket.sent_at
               from {schema}.pecker_tickets as ticket
               where ticket.state = 'sent'
               order by coalesce(ticket.resend_at, ticket.sent_at) desc
               limit 1
           )
       ) - clock.now)::float8 as seconds
from clock

/* celery_sharding:set_back_tickets */
-- After the clock was set back: leases of the dead, messages that were lost and rests
-- would else last as much longer. What was written since is left: it lies before `past`.
with {clock},
{step}
update {schema}.pecker_tickets as ticket
set leased_until = {set_back(ticket.leased_until)},
    sent_at = {set_back(ticket.sent_at)},
    wake_at = {set_back(ticket.wake_at)},
    resend_at = {set_back(ticket.resend_at)}
from step
where greatest(
        ticket.leased_until, ticket.sent_at, ticket.wake_at, ticket.resend_at
    ) > step.past

/* celery_sharding:set_back_shards */
-- So would the pause before another attempt.
with {clock},
{step}
update {schema}.pecker_shards as shard
set not_before = shard.not_before - step.back
from step
where shard.status = 100 and shard.not_before > step.past

/* celery_sharding:set_back_jobs */
-- And leases and messages of stages. A deadline counts from the submission: both are set
-- back where that lies ahead, so it is known that the old clock wrote them.
with {clock},
{step}
update {schema}.pecker_jobs as job
set leased_until = {set_back(job.leased_until)},
    sent_at = {set_back(job.sent_at)},
    reported_at = {set_back(job.reported_at)},
    notifier_until = {set_back(job.notifier_until)},
    deadline_at = job.deadline_at
        - case when job.submitted_at > step.now then step.back else '0' end,
    submitted_at = job.submitted_at
        - case when job.submitted_at > step.now then step.back else '0' end
from step
where job.stage <> 'ended'
    and (
        greatest(
            job.leased_until, job.sent_at, job.reported_at, job.notifier_until
        ) > step.past
        or job.submitted_at > step.now
    )

/* celery_sharding:set_back_executors */
-- And so would workers that are gone be taken for living ones.
with {clock},
{step}
update {schema}.pecker_executors as executor
set seen_at = executor.seen_at - step.back,
    started_at = executor.started_at - step.back
from step
where executor.seen_at > step.past

/* celery_sharding:record_executor */
-- A worker that runs shards is there, with so many at once.
--
-- started_at:  since when its heartbeats have no gap: only a worker that sent them all the
--              time can witness that another did not.
with {clock}
insert into {schema}.pecker_executors as executor
    (hostname, slots, direct_queue, queues, started_at, seen_at)
select %(hostname)s, %(slots)s, %(direct_queue)s, %(queues)s, clock.now, clock.now
from clock
on conflict (hostname) do update
set {excluded(slots, direct_queue, queues)},
    started_at = case
        when executor.seen_at
                > excluded.seen_at - %(fresh)s::float8 * interval '1 second'
            then executor.started_at
        else excluded.started_at
    end,
    seen_at = excluded.seen_at

/* celery_sharding:forget_executor */
-- A worker says good-bye.
delete from {schema}.pecker_executors as executor
where executor.hostname = %(hostname)s

/* celery_sharding:forget_silent_executors */
-- Workers without a heartbeat for a day.
with {clock}
delete from {schema}.pecker_executors as executor
using clock
where executor.seen_at < clock.now - interval '1 day'

/* celery_sharding:live_slots */
-- How many shards the workers that were seen of late run at once; null: none was seen.
with {clock}
select sum(executor.slots)
{living_executors}

/* celery_sharding:write_figures */
{write_figures}

/* celery_sharding:count_jobs */
-- Jobs that were submitted and that ended in each minute that is over and not written yet;
-- followers run nothing. One that was submitted lately is open, or has ended lately:
-- no index of submissions is needed. A transaction may write some seconds after its instant.
with {clock},
span as materialized (
    select coalesce(max(written.at) + interval '1 minute',
               date_trunc('minute', clock.now - interval '8 minutes')) as since,
           date_trunc('minute', clock.now - interval '10 seconds') as until
    from clock
        left join lateral (
            select figures.at
            from generate_series(0, 15) as part (part)
            join {schema}.pecker_figures as figures
                on figures.step = 1
                and figures.part = part.part
                and figures.at > clock.now - interval '10 minutes'
            where figures.holder = %(holder)s
        ) as written on true
    group by clock.now
),
lately as (
    select job.task, job.submitted_at, job.outcome, job.ended_at
    from span, {schema}.pecker_jobs as job
    where job.stage <> 'ended' and job.submitted_at >= span.since and job.follows is null
    union all
    select job.task, job.submitted_at, job.outcome, job.ended_at
    from span, {schema}.pecker_jobs as job
    where job.stage = 'ended' and job.ended_at >= span.since and job.follows is null
)
select {us(date_trunc('minute', event.at))}, lately.task, event.what, count(*)
from span, lately,
    lateral (
        values ('submitted', lately.submitted_at), (lately.outcome, lately.ended_at)
    ) as event (what, at)
where event.at >= span.since and event.at < span.until
group by date_trunc('minute', event.at), lately.task, event.what

/* celery_sharding:forget_jobs */
-- Jobs that are forgotten from now on: no follower of one waits for its outcome.
--
-- holder:  the mark. Rows of a job go in many bites, its own last, and a job that ran
--          again in between would be given a part of its items for all of them. So the
--          rerun (reopen_job) and the purge write the same row first.
with {clock},
chosen as materialized (
    select job.job
    from {schema}.pecker_jobs as job
    where job.stage = 'ended'
        and job.ended_at <= (select clock.now from clock)
            - %(retention)s::float8 * interval '1 second'
        and not exists (
            select from {schema}.pecker_jobs as other
            where other.follows = job.job and other.stage <> 'ended'
        )
    order by job.ended_at
    limit %(most)s
    for update of job skip locked
)
update {schema}.pecker_jobs as job
set holder = 'purge'
from chosen
where job.job = chosen.job
returning job.job

/* celery_sharding:purge_results */
-- Results of these jobs, some at a time.
{purge(pecker_results)}

/* celery_sharding:purge_errors */
-- Errors of these jobs, some at a time.
{purge(pecker_item_errors)}

/* celery_sharding:purge_items */
-- Items of these jobs, some at a time.
{purge(pecker_items)}

/* celery_sharding:purge_shards */
-- Shards of these jobs, some at a time.
{purge(pecker_shards)}

/* celery_sharding:purge_tickets */
-- Tickets of these jobs, some at a time.
{purge(pecker_tickets)}

/* celery_sharding:purge_layers */
-- Layers of these jobs, some at a time.
{purge(pecker_layers)}

/* celery_sharding:purge_jobs */
-- Jobs of which nothing else is left.
delete from {schema}.pecker_jobs as job
where job.job = any (%(jobs)s::bigint[]) and job.stage = 'ended'

/* celery_sharding:purge_inputs */
-- Items that were given in calls long ago, some at a time. The planner of a job reads them, so
-- while a job that old is not planned, all stay; and for an hour in any case, because they
-- are stored before the job that names them.
with {clock},
old as materialized (
    select clock.now - greatest(%(retention)s::float8, 3600) * interval '1 second' as at
    from clock
)
delete from {schema}.pecker_inputs as input
where input.ctid = any (array(
    select one.ctid
    from {schema}.pecker_inputs as one, old
    where one.stored_at <= old.at
        and not exists (
            select from {schema}.pecker_jobs as job
            where job.stage <> 'ended'
                and job.stage in ('submitted', 'planning')
                and job.submitted_at <= old.at
        )
    limit %(most)s
))

/* part:ended_stage */
epoch = job.epoch + 1,
attempts = 0,
holder = null,
leased_until = clock.now,
sent_at = null

/* part:taken_job */
-- Its stage is one process's from now on.
attempts = job.attempts + 1,
holder = %(holder)s,
leased_until = clock.now + %(lease)s::float8 * interval '1 second'
from clock
where job.task_id = %(task_id)s

/* part:of_layers */
coalesce((
    select sum($1)
    from {schema}.pecker_layers as layer
    where layer.job = job.job
), 0)::bigint

/* part:of_held_shards */
coalesce((
    select sum($1)
    from {schema}.pecker_shards as shard
    where shard.job = job.job and shard.status in (201, 202)
), 0)::bigint

/* celery_sharding:read_job_state */
-- What there is to decide upon for a job: one snapshot.
--
-- failed:     of ended shards as their layers have it, of held ones as they wrote it.
--             Shards that were given back are counted when they end: then it is exact.
-- open:       whether a shard of the layer that runs has not ended: the set is asked,
--             not the layer's counter.
-- following:  the next layer that has an open shard; empty ones are passed over.
select job.stage, job.layer, job.total, job.options,
       {of_layers(layer.failed)} + {of_held_shards(shard.failed)} as failed,
       exists (
           select from {schema}.pecker_shards as shard
           where shard.job = job.job and shard.layer = job.layer and shard.status = 100
       ) or exists (
           select from {schema}.pecker_shards as shard
           where shard.job = job.job
               and shard.layer = job.layer
               and shard.status in (201, 202)
       ) as open,
       (
           select shard.layer
           from {schema}.pecker_shards as shard
           where shard.job = job.job and shard.layer > job.layer and shard.status = 100
           order by shard.layer
           limit 1
       ) as following
from {schema}.pecker_jobs as job
where job.job = %(job)s

/* celery_sharding:count_whole_failures */
-- Shards that failed as a whole although none of their items did.
select count(*)
from {schema}.pecker_item_errors as error
join {schema}.pecker_shards as shard
    on shard.job = error.job and shard.shard = error.shard
where error.job = %(job)s and error.place = -1 and shard.failed = 0

/* celery_sharding:first_failure */
-- One failure to name in a message: the first by place, not by time.
select error.type, error.message
from {schema}.pecker_item_errors as error
where error.job = %(job)s
order by error.origin, error.place
limit 1

/* celery_sharding:next_layer */
-- The layer that runs is closed and the next begins. Of several that saw its end one has
-- a row: the others find another layer here. What is open is asked again, because a layer
-- is closed once and for all.
with {clock},
moved as (
    update {schema}.pecker_jobs as job
    set layer = %(following)s
    where job.job = %(job)s
        and job.stage = 'sharding'
        and job.layer = %(layer)s
        and not exists (
            select from {schema}.pecker_shards as shard
            where shard.job = job.job
                and shard.layer = job.layer
                and shard.status in (100, 201, 202)
        )
    returning job.job
),
closed as (
    update {schema}.pecker_layers as layer
    set closed_at = coalesce(layer.closed_at, clock.now)
    from moved, clock
    where layer.job = moved.job and layer.layer = %(layer)s
)
update {schema}.pecker_layers as layer
set started_at = coalesce(layer.started_at, clock.now)
from moved, clock
where layer.job = moved.job and layer.layer = %(following)s

/* celery_sharding:finish_layers */
-- The last layer is closed, and Post is next; the row is free from now on (leased_until).
--
-- idle:  the caller's ticket, if it has no further use for it.
with {clock},
closed as (
    update {schema}.pecker_layers as layer
    set closed_at = coalesce(layer.closed_at, clock.now)
    from clock
    where layer.job = %(job)s
        and layer.layer = %(layer)s
        and not exists (
            select from {schema}.pecker_shards as shard
            where shard.job = %(job)s and shard.status in (100, 201, 202)
        )
),
moved as (
    update {schema}.pecker_jobs as job
    set stage = 'posting',
        layer = job.layers,
        {ended_stage}
    from clock
    where job.job = %(job)s
        and job.stage = 'sharding'
        and job.layer = %(layer)s
        and not exists (
            select from {schema}.pecker_shards as shard
            where shard.job = job.job and shard.status in (100, 201, 202)
        )
    returning job.job
),
idle as (
    update {schema}.pecker_tickets as ticket
    set state = 'idle', holder = null, hostname = null, leased_until = null
    from moved
    where ticket.job = moved.job
        and ticket.ticket = %(ticket)s::integer
        and ticket.seq = %(seq)s::bigint
        and ticket.state = 'held'
)
select moved.job
from moved

/* celery_sharding:decide_job */
-- The job has an outcome, once: a later caller changes no row. Its message is to be
-- sent at once (sent_at, leased_until), and its stage's holder may write no more (epoch).
with {clock}
update {schema}.pecker_jobs as job
set stage = 'delivering',
    outcome = %(outcome)s,
    value = %(value)s,
    error = %(error)s,
    {ended_stage},
    decided_at = clock.now
from clock
where job.job = %(job)s
    and job.stage = any (%(stages)s::text[])
    and (%(holder)s::text is null or starts_with(job.holder, %(holder)s::text))

/* celery_sharding:decide_followers */
-- Followers of a job share its outcome. Run after the leader's row was written, in the
-- same transaction, and again by the sweeper.
with {clock}
update {schema}.pecker_jobs as job
set stage = 'delivering',
    outcome = leader.outcome,
    value = leader.value,
    error = leader.error,
    total = leader.total,
    {ended_stage},
    decided_at = clock.now
from {schema}.pecker_jobs as leader, clock
where leader.job = %(job)s
    and leader.stage in ('delivering', 'ended')
    and job.follows = leader.job
    and job.stage not in ('delivering', 'ended')

/* celery_sharding:begin_post */
-- The process that gets this row runs Post: none does, or its lease has ended. A paused job
-- waits. A message of an earlier run starts nothing.
with {clock}
update {schema}.pecker_jobs as job
set epoch = job.epoch + 1,
    {taken_job}
    and job.stage = 'posting'
    and job.run = %(run)s
    and not job.paused
    and (job.leased_until is null or job.leased_until <= clock.now)
returning job.job, job.epoch, job.task, job.call, job.options, job.run, job.attempts,
          job.total, {of_layers(layer.done)} as done, {of_layers(layer.failed)} as failed

/* celery_sharding:renew_stage */
-- The process that plans, posts or reports the outcome is alive. No row: another does, or it
-- is over.
--
-- stages:  those whose lease this is.
with {clock}
update {schema}.pecker_jobs as job
set leased_until = clock.now + %(lease)s::float8 * interval '1 second'
from clock
where job.job = %(job)s
    and job.epoch = %(epoch)s
    and job.stage = any(%(stages)s::text[])

/* celery_sharding:free_stage */
-- The process that ran PreProcess or Post gives it up, and lives: another may begin at once.
--
-- counts:  whether this beginning is one of those after which it is not begun any more.
with {clock}
update {schema}.pecker_jobs as job
set leased_until = clock.now,
    attempts = case
        when %(counts)s then job.attempts else greatest(job.attempts - 1, 0)
    end
from clock
where job.job = %(job)s
    and job.epoch = %(epoch)s
    and job.stage in ('planning', 'posting')

/* celery_sharding:end_post */
-- The result of Post is the job's outcome, if its process still holds the row. It goes on
-- to report, so the row stays its own for a lease. Written twice where the first answer
-- was lost.
with {clock}
update {schema}.pecker_jobs as job
set stage = 'delivering',
    outcome = %(outcome)s,
    value = %(value)s,
    error = %(error)s,
    attempts = 1,
    leased_until = clock.now + %(lease)s::float8 * interval '1 second',
    sent_at = clock.now,
    decided_at = clock.now
from clock
where job.job = %(job)s
    and job.epoch = %(epoch)s
    and job.holder = %(holder)s
    and job.stage in ('posting', 'delivering')

/* celery_sharding:begin_delivery */
-- The process that gets this row reports the outcome to Celery: none does, or its lease has ended.
with {clock}
update {schema}.pecker_jobs as job
set epoch = job.epoch + 1,
    {taken_job}
    and job.stage = 'delivering'
    and job.run = %(run)s
    and (job.leased_until is null or job.leased_until <= clock.now)
returning job.job, job.epoch, job.task, job.outcome, job.value, job.error, job.run,
          job.attempts, job.continuation

/* celery_sharding:end_delivery */
-- Celery knows the outcome. A failure to report a success is none of the job's, so
-- such a job stays to be reported; but not without end.
--
-- run:  of which run the outcome is. A process that froze while it reported an earlier one, and wakes
--       when the job has run again, must not end the report of the present one.
with {clock}
update {schema}.pecker_jobs as job
set stage = 'ended',
    ended_at = clock.now,
    holder = null,
    leased_until = null
from clock
where job.task_id = %(task_id)s
    and job.stage = 'delivering'
    and (%(run)s::integer is null or job.run = %(run)s::integer)
    and (
        not %(troubled)s
        or job.outcome is distinct from 'succeeded'
        or job.attempts >= %(most)s
    )

/* celery_sharding:end_stages */
-- A process that is known to be dead plans, posts or reports no more: its lease ends now, and
-- another message is sent.
with {clock}
update {schema}.pecker_jobs as job
set leased_until = clock.now,
    sent_at = null
from clock
where job.stage in ('planning', 'posting', 'delivering')
    and job.leased_until > clock.now
    and starts_with(job.holder, %(prefix)s::text)
returning job.job

/* celery_sharding:read_outcome */
-- The outcome of the job of that task id, if it has one.
select job.stage, job.outcome, job.value, job.error
from {schema}.pecker_jobs as job
where job.task_id = %(task_id)s

/* celery_sharding:send_again */
-- Which messages of a job, and of those that follow it, are to be sent now: each has one
-- sender. No process works at its stage, and no message was sent since; or the last one was
-- not taken for long, and longer each time: the queue may be as long.
with {clock}
update {schema}.pecker_jobs as job
set sent_at = clock.now
from clock
where (job.job = %(job)s or job.follows = %(job)s)
    and {message_is_due}
returning job.job, job.task_id, job.task, job.stage, job.outcome, job.run,
          job.continuation

/* celery_sharding:unsent_job */
-- The broker did not take its message: another is sent with the next sweep, however
-- often it was tried.
update {schema}.pecker_jobs as job
set sent_at = null
where job.job = %(job)s and job.stage <> 'ended'

/* celery_sharding:read_progress */
-- How far a job is by what its layers and held shards say, and how far it was reported.
select job.task_id, job.task, job.stage, job.call, job.run, job.options,
       job.continuation, job.total, job.notified,
       {of_layers(layer.done + layer.failed)}
           + {of_held_shards(shard.done + shard.failed)} as ended
from {schema}.pecker_jobs as job
where job.job = %(job)s

/* celery_sharding:hold_notify */
-- The process that gets this row calls Notify, alone, until it releases the row or is silent for long.
with {clock}
update {schema}.pecker_jobs as job
set notifier = %(holder)s,
    notifier_until = clock.now + %(lease)s::float8 * interval '1 second'
from clock
where job.job = %(job)s
    and (
        job.notifier is null
        or job.notifier = %(holder)s
        or job.notifier_until <= clock.now
    )

/* celery_sharding:release_notify */
-- Another may call Notify.
update {schema}.pecker_jobs as job
set notifier = null, notifier_until = null
where job.job = %(job)s and job.notifier = %(holder)s

/* celery_sharding:notify_step */
-- The process that gets this row reports that threshold, before any reports the next;
-- and another message for Notify may be sent (call_notify).
update {schema}.pecker_jobs as job
set notified = %(step)s,
    sent_at = case when job.stage <> 'sharding' then job.sent_at end
where job.job = %(job)s
    and job.notified = %(step)s - 1
    and job.notifier is not distinct from %(holder)s::text

/* celery_sharding:call_notify */
-- The process that gets this row sends a message for Notify: one at a time, and another when it was
-- not taken for long. While shards run, sent_at is of no other use.
with {clock}
update {schema}.pecker_jobs as job
set sent_at = clock.now
from clock
where job.job = %(job)s
    and job.stage = 'sharding'
    and (
        job.sent_at is null
        or job.sent_at <= clock.now - %(resend)s::float8 * interval '6 seconds'
    )

/* celery_sharding:claim_progress */
-- The process that gets this row reports the progress to the result backend: one in a while.
with {clock}
update {schema}.pecker_jobs as job
set reported_at = clock.now
from clock
where job.job = %(job)s
    and job.stage = 'sharding'
    and (
        job.reported_at is null
        or job.reported_at <= clock.now - %(every)s::float8 * interval '1 second'
    )

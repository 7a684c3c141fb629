/* celery_sharding:store_items */
-- Items that were given in a call stand here before any message or row names them.
with {clock}
insert into {schema}.pecker_inputs (ref, items, body, stored_at)
select %(ref)s, %(items)s, %(body)s, clock.now
from clock
on conflict (ref) do nothing

/* celery_sharding:load_items */
-- What was stored under that reference.
select input.body
from {schema}.pecker_inputs as input
where input.ref = %(ref)s

/* celery_sharding:touch_items */
-- A call names items that were stored with its signature, perhaps long ago: they are kept
-- as if they had been stored now, which is written down where it is more than a minute.
-- Returns how many there are; fewer than references: some were purged.
with {clock},
touched as (
    update {schema}.pecker_inputs as input
    set stored_at = clock.now
    from clock
    where input.ref = any (%(refs)s::text[])
        and input.stored_at < clock.now - interval '1 minute'
)
select count(*)
from {schema}.pecker_inputs as input
where input.ref = any (%(refs)s::text[])

/* celery_sharding:submit_job */
-- A new job; none if its task id is known, or its key has a leader that has not ended:
-- the unique indexes decide, so of two callers at once one is first.
with {clock}
insert into {schema}.pecker_jobs
    (task_id, task, key, concurrency, options, call, continuation, submitted_at,
     deadline_at)
select %(task_id)s, %(task)s, %(key)s, %(concurrency)s, %(options)s, %(call)s,
       %(continuation)s, clock.now, clock.now + %(deadline)s::float8 * interval '1 second'
from clock
on conflict do nothing
returning job

/* celery_sharding:follow_job */
-- A job under its own task id whose outcome is that of the leader of its key. There is
-- no row when the leader has ended or was withdrawn meanwhile: then the key is free.
--
-- led:  the leader's row is written, unchanged, so that it waits for a transaction that decides or
--       withdraws it, and that one for this. Both write that row first and look for followers
--       in a second statement: they see each one that was here before them.
with {clock},
led as (
    update {schema}.pecker_jobs as leader
    set key = leader.key
    where leader.job = %(leader)s
        and leader.follows is null
        and leader.stage not in ('delivering', 'ended')
    returning leader.job, leader.task, leader.key
)
insert into {schema}.pecker_jobs
    (task_id, task, key, concurrency, options, call, continuation, submitted_at, follows)
select %(task_id)s, led.task, led.key, %(concurrency)s, %(options)s, %(call)s,
       %(continuation)s, clock.now, led.job
from clock, led
on conflict do nothing
returning job

/* celery_sharding:known_job */
-- The job of that task id, the one that it follows, where it is, in which run, and whether
-- the purge has it.
select job.job, leader.task_id, job.stage, job.run,
       job.stage = 'ended' and job.holder is not null as forgotten
from {schema}.pecker_jobs as job
left join {schema}.pecker_jobs as leader on leader.job = job.follows
where job.task_id = %(task_id)s

/* celery_sharding:leader_of_key */
-- The job that has that key: at most one (pecker_jobs_key).
select job.job, job.task_id
from {schema}.pecker_jobs as job
where job.task = %(task)s
    and job.key = %(key)s
    and job.follows is null
    and job.stage not in ('delivering', 'ended')

/* celery_sharding:reach_job */
-- Its message arrived: what Celery says there of chain, chord and links is more than the
-- caller knew. Once the job is planned it stays as it is: a message that is sent again
-- carries what stands here.
with reached as (
    update {schema}.pecker_jobs as job
    set continuation = job.continuation || %(continuation)s
    where job.task_id = %(task_id)s
        and job.stage = 'submitted'
        and job.continuation <> job.continuation || %(continuation)s
    returning job.stage
)
select stage from reached
union all
select job.stage
from {schema}.pecker_jobs as job
where job.task_id = %(task_id)s and not exists (select from reached)

/* celery_sharding:sent_job */
-- The caller's message is on its way, to be taken from then on: no other is sent
-- before.
with {clock}
update {schema}.pecker_jobs as job
set sent_at = clock.now + %(after)s::float8 * interval '1 second'
from clock
where job.task_id = %(task_id)s and job.stage = 'submitted'

/* celery_sharding:hold_submitted */
-- The job does not begin and gets no followers until the transaction around has ended.
update {schema}.pecker_jobs as job
set key = job.key
where job.task_id = %(task_id)s and job.stage = 'submitted' and job.epoch = 0
returning job

/* celery_sharding:withdraw_job */
-- As if it had not been submitted, unless another call follows it. In a statement of its own,
-- after the row is held: it sees each follower that was there before.
delete from {schema}.pecker_jobs as job
where job.job = %(job)s
    and not exists (
        select from {schema}.pecker_jobs as other where other.follows = job.job
    )

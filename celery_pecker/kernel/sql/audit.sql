/* part:act_state */
case when act.undone_by is not null then 'undone'
     when act.error is not null then 'failed'
     when act.ended_at is not null then 'done'
     when act.due_at is null or act.taken_at is not null then 'unknown'
     when act.due_at > clock.now - interval '10 minutes' then 'waits'
     else 'lapsed' end as state, coalesce(act.error, 'by ' || act.undone_by, '') as error

/* celery_pecker:begin_act */
-- Written before the act, so that there is no act without a row. A schema of another app
-- gets none: the answer is its owner. What is older than half a year goes, some at a time.
-- One that waits (`after`: for so many seconds) is due then.
with {clock},
owner as (
    select owner.app from {schema}.pecker_owner as owner
),
begun as (
    insert into {schema}.pecker_acts
        (begun_at, act, subject, done_by, surface, due_at, asked)
    select clock.now, %(act)s, %(subject)s, %(by)s, %(surface)s,
           clock.now + %(after)s::float8 * interval '1 second', %(asked)s
    from clock
    where not exists (select from owner where owner.app <> %(app)s)
    returning id
),
old as (
    delete from {schema}.pecker_acts as act
    where act.id in (
        select id
        from {schema}.pecker_acts
        where begun_at < (select now from clock) - interval '180 days'
        order by begun_at
        limit 100
        for update skip locked
    )
)
select (select id from begun) as id, (select app from owner) as owner

/* celery_pecker:end_act */
with {clock}
update {schema}.pecker_acts as act
set ended_at = clock.now, error = %(error)s
from clock
where act.id = %(id)s
returning act.id

/* celery_pecker:take_act */
-- The first act that is due, for whoever can do it: exactly one Flower gets it, and nobody
-- after that: should it die now, it is not known whether it was done, and it is not done
-- twice. What nobody has done in ten minutes is done no more: people have gone on.
with {clock},
due as (
    select act.id
    from {schema}.pecker_acts as act, clock
    where act.due_at <= clock.now and act.due_at > clock.now - interval '10 minutes'
      and act.taken_at is null and act.ended_at is null
      and act.act = any (%(acts)s::text[])
    order by act.due_at
    limit 1
    for update of act skip locked
)
update {schema}.pecker_acts as act
set taken_at = clock.now
from clock, due
where act.id = due.id
returning act.id, act.act, act.asked

/* celery_pecker:undo_act */
-- Takes back an act that nobody has begun to do.
with {clock}
update {schema}.pecker_acts as act
set ended_at = clock.now, undone_by = %(by)s
from clock
where act.id = %(id)s and act.due_at is not null
  and act.taken_at is null and act.ended_at is null
returning act.id

/* celery_pecker:read_waiting_acts */
-- Those that wait, and for some seconds what came of each.
with {clock}
select act.id::text as id, act.act || ' ' || act.subject as words,
       {us(act.due_at)} as due_us, {act_state}
from {schema}.pecker_acts as act, clock
where act.due_at > clock.now - interval '10 minutes'
  and (act.ended_at is null or act.ended_at > clock.now - interval '10 seconds')
order by act.due_at desc
limit 20

/* celery_pecker:read_acts */
-- The newest first.
with {clock}
select act.begun_at, act.act, act.subject, act.done_by, act.surface, {act_state}, act.id
from {schema}.pecker_acts as act, clock
where (%(search)s::text is null or strpos(act.subject, %(search)s::text) > 0)
  and (%(act)s::text is null or act.act = %(act)s::text)
  and (%(done_by)s::text is null or act.done_by = %(done_by)s::text)
  and (%(before)s::bigint is null or act.id < %(before)s)
order by act.id desc
limit %(most)s

/* celery_pecker:begin_act */
-- Written before the act, so that there is no act without a row. A schema of another app
-- gets none: the answer is its owner. What is older than half a year goes, some at a time.
with {clock},
owner as (
    select owner.app from {schema}.pecker_owner as owner
),
begun as (
    insert into {schema}.pecker_acts (begun_at, act, subject, done_by, surface)
    select clock.now, %(act)s, %(subject)s, %(by)s, %(surface)s
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

/* celery_pecker:read_acts */
-- The newest first.
select begun_at, act, subject, done_by, surface, coalesce(error, '') as error,
       case when error is not null then 'failed'
            when ended_at is not null then 'done'
            else 'unknown' end as state, id
from {schema}.pecker_acts
where (%(search)s = '' or strpos(subject, %(search)s) > 0)
  and (%(act)s = '' or act = %(act)s)
  and (%(by)s = '' or done_by = %(by)s)
order by begun_at desc
limit %(most)s

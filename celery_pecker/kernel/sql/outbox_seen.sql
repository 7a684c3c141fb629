/* part:due_since */
-- Since when a message is due: what was sent and started no run, since then.
case
    when o.pushes > 0 then o.held_at
        - (o.held_until - o.held_at) * (1 - 0.5::float8 ^ (o.pushes - 1))
    else coalesce(o.due_at, o.created_at)
end

/* celery_pecker:count_outbox */
-- What waits, by task and index: waiting is due and not held, held is in a relay's batch
-- or a run's hands, later is not due yet, parked waits for people. Each index is walked
-- for `most` rows at most, from the oldest on, so that a deep table costs no more than
-- these; `full`: there may be more of this kind than were counted.
--
-- sent: a row whose message was sent and started no run waits in the broker. Its due_at
--       is when the message is sent again, so it would count as later, however long no
--       worker takes it. It has been due since the first push at the latest: each hold
--       is twice the one before, up to a cap, which makes this too young at most.
with {clock},
taken as materialized (
    select unnest(ids) as id from {schema}.pecker_outbox_batches
),
kinds as materialized (
    with recursive walk (mode, task) as (
        (
            select o.mode, o.task from {schema}.pecker_outbox as o
            where o.mode > 0 and o.parked_at is null
            order by o.mode, o.task limit 1)
        union all
        select next.mode, next.task
        from walk cross join lateral (
            select o.mode, o.task from {schema}.pecker_outbox as o
            where o.mode > 0 and o.parked_at is null
                and (o.mode, o.task) > (walk.mode, walk.task)
            order by o.mode, o.task limit 1
        ) as next
    )
    select mode, task, greatest(1, %(most)s / (count(*) over ())) as share
    from (select mode, task from walk limit %(tasks)s) as known
),
ready as materialized (
    select 'ready' as kind, o.task, o.created_at as due_at, 0 as attempt,
           o.id in (select id from taken) as held
    from {schema}.pecker_outbox as o
    where o.mode = 0 and o.due_at is null and o.parked_at is null
    order by o.id
    limit %(most)s
),
timed as materialized (
    select 'timed' as kind, o.task, o.due_at, 0 as attempt,
           o.id in (select id from taken) as held
    from {schema}.pecker_outbox as o
    where o.mode = 0 and o.due_at is not null and o.parked_at is null
    order by o.due_at, o.id
    limit %(most)s
),
runs as materialized (
    select 'runs' as kind, kinds.task, one.due_at, one.attempt, one.held
    from kinds cross join lateral (
        select {due_since} as due_at,
               coalesce(o.attempt, 0) as attempt,
               coalesce(o.running and o.held_until > (select now from clock), false)
                   as held
        from {schema}.pecker_outbox as o
        where o.mode = kinds.mode and o.mode > 0 and o.task = kinds.task
            and o.parked_at is null
        order by coalesce(o.due_at, o.created_at), o.id
        limit kinds.share
    ) as one
),
parked as materialized (
    select 'parked' as kind, o.task, o.parked_at as due_at,
           coalesce(o.attempt, 0) as attempt, false as held
    from {schema}.pecker_outbox as o
    where o.parked_at is not null
    order by o.id
    limit %(most)s
),
seen as (
    select * from ready union all select * from timed
    union all select * from runs union all select * from parked
),
marked as (
    select seen.*,
           case
               when kind = 'parked' then 'parked'
               when held then 'held'
               when due_at > clock.now then 'later'
               else 'waiting'
           end as state
    from seen, clock
)
select kind, task,
       count(*) filter (where state = 'waiting') as waiting,
       count(*) filter (where state = 'held') as held,
       count(*) filter (where state = 'later') as later,
       count(*) filter (where state = 'parked') as parked,
       max(attempt) as attempt,
       extract(epoch from max(clock.now) - min(due_at)
           filter (where state = 'waiting' or (state = 'held' and kind <> 'runs'))
       )::float8 as oldest,
       case
           when kind = 'runs'
           then count(*) >= (select max(share) from kinds)
               or (select count(*) from kinds) >= %(tasks)s
           else sum(count(*)) over (partition by kind) >= %(most)s
       end as full
from marked, clock
group by kind, task
order by kind, task

/* celery_pecker:count_outbox_queues */
-- What is due by queue, of messages that relays send: the oldest of each index, and the time.
with {clock},
due as materialized (
    (
        select routing_key, created_at as due_at
        from {schema}.pecker_outbox
        where mode = 0 and due_at is null and parked_at is null
        order by id
        limit %(most)s)
    union all
    (
        select routing_key, due_at
        from {schema}.pecker_outbox
        where mode = 0 and due_at is not null and parked_at is null
            and due_at <= (select now from clock)
        order by due_at, id
        limit %(most)s)
)
select {us(clock.now)} as now_us, due.routing_key as queue, count(due.due_at) as depth,
       extract(epoch from clock.now - min(due.due_at))::float8 as oldest
from clock
left join due on true
group by clock.now, due.routing_key

/* celery_pecker:estimate_outbox */
-- About how many rows each index leads to, as PostgreSQL's planner reckons: tuples to
-- a page when it was vacuumed or analyzed last, times the pages of now.
select c.relname,
       coalesce(nullif(c.reltuples, -1) / nullif(c.relpages, 0)
           * (pg_relation_size(c.oid) / current_setting('block_size')::bigint), 0)::bigint
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = %(schema)s::text and c.relname = any (%(indexes)s::text[])

/* celery_pecker:read_outbox_relays */
-- Live relays, and how much each has sent lately, by task.
with {clock}
select host, pid, sent, retried, parked, broker, rates::text,
       extract(epoch from clock.now - seen_at)::float8 as seen
from {schema}.pecker_outbox_relays, clock
where seen_at > clock.now - interval '15 seconds'
order by host, pid, holder

/* celery_pecker:read_outbox_rate */
-- Runs that were done per second in the last minute, by task, of modes 1 and 2.
with {clock}
select task, count(*) / 60.0::float8 as rate
from {schema}.pecker_outbox_done, clock
where done_at > clock.now - interval '1 minute'
group by task

/* part:runs_of_task */
(
    select id, task_id
    from {schema}.pecker_outbox
    where mode = $1 and task = %(task)s and parked_at is null
    order by coalesce(due_at, created_at) limit 10000)

/* celery_pecker:find_outbox_message */
-- The message that a task was recorded as, if it is known still: among those that run until
-- they are done, and the parked. No index has the ids, which each insert would pay for.
select known.id
from (
    {runs_of_task(1)}
    union all
    {runs_of_task(2)}
    union all
    (
        select id, task_id
        from {schema}.pecker_outbox
        where parked_at is not null
        order by id limit 10000)
) as known
where known.task_id = %(task_id)s

/* celery_pecker:read_outbox_headers */
-- Of one message: what its arguments are as Celery writes them for people, and its other headers.
select o.headers
from {schema}.pecker_outbox as o
where o.id = %(id)s

/* celery_pecker:read_outbox_locker */
-- The transaction that has locked or changed a message last; it may have ended.
select o.xmax::text
from {schema}.pecker_outbox as o
where o.id = %(id)s

/* celery_pecker:show_outbox */
-- Rows for people: those with the most attempts first, then the oldest; behind the row
-- `above` with `tries` attempts, so that any page costs what the first does. Each part
-- walks an index, and only `most` rows of each are read whole. What was sent and started
-- no run has been due since then, as in count_outbox.
with {clock},
tried as materialized (
    (select o.id
    from {schema}.pecker_outbox as o
    where o.attempt > 0
        and o.attempt >= %(attempts_from)s
        and o.attempt = %(tries)s::bigint
        and o.id > %(above)s::bigint
        {chosen_rows}
    order by o.id
    limit %(most)s)
    union all
    (select o.id
    from {schema}.pecker_outbox as o
    where o.attempt > 0
        and o.attempt >= %(attempts_from)s
        and o.attempt < %(tries)s::bigint
        {chosen_rows}
    order by o.attempt desc, o.id
    limit %(most)s)
),
untried as materialized (
    select o.id
    from {schema}.pecker_outbox as o
    where coalesce(o.attempt, 0) <= 0
        and %(attempts_from)s <= 0
        and (%(tries)s::bigint <> 0 or o.id > %(above)s::bigint)
        {chosen_rows}
    order by o.id
    limit %(most)s
)
select o.id, o.task, o.task_id, o.mode, coalesce(o.attempt, 0) as attempt,
       {message_state} as state,
       {due_since} as due_at,
       o.created_at, o.parked_at,
       o.exchange, o.routing_key, octet_length(o.body) as size, o.dedupe_key,
       o.last_error
from {schema}.pecker_outbox as o, clock
where o.id in (select id from tried union all select id from untried)
order by coalesce(o.attempt, 0) desc, o.id
limit %(most)s

/* celery_pecker:bound_statements */
-- Within this transaction the server ends a statement after so many milliseconds.
select set_config('statement_timeout', %(milliseconds)s::text, true)

/* celery_pecker:count_outbox */
-- What waits, by task, of the first `most` rows: waiting is due and nobody's, held is in
-- a relay's batch or a run's hands, later is not due yet, parked waits for people.
with clock as materialized (
    select coalesce(%(now)s::timestamptz, clock_timestamp()) as now
),
taken as materialized (
    select unnest(ids) as id from {schema}.pecker_outbox_batches
),
seen as (
    select o.task, o.created_at, coalesce(o.attempt, 0) as attempt,
           coalesce(o.due_at, o.created_at) as due_at,
           case
               when o.parked_at is not null then 'parked'
               when o.running and o.held_until > clock.now then 'held'
               when o.id in (select id from taken) then 'held'
               when o.due_at > clock.now then 'later'
               else 'waiting'
           end as state
    from {schema}.pecker_outbox as o, clock
    limit %(most)s
)
select task,
       count(*) filter (where state = 'waiting') as waiting,
       count(*) filter (where state = 'held') as held,
       count(*) filter (where state = 'later') as later,
       count(*) filter (where state = 'parked') as parked,
       max(attempt) as attempt,
       extract(epoch from max(clock.now) - min(due_at)
           filter (where state in ('waiting', 'held')))::float8 as oldest
from seen, clock
group by task
order by waiting desc, parked desc, task

/* celery_pecker:read_outbox_relays */
-- Relays that live, and how much each has sent lately, by task.
with clock as materialized (
    select coalesce(%(now)s::timestamptz, clock_timestamp()) as now
)
select host, pid, sent, retried, parked, broker, rates::text,
       extract(epoch from clock.now - seen_at)::float8 as seen
from {schema}.pecker_outbox_relays, clock
where seen_at > clock.now - interval '15 seconds'
order by host, pid, holder

/* celery_pecker:read_outbox_rate */
-- Runs that were done per second in the last minute, by task, of modes 1 and 2.
with clock as materialized (
    select coalesce(%(now)s::timestamptz, clock_timestamp()) as now
)
select task, count(*) / 60.0::float8 as rate
from {schema}.pecker_outbox_done, clock
where done_at > clock.now - interval '1 minute'
group by task

/* celery_pecker:show_outbox */
-- Rows for people: those with the most attempts first, then the oldest.
with clock as materialized (
    select coalesce(%(now)s::timestamptz, clock_timestamp()) as now
),
taken as materialized (
    select unnest(ids) as id from {schema}.pecker_outbox_batches
)
select o.id, o.task, o.task_id, o.mode, coalesce(o.attempt, 0) as attempt,
       case
           when o.parked_at is not null then 'parked'
           when o.running and o.held_until > clock.now then 'held'
           when o.id in (select id from taken) then 'held'
           when o.due_at > clock.now then 'later'
           else 'waiting'
       end as state,
       coalesce(o.due_at, o.created_at) as due_at, o.created_at, o.parked_at,
       o.exchange, o.routing_key, octet_length(o.body) as size, o.dedupe_key,
       o.last_error
from {schema}.pecker_outbox as o, clock
where (%(ids)s::bigint[] is null or o.id = any (%(ids)s::bigint[]))
    and (%(tasks)s::text[] is null or o.task = any (%(tasks)s::text[]))
    and (%(parked)s::boolean is null or (o.parked_at is not null) = %(parked)s)
    and coalesce(o.attempt, 0) >= %(attempts_from)s
order by coalesce(o.attempt, 0) desc, o.id
limit %(most)s

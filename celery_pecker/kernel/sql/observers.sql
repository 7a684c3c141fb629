/* part:place */
-- Where an observer is, if it is not deleted.
when o.parked_at is not null then 'parked'
when o.node is null then 'waiting'
when o.status = 'on_deleting' then 'stopping'
when o.not_before > clock.now then 'retrying'
else 'running'

/* part:waits */
-- No host has the observer, and one may take it.
$1.node is null
and $1.parked_at is null
and $1.status in ('created', 'processing')

/* part:observer */
-- An observer with the name of its host; `$1`: its place.
o.id, o.name, o.kind, o.args, o.weight, o.status, $1 as place, o.node::text,
n.name as node_name, o.epoch, o.failures, o.moves, o.last_error, o.state, o.not_before,
o.parked_at, o.created_at, o.modified_at

/* part:load */
-- Hosts, with what each holds.
from {schema}.pecker_observer_nodes as n
cross join clock
left join lateral (
    select sum(o.weight) as weight, count(*) as count
    from {schema}.pecker_observers as o
    where o.node = n.node
) as held on true

/* part:asked_observer */
before as materialized (
    select o.status
    from {schema}.pecker_observers as o
    where o.name = %(name)s::text
    order by o.status = 'deleted', o.id desc
    limit 1
)

/* part:as_asked */
from (select 1) as one
left join asked on true
left join before on true
where asked.id is not null or before.status is not null

/* part:event */
insert into {schema}.pecker_observer_history
    (observer, name, kind, event, node, epoch, at)

/* celery_pecker:start_observer */
-- In the caller's transaction: one row, and nothing where the name is taken, the kind
-- is unknown, the weight is above every capacity, or `refuse` is set and no host has
-- room. What stood in the way is in the answer. Capacities are looked at, not locked:
-- two that start at once may both find the last room, and one of them waits.
with {clock},
declared as materialized (
    select coalesce(%(weight)s::integer, max(k.weight)) as weight,
           max(k.on_parked) as on_parked,
           max(k.on_moved) as on_moved,
           count(*) > 0 as known
    from {schema}.pecker_observer_kinds as k
    where k.kind = %(kind)s::text
),
hosts as materialized (
    select n.capacity,
           case when %(refuse)s::boolean then n.capacity - coalesce((
               select sum(o.weight) from {schema}.pecker_observers as o
               where o.node = n.node
           ), 0) end as free
    from {schema}.pecker_observer_nodes as n, clock
    where n.state = 'up' and n.leased_until > clock.now
        and %(kind)s::text = any (n.kinds)
),
waiting as materialized (
    select coalesce(sum(o.weight), 0) as weight
    from {schema}.pecker_observers as o
    where %(refuse)s::boolean and {waits(o)}
),
judged as materialized (
    select declared.weight,
           (select max(capacity) from hosts) as largest,
           not %(refuse)s::boolean or exists (
               select from hosts
               where hosts.free >= declared.weight
           ) and (select sum(free) from hosts) - waiting.weight >= declared.weight
               as has_room
    from declared, waiting
),
made as (
    insert into {schema}.pecker_observers
        (name, kind, args, weight, on_parked, on_moved, not_before, created_at,
         modified_at)
    select %(name)s::text, %(kind)s::text, %(args)s::text::jsonb, judged.weight,
           coalesce(%(on_parked)s::text, declared.on_parked),
           coalesce(%(on_moved)s::text, declared.on_moved),
           clock.now, clock.now, clock.now
    from clock, declared, judged
    where judged.weight is not null
        and judged.has_room
        and judged.weight <= coalesce(judged.largest, judged.weight)
    on conflict (name) where status <> 'deleted' do nothing
    returning id
),
noted as (
    insert into {schema}.pecker_observer_history
        (observer, name, kind, event, epoch, at)
    select made.id, %(name)s::text, %(kind)s::text, 'created', 0, clock.now
    from made, clock
)
select (select id from made) as made, judged.weight, judged.largest, judged.has_room
from judged

/* celery_pecker:list_observer_kinds */
select kind from {schema}.pecker_observer_kinds order by kind

/* celery_pecker:stop_observer */
-- Asks for the end of an observer, once and for good: what no host runs is deleted at
-- once; a host that runs it finds the order at its next look, or the host that buries it
-- does. Answers what it was before; no row: there never was one of this name.
with {clock},
{asked_observer},
asked as (
    update {schema}.pecker_observers as o
    set status = case when o.node is null then 'deleted' else 'on_deleting' end,
        parked_at = null,
        modified_at = clock.now
    from clock
    where o.name = %(name)s::text and o.status in ('created', 'processing')
    returning o.id, o.name, o.kind, o.status, o.node, o.epoch
),
noted as (
    {event}
    select asked.id, asked.name, asked.kind,
           case asked.status when 'deleted' then 'stopped' else 'stopping' end,
           asked.node, asked.epoch, clock.now
    from asked, clock
)
select asked.id is not null as asked,
       case when asked.id is null then before.status
            when asked.epoch = 0 then 'created'
            else 'processing' end as before
{as_asked}

/* celery_pecker:restart_observer */
-- A parked one is taken by a host again, with all its retries; the life of one that
-- runs is ended, and another one begins in its place.
with {clock},
{asked_observer},
asked as (
    update {schema}.pecker_observers as o
    set restart = case when o.node is not null then o.epoch end,
        parked_at = null,
        failures = 0,
        not_before = clock.now,
        modified_at = clock.now
    from clock
    where o.name = %(name)s::text and o.status in ('created', 'processing')
    returning o.id, o.name, o.kind, o.status, o.node, o.epoch
),
noted as (
    {event}
    select asked.id, asked.name, asked.kind, 'restarting', asked.node, asked.epoch,
           clock.now
    from asked, clock
)
select asked.id is not null as asked, coalesce(asked.status, before.status) as before
{as_asked}

/* celery_pecker:list_observers */
-- What there is, by name: those that are there before those that are deleted.
with {clock},
shown as materialized (
    select o.*,
           case
               when o.status = 'deleted' then 'gone'
               {place}
           end as place
    from {schema}.pecker_observers as o, clock
    where (%(name)s::text is null or o.name = %(name)s::text)
        and (%(kind)s::text is null or o.kind = %(kind)s::text)
        and (%(node)s::text is null or o.node::text = %(node)s::text)
        and (%(after)s::text is null or o.name > %(after)s::text)
        and (%(deleted)s::boolean or o.status <> 'deleted')
)
select {observer(o.place)}
from shown as o
left join {schema}.pecker_observer_nodes as n on n.node = o.node
where %(place)s::text is null or o.place = %(place)s::text
order by o.name, o.status = 'deleted', o.id desc
limit %(most)s::integer

/* celery_pecker:list_observer_nodes */
-- Hosts with their load and what is left of their leases; the dead on request.
with {clock}
select n.node::text, n.name, n.pid, n.state, n.capacity,
       coalesce(held.weight, 0)::bigint as load, coalesce(held.count, 0) as observers,
       n.kinds, extract(epoch from n.leased_until - clock.now)::float8 as lease,
       n.started_at, n.left_at
{load}
where %(dead)s::boolean or n.state <> 'dead'
order by n.name, n.started_at

/* celery_pecker:read_observer_history */
-- The newest events, of one observer or of all, newest first.
select h.id, h.observer, h.name, h.kind, h.event, h.node::text,
       n.name as node_name, h.epoch, h.at, h.error
from {schema}.pecker_observer_history as h
left join {schema}.pecker_observer_nodes as n on n.node = h.node
where %(name)s::text is null or h.name = %(name)s::text
order by h.id desc
limit %(most)s::integer

/* celery_pecker:order_observer_nodes */
-- Hosts of that name or id are to give away what they have, or may take again.
update {schema}.pecker_observer_nodes as n
set state = %(state)s::text
where (n.name = %(node)s::text or n.node::text = %(node)s::text)
    and n.state in ('up', 'draining')

/* celery_pecker:hold_observer */
-- Run inside a user's own transaction, before what it writes: until that transaction
-- ends no other life of the observer begins, and if one has begun there is no row (I3).
-- A process that is frozen with this transaction open would keep the next life from
-- beginning. So the server ends it when it was idle for as long as this life is trusted;
-- a shorter limit of the user's own stays.
with bounded as materialized (
    select set_config('idle_in_transaction_session_timeout', least(
        greatest(%(left_ms)s::bigint, 1000),
        {set_ms('idle_in_transaction_session_timeout')}
    )::text, true) as limit_ms
),
held as materialized (
    select o.id
    from {schema}.pecker_observers as o
    where o.id = %(id)s::bigint
        and o.epoch = %(epoch)s::bigint
        and o.node::text = %(node)s::text
        and (select count(*) from bounded) > 0
    for share of o
),
saved as (
    update {schema}.pecker_observers as o
    set state = %(state)s::text::jsonb
    from held
    where o.id = held.id and %(state)s::text is not null
)
select count(*) from held

/* celery_pecker:join_observer_nodes */
-- A host begins its life: its lease, and what its code can run. One that drained before
-- (drains), also as a process that died, goes on with that; so does one beside a host that
-- has grown, which drains since it was started: else it would take what the drain gives
-- away.
with {clock},
declared as (
    insert into {schema}.pecker_observer_kinds as k
        (kind, weight, on_parked, on_moved, seen_at)
    select d.kind, d.weight, d.on_parked, d.on_moved, clock.now
    from unnest(%(kinds)b::text[], %(weights)b::integer[], %(parked)b::text[],
                %(moved)b::text[]) as d (kind, weight, on_parked, on_moved), clock
    order by d.kind
    on conflict (kind) do update
    set {excluded(weight, on_parked, on_moved, seen_at)}
)
insert into {schema}.pecker_observer_nodes
    (node, name, pid, capacity, kinds, state, ttl, since, leased_until, started_at)
select %(node)s::uuid, %(name)s, %(pid)s, %(capacity)s, %(kinds)b::text[],
       case when %(drains)s::boolean or %(beside)s::boolean and exists (
           select from {schema}.pecker_observer_nodes as n
           where n.name = %(name)s and n.state = 'draining' and n.left_at is null
               and n.leased_until > clock.now
       ) then 'draining' else 'up' end,
       %(ttl)s * interval '1 second', clock.now,
       clock.now + %(ttl)s * interval '1 second', clock.now
from clock

/* celery_pecker:pulse_observer_node */
-- Renews the one lease of a host, buries hosts whose lease is over, and looks at what
-- is to be done; a second look is taken only where there is something. No row of an
-- observer is written while all is well.
--
-- witness:  only a host whose own lease was unbroken for a whole length of it buries
--           others. After an outage of the database all leases are over, and the
--           first host would bury all the others, which are alive.
-- follows:  a host of the same name that never renewed since this one joined is the
--           life before it, and needs no witness. After a blackout no other host is there
--           to be one, and all would wait for a lease more. Not where a host was started
--           beside one that has grown, which lives: an outage may end both leases.
-- stepped:  a lease that ends later than its whole length from now was taken before the
--           clock stepped back: it is cut, or a dead host would stay for as long.
-- waiting:  the earliest of each kind is one step in the index. A search for any that is
--           due was planned as a scan of the table where 50,000 are for later.
with {clock},
me as (
    update {schema}.pecker_observer_nodes as n
    set since = case when n.leased_until <= clock.now then clock.now
                     else least(n.since, clock.now) end,
        leased_until = clock.now + n.ttl
    from clock
    where n.node = %(node)s::uuid and n.state <> 'dead'
    returning n.state, n.since, n.ttl, n.name, n.started_at
),
lapsed as materialized (
    select n.node
    from {schema}.pecker_observer_nodes as n, clock, me
    where n.state <> 'dead'
        and n.node <> %(node)s::uuid
        and n.leased_until <= clock.now
        and (me.since <= clock.now - me.ttl
            or %(follows)s::boolean
                and n.name = me.name and n.leased_until - n.ttl < me.started_at)
    for update of n skip locked
),
ahead as materialized (
    select n.node
    from {schema}.pecker_observer_nodes as n, clock
    where n.state <> 'dead'
        and n.node <> %(node)s::uuid
        and n.leased_until > clock.now + n.ttl
    for update of n skip locked
),
cut as (
    update {schema}.pecker_observer_nodes as n
    set leased_until = clock.now + n.ttl
    from ahead, clock
    where n.node = ahead.node
),
dead as (
    update {schema}.pecker_observer_nodes as n
    set state = 'dead', left_at = clock.now
    from lapsed, clock
    where n.node = lapsed.node
    returning n.node, n.name
)
select (select state from me) as state,
       array(select name from dead) as buried,
       (select count(*) from dead) > 0 or exists (
           select from {schema}.pecker_observer_nodes as n
           where n.state = 'dead' and exists (
               select from {schema}.pecker_observers as o where o.node = n.node
           )
       ) as orphans,
       exists (
           select from {schema}.pecker_observers as o
           where o.node = %(node)s::uuid
               and (o.status = 'on_deleting' or o.restart is not null)
       ) as orders,
       exists (
           select from unnest(%(kinds)b::text[]) as k (kind), clock
           where clock.now >= (
               select min(o.not_before)
               from {schema}.pecker_observers as o
               where o.kind = k.kind and {waits(o)}
           )
       ) as waiting,
       exists (
           select from {schema}.pecker_observer_nodes as n, clock
           where n.state = 'draining' and n.leased_until > clock.now and exists (
               select from {schema}.pecker_observers as o where o.node = n.node
           )
       ) as draining,
       exists (
           select from {schema}.pecker_observer_notices as n
           where n.held_until <= (select now from clock)
       ) as notices

/* celery_pecker:free_observers */
-- What dead hosts held waits for a host, or is deleted if its end was requested
-- meanwhile. A row whose guard a frozen process still holds is passed over; it is freed
-- when the server has ended that transaction. The order is the index's: without it the
-- planner, which knows few hosts, scanned the table for the first thousand.
with {clock},
orphans as materialized (
    select o.id
    from {schema}.pecker_observers as o
    where o.node = any (array(
        select node from {schema}.pecker_observer_nodes where state = 'dead'
    ))
    order by o.node
    limit %(most)s
    for update of o skip locked
),
freed as (
    update {schema}.pecker_observers as o
    set node = null,
        status = case o.status when 'on_deleting' then 'deleted' else o.status end,
        not_before = case when o.failures = 0 then least(o.not_before, clock.now)
                          else o.not_before end,
        restart = null,
        modified_at = clock.now
    from clock
    where o.id = any (array(select id from orphans))
    returning o.id, o.name, o.kind, o.status, o.last_node, o.epoch
),
noted as (
    insert into {schema}.pecker_observer_history
        (observer, name, kind, event, node, epoch, at, error)
    select freed.id, freed.name, freed.kind,
           case freed.status when 'deleted' then 'stopped' else 'released' end,
           freed.last_node, freed.epoch, clock.now, 'its host is dead'
    from freed, clock
)
select count(*) from freed

/* celery_pecker:end_observer_node */
-- The process of this host has ended, as its supervisor knows, or it leaves by itself.
-- Returns whether people drained it: the process that is started in its place goes on so.
with {clock},
before as materialized (
    select n.node, n.state = 'draining' and n.left_at is null as drained
    from {schema}.pecker_observer_nodes as n
    where n.node = %(node)s::uuid and n.state <> 'dead'
    for update
)
update {schema}.pecker_observer_nodes as n
set state = 'dead', left_at = clock.now
from clock, before
where n.node = before.node
returning before.drained

/* celery_pecker:drain_observer_node */
-- Of its own accord, because it ends (left_at): its successor is not to drain as well.
with {clock}
update {schema}.pecker_observer_nodes as n
set state = 'draining', left_at = clock.now
from clock
where n.node = %(node)s::uuid and n.state = 'up'

/* celery_pecker:survey_observers */
-- How the load lies: living hosts with what they hold, and what waits, by kind.
with {clock},
hosts as (
    select n.node, n.state, n.capacity, n.kinds, coalesce(held.weight, 0) as weight,
           coalesce(held.count, 0) as count
    {load}
    where n.state <> 'dead' and n.leased_until > clock.now
),
waiting as (
    select o.kind, sum(o.weight) as weight, count(*) as count,
           extract(epoch from (select now from clock)
               - min(greatest(o.not_before, o.modified_at))) as age
    from {schema}.pecker_observers as o
    where {waits(o)}
        and o.not_before <= (select now from clock)
    group by o.kind
)
select node::text, state, capacity, kinds, weight::bigint, count, null::float8 as age
from hosts
union all
select null, null, null, array[kind], weight::bigint, count, age::float8 from waiting

/* celery_pecker:claim_observers */
-- Takes what waits and fits, oldest first: ids and epochs only (I9), what they are is
-- read after the commit. What is too heavy for the rest of the room is left to
-- others. Each claim raises the epoch (I3). Each kind is walked by itself, oldest first:
-- walked together all that waits was sorted for each claim, 170 ms where 100,000 do.
-- Nothing weighs less than 1: no more rows than the room are locked, whatever number of
-- kinds there is; they stay so until the commit, and other hosts pass by them. So some
-- more are looked at than are locked: hosts that claim at once find others, and so does a
-- host of little room beside a transaction that stops the oldest and stays open.
with {clock},
alive as materialized (
    select n.node
    from {schema}.pecker_observer_nodes as n, clock
    where n.node = %(node)s::uuid and n.state = 'up' and n.leased_until > clock.now
    for share of n
),
oldest as materialized (
    select one.id
    from unnest(%(kinds)b::text[]) as k (kind)
    cross join lateral (
        select w.id, w.not_before
        from {schema}.pecker_observers as w
        where w.kind = k.kind
            and w.node is null
            and w.parked_at is null
            and w.status in ('created', 'processing')
            and w.not_before <= (select now from clock)
            and w.weight <= %(room)s
            and exists (select from alive)
        order by w.not_before
        limit greatest(100, 4 * least(%(most)s, %(room)s))
    ) as one
    order by one.not_before
    limit greatest(100, 4 * least(%(most)s, %(room)s))
),
due as materialized (
    select o.id, o.weight, o.not_before
    from {schema}.pecker_observers as o
    where o.id = any (array(select id from oldest))
        and o.node is null
        and o.parked_at is null
        and o.status in ('created', 'processing')
    order by o.not_before
    limit least(%(most)s, %(room)s)
    for update of o skip locked
),
fits as materialized (
    select id
    from (select id, sum(weight) over (order by not_before, id) as total from due) as s
    where total <= %(room)s
),
taken as (
    update {schema}.pecker_observers as o
    set node = %(node)s::uuid,
        last_node = %(node)s::uuid,
        status = 'processing',
        epoch = greatest(o.epoch + 1, {us(clock.now)}),
        moves = o.moves + (o.last_node is distinct from %(node)s::uuid and o.epoch > 0)::integer,
        restart = null,
        modified_at = clock.now
    from fits, clock
    where o.id = fits.id
    returning o.id, o.name, o.kind, o.epoch, o.moves, o.on_moved
),
was as materialized (
    select o.id, o.moves, o.last_node
    from {schema}.pecker_observers as o
    where o.id = any (array(select id from fits))
),
seen as materialized (
    select taken.*, was.last_node, taken.moves > was.moves as moved
    from taken
    join was on was.id = taken.id
),
noted as (
    {event}
    select seen.id, seen.name, seen.kind, case when moved then 'moved' else 'started' end,
           %(node)s::uuid, seen.epoch, clock.now
    from seen, clock
),
written as (
    insert into {schema}.pecker_observer_notices
        (signature, event, held_until, created_at)
    select seen.on_moved,
           jsonb_build_object(
               'event', 'moved', 'name', seen.name, 'kind', seen.kind,
               'epoch', seen.epoch, 'node', %(node)s::uuid, 'from', seen.last_node),
           clock.now, clock.now
    from seen, clock
    where seen.moved and seen.on_moved is not null
)
select id, epoch, moved from seen

/* celery_pecker:sum_observer_epochs */
-- What a host compares with the lives that it runs. A claim gives its epoch, a clock's
-- microseconds, to all that it takes: two different sets with one sum do not come about.
select coalesce(sum(o.epoch), 0)
from {schema}.pecker_observers as o
where o.node = %(node)s::uuid

/* celery_pecker:find_lost_lives */
-- Lives of a host that the table does not have: a failover lost the row, or the claim.
-- The host ends them; the table says what runs. A claim is not written again: a row of
-- this id may be that of another observer, since a sequence goes back, too.
--
-- raised:  the next life has a higher epoch than the one that was lost, also where the
--          clock of the new server is behind (I3)
with lives as materialized (
    select l.id, l.epoch
    from unnest(%(ids)b::bigint[], %(epochs)b::bigint[]) as l (id, epoch)
),
lost as materialized (
    select l.id, l.epoch
    from lives as l
    where not exists (
        select from {schema}.pecker_observers as o
        where o.id = l.id and o.epoch = l.epoch and o.node = %(node)s::uuid
    )
),
behind as materialized (
    select o.id
    from {schema}.pecker_observers as o
    where o.id = any (array(select id from lost))
    order by o.id
    for update of o skip locked
),
raised as (
    update {schema}.pecker_observers as o
    set epoch = lost.epoch
    from lost, behind
    where o.id = behind.id and lost.id = behind.id and o.epoch < lost.epoch
)
select id from lost

/* celery_pecker:retake_observers */
-- What a host holds by the table and does not run: its trust window closed and no host
-- buried it. They begin anew, with new epochs, in its own place; a draining host takes
-- them to end them, else no host would run them while it lives.
with {clock},
alive as materialized (
    select n.node
    from {schema}.pecker_observer_nodes as n, clock
    where n.node = %(node)s::uuid and n.state <> 'dead' and n.leased_until > clock.now
    for share of n
),
lost as materialized (
    select o.id
    from {schema}.pecker_observers as o, alive
    where o.node = %(node)s::uuid
        and o.status = 'processing'
        and o.id <> all (%(running)b::bigint[])
    limit %(most)s
    for update of o skip locked
),
taken as (
    update {schema}.pecker_observers as o
    set epoch = greatest(o.epoch + 1, {us(clock.now)}),
        restart = null,
        modified_at = clock.now
    from lost, clock
    where o.id = lost.id
    returning o.id, o.name, o.kind, o.epoch
),
noted as (
    {event}
    select taken.id, taken.name, taken.kind, 'started', %(node)s::uuid, taken.epoch,
           clock.now
    from taken, clock
)
select id, epoch from taken

/* celery_pecker:read_observers */
-- What was taken, after the claim's commit: no lock is held while it comes. Only what
-- failed waits for its next try: another instant is ahead because the clock stepped back.
with {clock}
select o.id, o.epoch, o.name, o.kind, o.args, o.weight, o.state, o.failures,
       case when o.failures = 0 then 0
            else greatest(extract(epoch from o.not_before - clock.now), 0) end::float8 as delay
from {schema}.pecker_observers as o, clock
where o.id = any (%(ids)b::bigint[]) and o.node = %(node)s::uuid

/* celery_pecker:read_observer_orders */
-- Observers of this host that were asked to end, or to begin again.
select o.id, o.epoch, o.status = 'on_deleting' as stop
from {schema}.pecker_observers as o
where o.node = %(node)s::uuid
    and (o.status = 'on_deleting' or o.restart is not null)
limit %(most)s

/* celery_pecker:report_observers */
-- What became of lives, several at once; each names its epoch, and one that was
-- overtaken changes nothing (I3). A row that a guard holds is passed over: the report
-- is sent again with the next.
--
-- released:  it has ended here, and may begin elsewhere, not before its next try
-- again:     it has ended here, and begins anew here after `delay`
-- failed:    the same, because its code failed
-- parked:    it failed too often, and waits for people
-- returned:  its code came to an end by itself
-- stopped:   it was asked to end, and has ended
--
-- A restart that was asked for while the report was on its way is obeyed all the same:
-- what failed keeps the order, what would be parked waits for a host.
with {clock},
reports as materialized (
    select r.id, r.epoch, r.report, r.delay, r.failures, r.error
    from unnest(%(ids)b::bigint[], %(epochs)b::bigint[], %(reports)b::text[],
                %(delays)b::float8[], %(failures)b::integer[], %(errors)b::text[])
        as r (id, epoch, report, delay, failures, error)
),
mine as materialized (
    select o.id, o.epoch
    from {schema}.pecker_observers as o
    where o.id = any (array(select id from reports)) and o.node = %(node)s::uuid
    order by o.id
    for update of o skip locked
),
changed as (
    update {schema}.pecker_observers as o
    set status = case
            when r.report in ('returned', 'stopped') or o.status = 'on_deleting'
                then 'deleted'
            else o.status end,
        node = case
            when r.report in ('again', 'failed') and o.status <> 'on_deleting' then o.node
        end,
        epoch = case
            when r.report = 'again' and o.status <> 'on_deleting' then
                greatest(o.epoch + 1, {us(clock.now)})
            else o.epoch end,
        restart = case when r.report = 'failed' then o.restart end,
        not_before = case r.report
            when 'released' then
                case when o.failures = 0 then clock.now
                     else greatest(o.not_before, clock.now) end
            else clock.now + r.delay * interval '1 second' end,
        failures = case when o.restart is null
            then coalesce(r.failures, o.failures) else o.failures end,
        last_error = coalesce(r.error, o.last_error),
        parked_at = case
            when r.report = 'parked' and o.status <> 'on_deleting'
                and o.restart is null then clock.now end,
        modified_at = clock.now
    from reports as r, mine, clock
    where o.id = r.id and mine.id = r.id and mine.epoch = r.epoch
    returning o.id, o.name, o.kind, o.status, o.node, o.epoch, o.on_parked, o.parked_at,
              r.report, r.error
),
noted as (
    insert into {schema}.pecker_observer_history
        (observer, name, kind, event, node, epoch, at, error)
    select c.id, c.name, c.kind,
           case
               when c.status = 'deleted' then 'stopped'
               when c.report = 'again' then 'started'
               when c.report = 'parked' and c.parked_at is null then 'released'
               else c.report end,
           %(node)s::uuid, c.epoch, clock.now, c.error
    from changed as c, clock
),
written as (
    insert into {schema}.pecker_observer_notices
        (signature, event, held_until, created_at)
    select c.on_parked,
           jsonb_build_object(
               'event', 'parked', 'name', c.name, 'kind', c.kind, 'epoch', c.epoch,
               'node', %(node)s::uuid, 'error', c.error),
           clock.now, clock.now
    from changed as c, clock
    where c.parked_at is not null and c.on_parked is not null
)
select r.id,
       changed.id is not null as done,
       changed.epoch
from reports as r
left join changed on changed.id = r.id
where changed.id is not null
    or not exists (
        select from {schema}.pecker_observers as o
        where o.id = r.id and o.epoch = r.epoch and o.node = %(node)s::uuid
    )

/* celery_pecker:save_observer_states */
-- The cursors that lives have moved on, several at once; those of overtaken lives are
-- dropped, and those whose row is locked come again.
with cursors as materialized (
    select c.id, c.epoch, c.state
    from unnest(%(ids)b::bigint[], %(epochs)b::bigint[], %(states)b::text[])
        as c (id, epoch, state)
),
mine as materialized (
    select o.id, o.epoch
    from {schema}.pecker_observers as o
    where o.id = any (array(select id from cursors)) and o.node = %(node)s::uuid
    order by o.id
    for no key update of o skip locked
)
update {schema}.pecker_observers as o
set state = cursors.state::jsonb
from cursors, mine
where o.id = cursors.id and mine.id = cursors.id and mine.epoch = cursors.epoch
returning o.id

/* celery_pecker:prune_observers */
-- History beyond the newest `keep` events, observers deleted a day ago, hosts dead for
-- an hour that hold nothing: some thousand at a time.
--
-- stepped: written before the clock stepped back, they would wait until it is there again
with {clock},
old as (
    delete from {schema}.pecker_observer_history
    where id in (
        select id from {schema}.pecker_observer_history
        where id <= (
            select max(id) - %(keep)s from {schema}.pecker_observer_history
        )
        order by id
        limit %(most)s
        for update skip locked
    )
),
hosts as (
    delete from {schema}.pecker_observer_nodes as n
    using clock
    where n.state = 'dead' and n.left_at < clock.now - interval '1 hour'
        and not exists (select from {schema}.pecker_observers as o where o.node = n.node)
),
stepped as (
    update {schema}.pecker_observers as o
    set not_before = clock.now + greatest(o.not_before - o.modified_at, interval '0'),
        modified_at = clock.now
    from clock
    where o.id = any (array(
        select w.id
        from {schema}.pecker_observers as w
        where {waits(w)}
            and w.kind = any (array(select kind from {schema}.pecker_observer_kinds))
            and w.not_before > (select now from clock)
            and w.modified_at > (select now from clock)
        limit %(most)s
        for update skip locked
    ))
)
delete from {schema}.pecker_observers
where id in (
    select o.id from {schema}.pecker_observers as o, clock
    where o.status = 'deleted' and o.modified_at < clock.now - interval '1 day'
    limit %(most)s
    for update of o skip locked
)

/* celery_pecker:take_observer_notices */
-- Signatures to send: for so long no other host sends them.
with {clock},
due as materialized (
    select id
    from {schema}.pecker_observer_notices
    where held_until <= (select now from clock)
    order by held_until
    limit %(most)s
    for update skip locked
)
update {schema}.pecker_observer_notices as n
set held_until = clock.now
        + least(30 * 2 ^ least(n.tries, 10), 3600) * interval '1 second',
    tries = n.tries + 1
from due, clock
where n.id = due.id
returning n.id, n.signature, n.event::text, n.tries

/* celery_pecker:close_observer_notice */
delete from {schema}.pecker_observer_notices where id = %(id)s::bigint

/* celery_pecker:fail_observer_notice */
update {schema}.pecker_observer_notices
set last_error = %(error)s
where id = %(id)s::bigint

/* celery_pecker:summarize_observers */
-- What there is of each kind in each place, without the deleted, and for how long the
-- oldest that a host may take has waited. Reads the whole table.
with {clock}
select o.kind,
       case
           {place}
       end as place,
       count(*) as count, sum(o.weight)::bigint as weight,
       sum(o.moves)::bigint as moves,
       max(extract(epoch from clock.now - greatest(o.not_before, o.modified_at)))
           filter (where o.node is null and o.parked_at is null
               and o.not_before <= clock.now)::float8 as waited
from {schema}.pecker_observers as o, clock
where o.status <> 'deleted'
group by 1, 2
order by 1, 2

/* celery_pecker:search_observers */
-- A page of observers: those that need a look first, then by name, and of these those
-- behind the one of that name and place. The last column says how many there are on all
-- pages.
with {clock},
placed as materialized (
    select o.id, o.name,
           case
               {place}
           end as place
    from {schema}.pecker_observers as o, clock
    where o.status <> 'deleted'
        and (%(search)s::text is null
            or strpos(lower(o.name), lower(%(search)s::text)) > 0
            or strpos(lower(o.kind), lower(%(search)s::text)) > 0)
        and (%(kind)s::text is null or o.kind = %(kind)s::text)
        and (%(node)s::text is null or o.node = any (array(
            select n.node from {schema}.pecker_observer_nodes as n
            where n.name = %(node)s::text or n.node::text = %(node)s::text
        )))
),
ranked as (
    select p.id, p.name, p.place, count(*) over () as total,
           array_position(%(ranks)s::text[], p.place) as rank
    from placed as p
    where %(place)s::text is null or p.place = %(place)s::text
),
chosen as materialized (
    select r.id, r.place, r.total, r.rank
    from ranked as r
    where %(after)s::text is null
        or (r.rank, r.name)
            > (array_position(%(ranks)s::text[], %(after_place)s::text), %(after)s::text)
    order by r.rank, r.name
    limit %(most)s::integer
)
select {observer(c.place)}, c.total
from chosen as c
join {schema}.pecker_observers as o on o.id = c.id
left join {schema}.pecker_observer_nodes as n on n.node = o.node
order by c.rank, o.name

/* celery_pecker:count_observer_notices */
-- Signatures of on_parked and on_moved that could not be sent so far: how many, for how
-- long the oldest, and why. The error of the one that was tried most often stands for all.
with {clock},
failing as materialized (
    select n.created_at, n.tries, n.last_error
    from {schema}.pecker_observer_notices as n
    where n.last_error is not null
)
select count(*) as count,
       extract(epoch from max(clock.now) - min(failing.created_at))::float8 as oldest,
       (array_agg(failing.last_error order by failing.tries desc, failing.created_at))[1]
           as error
from failing, clock

/* celery_pecker:read_observer_locker */
-- The transaction that has locked or changed an observer last; it may have ended.
select o.xmax::text
from {schema}.pecker_observers as o
where o.id = %(id)s

/* example_project:add_parts */
-- One agent per room on a port of its own; equipment and backend behind one port each.
with agents as (
    insert into room_agents (id, host, port)
    select a.id, %(host)s, a.port
    from unnest(%(agent_ports)s::int[]) with ordinality as a (port, id)
), machines as (
    insert into equipment (id, kind, host, port)
    select n, (array['camera', 'screen', 'microphones'])[1 + n %% 3],
           %(host)s, %(equipment_port)s
    from generate_series(1, cardinality(%(agent_ports)s::int[])) as n
)
insert into backends (id, host, port)
values (1, %(host)s, %(backend_port)s);

/* example_project:add_calls */
-- Every room is in a call. The last checks are spread over the time after which a
-- check is stale, as they are in a service that has been running for a while.
insert into calls (id, agent_id, equipment_id, backend_id, checked_at)
select a.id, a.id, a.id, 1,
       clock.now - make_interval(secs => %(stale)s * (a.id - 1) / count(*) over ())
from (select clock_timestamp() as now) as clock, room_agents as a;

/* example_project:take_stale_calls */
-- Live calls not checked lately become asked now, the longest unchecked first. A call
-- whose check is on its way is left alone until that check must have died: no message
-- carries the duty to check, the row does.
with clock as materialized (
    select clock_timestamp() as now
),
stale as materialized (
    select c.id
    from calls as c
    where c.ended_at is null
      and c.checked_at
          < (select now from clock) - make_interval(secs => %(stale)s::float8)
      and c.asked_at
          < (select now from clock) - make_interval(secs => %(again)s::float8)
    order by c.checked_at
    limit %(batch)s
    for update skip locked
)
update calls as c
set asked_at = clock.now
from stale, clock
where c.id = stale.id
returning c.id;

/* example_project:addresses_of_call */
-- Where the three parts of a live call are.
select a.host, a.port, b.host, b.port, e.host, e.port
from calls as c
join room_agents as a on a.id = c.agent_id
join backends as b on b.id = c.backend_id
join equipment as e on e.id = c.equipment_id
where c.id = %(call)s
  and c.ended_at is null;

/* example_project:record_check */
-- The check is on record and the call is fresh again; a call that its backend has hung
-- up is over. Sent again after a lost reply it changes nothing.
with clock as materialized (
    select clock_timestamp() as now
),
recorded as (
    insert into checks (id, call_id, checked_at, agent, backend, equipment, took)
    select %(id)s, %(call)s, clock.now, %(agent)s, %(backend)s, %(equipment)s, %(took)s
    from clock
    on conflict (id) do nothing
    returning call_id, checked_at, backend
)
update calls as c
set checked_at = r.checked_at,
    ended_at = case when r.backend = 'gone' then r.checked_at end,
    end_reason = case when r.backend = 'gone' then 'dropped' end
from recorded as r
where c.id = r.call_id
  and c.ended_at is null;

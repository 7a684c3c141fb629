/* example_project:database_now */
-- The one clock that instants are compared by.
select clock_timestamp();

/* example_project:runs_since */
-- Every run of the sweep that began after an instant, in the order of their beginning.
select due_at, began_at, won_by
from sweep_runs
where began_at > %(since)s
order by began_at;

/* example_project:calls_now */
-- How the calls are: live, dropped, the longest unchecked of the live ones, checks so
-- far and how many of those found something wrong.
with clock as materialized (
    select clock_timestamp() as now
)
select clock.now,
       (select count(*) from calls where ended_at is null),
       (select count(*) from calls where end_reason = 'dropped'),
       (
           select coalesce(extract(epoch from clock.now - min(checked_at)), 0)::float8
           from calls
           where ended_at is null
       ),
       (select count(*) from checks),
       (select count(*) from checks where bad)
from clock;

/* example_project:add_fault */
-- A part went wrong some seconds ago.
insert into faults (part, call_id, kind, began_at)
values (
    %(part)s, %(call)s, %(kind)s,
    clock_timestamp() - make_interval(secs => %(since)s::float8)
)
returning id;

/* example_project:end_fault */
-- The part is well again.
update faults
set ended_at = clock_timestamp()
where id = %(id)s;

/* example_project:reactions */
-- Each fault with the seconds until a check first found its part wrong; null when none
-- has so far.
select f.id, f.part, f.call_id, f.kind, f.began_at, f.ended_at,
       extract(epoch from n.noticed_at - f.began_at)::float8
from faults as f
left join lateral (
    select min(c.checked_at) as noticed_at
    from checks as c
    where c.bad
      and c.call_id = f.call_id
      and c.checked_at >= f.began_at
      and case f.part when 'agent' then c.agent else c.equipment end <> 'ok'
) as n on true
order by f.id;

/* example_project:missed_slots */
-- Slots that nobody could claim in time, as pecker's own row counts them.
select coalesce(sum(missed), 0)::bigint
from pecker_tasks
where name = 'sweep';

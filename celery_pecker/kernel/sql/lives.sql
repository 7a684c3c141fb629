/* celery_pecker:renew_life */
-- This process life has these runs in hand. No row changes where it has none yet, or where a
-- sweep has removed it: then its runs were called lost.
with {clock}
update {schema}.pecker_lives as life
set seen_at = clock.now,
    names = %(names)s::text[],
    due_us = %(dues)s::bigint[],
    eras = %(eras)s::integer[],
    epochs = %(epochs)s::bigint[]
from clock
where life.holder = %(holder)s

/* celery_pecker:begin_life */
with {clock}
insert into {schema}.pecker_lives (holder, host, seen_at, names, due_us, eras, epochs)
select %(holder)s, %(host)s::text, clock.now, %(names)s::text[], %(dues)s::bigint[],
       %(eras)s::integer[], %(epochs)s::bigint[]
from clock
on conflict (holder) do update
set {excluded(seen_at, names, due_us, eras, epochs)}

/* celery_pecker:end_life */
-- It has no run in hand any more.
delete from {schema}.pecker_lives as life
where life.holder = %(holder)s

/* celery_pecker:correct_lost_runs */
-- Runs that a sweep called lost go on: their process was frozen, or cut off. The entry is not
-- failing for that any more; what was counted stays, because a counter that falls is read as
-- one that began anew. The answer is the time, which is later than that of the sweep.
with {clock},
taken as (
    update {schema}.pecker_outcomes as kept
    set bad_era = null, bad_due = null, bad_at = null, bad_report = null,
        bad_host = null, bad_error = null
    from unnest(%(names)s::text[], %(dues)s::bigint[], %(eras)s::integer[])
        as run (name, due_us, era)
    where kept.name = run.name
        and kept.bad_report = 15
        and kept.bad_era = run.era
        and kept.bad_due = timestamptz 'epoch' + run.due_us * interval '1 microsecond'
)
select {us(clock.now)} as now
from clock

/* celery_pecker:read_lives */
-- Process lives that have runs in hand, those that were renewed just now left out: of a
-- thousand workers that live hardly one is read. An instant ahead of the clock (it stepped back) says
-- nothing, so it is read, too.
with {clock}
select life.holder, life.seen_at
from clock, {schema}.pecker_lives as life
where life.seen_at < clock.now - %(renewal)s * interval '1 second'
    or life.seen_at > clock.now
order by life.seen_at
limit 1000

/* celery_pecker:report_lost_runs */
-- Runs of process lives that were not renewed are lost. One statement: a sweeper may die at
-- any time, and of two sweepers one removes the row. A life that is renewed meanwhile
-- has another seen_at, and keeps its row (I3). The page of reports has a holder of its own,
-- because each process writes its own pages whole.
with {clock},
gone as (
    delete from {schema}.pecker_lives as life
    using unnest(%(holders)s::uuid[], %(seen)s::timestamptz[]) as silent (holder, seen_at)
    where life.holder = silent.holder and life.seen_at = silent.seen_at
    returning life.holder, life.host, life.names, life.due_us, life.eras, life.epochs
),
runs as materialized (
    select distinct on (run.name, run.era, run.due_us)
           run.name, run.era, run.due_us, run.epoch,
           timestamptz 'epoch' + run.due_us * interval '1 microsecond' as due_at,
           coalesce(gone.host, replica.host) as host
    from gone
        left join {schema}.pecker_replicas as replica on replica.holder = gone.holder,
        lateral unnest(gone.names, gone.due_us, gone.eras, gone.epochs)
            as run (name, due_us, era, epoch)
    where exists (select from {schema}.pecker_tasks as task where task.name = run.name)
    order by run.name, run.era, run.due_us, run.epoch desc
),
pages as (
    {write_page}
    select runs.name, min(runs.due_at), runs.era, %(holder)s, max(runs.host),
           max(runs.due_at), clock.now,
           array_agg(runs.due_us order by runs.due_us),
           array_agg(runs.epoch order by runs.due_us),
           array_agg({us(clock.now)}),
           array_agg(15::smallint)
    from clock, runs
    group by runs.name, runs.era, clock.now
)
insert into {schema}.pecker_outcomes as kept
    (name, lost, bad_era, bad_due, bad_at, bad_report, bad_host, bad_error)
select distinct on (runs.name)
       runs.name, count(*) over (partition by runs.name), runs.era, runs.due_at, clock.now,
       15, runs.host, ''
from clock, runs
order by runs.name, runs.era desc, runs.due_at desc
on conflict (name) do update
set {added(lost)},
    {latest_bad}

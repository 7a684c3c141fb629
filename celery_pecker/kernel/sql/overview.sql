/* part:living */
-- Whether a process lives that runs entries itself, and one that sends them.
living as materialized (
    select coalesce(bool_or(replica.kind = 'local'), false) as local,
           coalesce(bool_or(replica.kind <> 'local'), false) as dispatch
    from {schema}.pecker_replicas as replica, clock
    where replica.seen_at > clock.now - %(term)s * interval '1 second'
)

/* part:entry_columns */
task.name, declared.task, declared.schedule, declared.run, declared.delivery,
declared.period_us, declared.timeout_us, {us(task.executed_at)} as last_us,
task.epoch, task.era, task.missed, task.paused,
coalesce(declared.declared_until >= clock.now, false) as declared,
case declared.run when 'local' then living.local else living.dispatch end as claimed

/* part:declared_tasks */
-- Entries that code or people declare, or did.
from clock,
    {schema}.pecker_tasks as task
    join {schema}.pecker_declarations as declared on declared.name = task.name

/* part:known_outcomes */
-- Entries that ran, with what code declares of them.
from clock,
    {schema}.pecker_outcomes as outcome
    join {schema}.pecker_tasks as task on task.name = outcome.name
    join {schema}.pecker_declarations as declared on declared.name = outcome.name

/* celery_pecker:list_entries */
-- One page of the entries, searched and sorted, for people. The states, and what is
-- overdue, follow from the rows alone:
--
-- overdue     a slot on the grid should have been won longer ago than overdue_after
-- unclaimed   no scheduler lives that could win its slots: a crontab is not overdue yet, and a
--             stored schedule is declared for ever
-- failing     its last slot was not sent, its last run ended badly, or one did within a
--             minute: an entry that fails now and then would blink
-- unreported  what was sent should have begun by now, and no worker reports of it
-- undeclared  no living replica's code declares it: its rows go after a day
-- paused      its slots pass without a run
-- new         it never had a slot
--
-- Everything is sorted by one number or one text, so that the statement is the same
-- whatever the order; what only some orders need is joined under a condition that is
-- false for the others, and costs nothing then. The lateness of all entries is looked up
-- only where it sorts, in the last reports of each: 5 to 10 us an entry. All else is joined for the
-- rows of the page alone. What was published (1), or started (10) here and by no
-- broker, tells how late a slot was: reports of workers (which have a host) do not.
with {clock},
{living},
listed as materialized (
    select task.name,
           case %(order)s::text when 'task' then declared.task collate "C" end as word,
           case %(order)s::text
               when 'last' then extract(epoch from task.executed_at)::float8
               when 'missed' then task.missed::float8
               when 'late' then last.late_us::float8
               when 'state' then
                   array_position(%(states)s::text[], marked.state)::float8
           end as number
    from {schema}.pecker_tasks as task
    cross join clock
    cross join living
    left join {schema}.pecker_declarations as declared
        on declared.name = task.name
        and (%(order)s::text in ('task', 'state') or %(search)s::text is not null
            or %(state)s::text is not null or %(task)s::text is not null)
    left join {schema}.pecker_outcomes as outcome
        on outcome.name = task.name
        and (%(order)s::text = 'state' or %(state)s::text is not null)
    cross join lateral (
        select case
            when coalesce(declared.declared_until < clock.now, true) then 'undeclared'
            when task.paused then 'paused'
            when clock.now > task.executed_at
                + declared.period_us * interval '1 microsecond'
                + %(overdue_after)s * interval '1 second' then 'overdue'
            when not case declared.run when 'local' then living.local
                else living.dispatch end then 'unclaimed'
            when outcome.failing or outcome.undelivered
                or outcome.bad_at > clock.now - interval '60 seconds' then 'failing'
            when outcome.unreported_at < clock.now then 'unreported'
            when task.epoch = 0 then 'new'
            else 'ok'
        end as state
    ) as marked
    left join lateral (
        select (report.at_us)[cardinality(report.at_us)]
               - (report.due_us)[cardinality(report.due_us)] as late_us
        from {schema}.pecker_history as report
        where %(order)s::text = 'late' and report.name = task.name
            and report.host is null
        order by report.first_due desc
        limit 1
    ) as last on true
    where (%(search)s::text is null
            or strpos(lower(task.name), lower(%(search)s::text)) > 0
            or strpos(lower(declared.task), lower(%(search)s::text)) > 0)
        and (%(state)s::text is null or marked.state = %(state)s::text)
        and (%(task)s::text is null or declared.task = %(task)s::text)
),
page as materialized (
    select name, row_number() over () as nth
    from (
        select name
        from listed
        order by
            case when not %(descending)s then number end nulls last,
            case when %(descending)s then number end desc nulls last,
            case when not %(descending)s then word end nulls last,
            case when %(descending)s then word end desc nulls last,
            case when not %(descending)s or %(order)s::text <> 'name'
                then name collate "C" end,
            name collate "C" desc
        limit %(limit)s offset %(offset)s
    ) as sorted
)
select {us(clock.now)} as now_us, counted.entries,
       {entry_columns},
       task.holder, replica.host, seen.spark
from clock
cross join living
cross join (select count(*) as entries from listed) as counted
left join page on true
left join {schema}.pecker_tasks as task on task.name = page.name
left join {schema}.pecker_declarations as declared on declared.name = page.name
left join {schema}.pecker_replicas as replica on replica.holder = task.holder
left join lateral (
    select array_agg(slot.late_us order by slot.due_us) as spark
    from (
        select said.due_us,
               greatest(min(said.at_us - said.due_us), 0) as late_us
        from (
            select due_us, at_us, report
            from (
                select due_us, at_us, report, first_due
                from {schema}.pecker_history as report
                where report.name = page.name and report.host is null
                order by report.first_due desc
                limit 64
            ) as newest
            where newest.report && array[1, 10]::smallint[]
            order by newest.first_due desc
            limit 2
        ) as block,
            unnest(block.due_us, block.at_us, block.report)
                as said (due_us, at_us, report)
        where said.report in (1, 10)
        group by said.due_us
        order by said.due_us desc
        limit %(shown)s
    ) as slot
) as seen on true
order by page.nth

/* celery_pecker:read_entry */
-- One entry, by its name.
with {clock},
{living}
select {us(clock.now)} as now_us,
       {entry_columns},
       task.holder, replica.host,
       {us(least(declared.declared_until, timestamptz '9000-01-01 00:00+00'))} as until_us,
       {us(replica.seen_at)} as seen_us, fence.epoch as fence_epoch,
       fence.era as fence_era, fence.attempt as fence_attempt,
       {us(fence.due_at)} as fence_due_us, {us(fence.started_at)} as fence_started_us
from clock, living,
    {schema}.pecker_tasks as task
    left join {schema}.pecker_declarations as declared on declared.name = task.name
    left join {schema}.pecker_replicas as replica on replica.holder = task.holder
    left join {schema}.pecker_fences as fence on fence.name = task.name
where task.name = %(name)s

/* celery_pecker:read_outcomes */
-- How the runs of some entries ended: counts, and the last slot that ended badly. Whether it is
-- failing: its last slot was not sent, its last run ended badly, or one did within a minute.
-- Unreported: since when what was sent should have begun, and no worker reports of it.
with {clock}
select outcome.name,
       outcome.failing or outcome.undelivered
           or coalesce(outcome.bad_at > clock.now - interval '60 seconds', false) as failing,
       outcome.undelivered,
       case when outcome.unreported_at < clock.now then {us(outcome.unreported_at)}
       end as unreported_us,
       array[outcome.published, outcome.not_sent, outcome.succeeded, outcome.failed,
             outcome.overrun, outcome.lost, outcome.refused_late,
             outcome.refused_overtaken, outcome.refused_unknown,
             outcome.refused_repeated] as counts,
       bad.report, {us(bad.due)} as due_us, bad.era, {us(bad.at)} as at_us, bad.host,
       bad.error
from clock,
    {schema}.pecker_outcomes as outcome,
    lateral (values
        (false, outcome.bad_report, outcome.bad_due, outcome.bad_era, outcome.bad_at,
         outcome.bad_host, outcome.bad_error),
        (true, outcome.unsent_report, outcome.unsent_due, outcome.unsent_era,
         outcome.unsent_at, null, outcome.unsent_error)
    ) as bad (unsent, report, due, era, at, host, error)
where outcome.name = any (%(names)s::text[])
    and bad.unsent = outcome.undelivered

/* celery_pecker:list_failing */
-- The first few entries that fail, those that are not even sent first; the unreported ones last.
-- As in read_outcomes; of living code, and not paused.
with {clock}
select outcome.name
{known_outcomes}
where (outcome.failing or outcome.undelivered
        or outcome.bad_at > clock.now - interval '60 seconds'
        or outcome.unreported_at < clock.now)
    and declared.declared_until >= clock.now
    and not task.paused
order by outcome.undelivered desc, outcome.failing desc, outcome.name
limit %(limit)s

/* celery_pecker:list_paused */
-- Entries of living code whose slots pass, for people who have forgotten it.
with {clock}
select task.name
{declared_tasks}
where task.paused and declared.declared_until >= clock.now
order by task.name
limit %(most)s

/* celery_pecker:read_reports */
-- What processes reported of the last slots of an entry, newest first; a row holds up to 60.
select report.era, report.holder, coalesce(report.host, replica.host) as host,
       report.due_us, report.epoch, report.at_us, report.report
from {schema}.pecker_history as report
left join {schema}.pecker_replicas as replica on replica.holder = report.holder
where report.name = %(name)s
order by report.era desc, report.last_due desc
limit %(limit)s

/* celery_pecker:read_reports_of_task */
-- The same of the entries that send a task, bounded: those that ran last.
select report.name, report.era, report.holder, report.host,
       report.due_us, report.epoch, report.at_us, report.report
from {schema}.pecker_declarations as declared
join {schema}.pecker_history as report on report.name = declared.name
where declared.task = %(task)s
order by report.last_due desc
limit 500

/* celery_pecker:read_pending */
-- Slots of an entry that were claimed and not confirmed, and requested runs.
-- One that was sent and rests until its deadline is neither.
select {us(pending.due_at)} as due_us,
       pending.era, pending.epoch, pending.attempt, pending.asked, pending.asked_by,
       case when pending.asked then {us(pending.taken_at)}
           else {us(pending.claimed_at)}
       end as claimed_us
from {schema}.pecker_pending as pending
where pending.name = %(name)s
    and (not pending.asked or pending.epoch = 0 or pending.taken_at is not null)
order by pending.due_at desc
limit 100

/* celery_pecker:list_replicas */
-- Every process life that was seen within a day, and of how many entries it won the last slot.
with {clock},
won as (
    select task.holder, count(*) as slots
    from {schema}.pecker_tasks as task
    group by task.holder
)
select replica.holder, replica.host, replica.pid, replica.version, replica.kind,
       replica.entries, replica.differing, {us(replica.started_at)} as started_us,
       {us(replica.seen_at)} as seen_us,
       replica.seen_at > clock.now - %(term)s * interval '1 second' as living,
       coalesce(won.slots, 0) as won
from clock,
    {schema}.pecker_replicas as replica
    left join won on won.holder = replica.holder
order by replica.seen_at desc, replica.holder

/* celery_pecker:count_entries */
-- The figures of all entries at once: for the pace, for metrics, for the head of a page.
with {clock},
living as materialized (
    -- A worker has two rows: one part sends, the other runs local entries.
    select count(*) filter (
               where replica.kind <> 'local' or not exists (
                   select from {schema}.pecker_replicas as worker
                   where worker.kind = 'worker'
                       and worker.seen_at > clock.now - %(term)s * interval '1 second'
                       and (worker.host, worker.pid) = (replica.host, replica.pid)
               )
           ) as replicas,
           coalesce(bool_or(replica.kind = 'local'), false) as local,
           coalesce(bool_or(replica.kind <> 'local'), false) as dispatch,
           coalesce(max(replica.unreadable), 0) as unreadable
    from {schema}.pecker_replicas as replica, clock
    where replica.seen_at > clock.now - %(term)s * interval '1 second'
),
known as materialized (
    select task.name, task.epoch, task.missed, task.paused,
           coalesce(declared.declared_until >= clock.now, false) as declared,
           coalesce(declared.declared_until >= clock.now, false) and not task.paused
               as runs,
           case declared.run when 'local' then living.local else living.dispatch end
               as claimed,
           declared.run = 'local' as local,
           declared.period_us is not null as grid,
           clock.now - task.executed_at
               - declared.period_us * interval '1 microsecond' as overdue,
           outcome.undelivered, outcome.failing
               or outcome.bad_at > clock.now - interval '60 seconds' as failing,
           outcome.unreported_at < clock.now as unreported
    from clock,
        living,
        {schema}.pecker_tasks as task
        left join {schema}.pecker_declarations as declared on declared.name = task.name
        left join {schema}.pecker_outcomes as outcome on outcome.name = task.name
)
select {us(clock.now)} as now_us,
       entries.*, worst.name as worst, waiting.*, living.replicas,
       living.unreadable, ended.counts
from clock,
    living,
    (
        select count(*) as entries,
               count(*) filter (where declared) as declared,
               count(*) filter (where not declared) as undeclared,
               count(*) filter (where declared and grid) as grid,
               count(*) filter (where declared and local) as local,
               count(*) filter (where paused) as paused,
               count(*) filter (where epoch = 0) as new,
               count(*) filter (
                   where declared and overdue > %(overdue_after)s * interval '1 second'
               ) as overdue,
               coalesce(sum(missed), 0)::bigint as missed,
               greatest(coalesce((extract(epoch from
                   max(overdue) filter (where declared)) * 1000000)::bigint, 0), 0)
                   as worst_us,
               count(*) filter (where runs and (failing or undelivered)) as failing,
               count(*) filter (where runs and undelivered) as undelivered,
               count(*) filter (
                   where runs and unreported and not coalesce(failing or undelivered, false)
               ) as unreported,
               count(*) filter (where runs and not claimed) as unclaimed
        from known
    ) as entries
    left join (
        select name, overdue
        from known
        where declared and overdue > interval '0'
        order by overdue desc
        limit 1
    ) as worst on true,
    (
        select count(*) filter (where not pending.asked) as pending,
               count(*) filter (where pending.asked and pending.epoch = 0) as asked,
               -- A replica that sends it once more renews its claim: then only attempt says
               -- that it was not confirmed within the 15 s of its lease.
               count(*) filter (
                   where (pending.attempt > 0 or pending.claimed_at
                           < clock.now - (%(overdue_after)s + 15) * interval '1 second')
                       and (not pending.asked or pending.taken_at is not null)
               ) as stuck
        from {schema}.pecker_pending as pending, clock
    ) as waiting,
    (
        select array[
            sum(published), sum(not_sent), sum(succeeded), sum(failed), sum(overrun),
            sum(lost), sum(refused_late), sum(refused_overtaken), sum(refused_unknown),
            sum(refused_repeated)]::bigint[] as counts
        from {schema}.pecker_outcomes
    ) as ended

/* celery_pecker:insert_requested_run */
-- Asks for a run now: an unclaimed slot beside the grid, until a replica
-- that declares the entry takes it (taken_at; claimed_at stays infinity). Asked again while one waits,
-- the answer is the one that waits. None at all for an entry that no living code declares,
-- or whose timeout is as long as its period: there is no room between two of its runs.
with {clock},
known as (
    select task.name, task.era
    {declared_tasks}
    where task.name = %(name)s and declared.declared_until >= clock.now
        and not (
            task.epoch > 0 and coalesce(declared.timeout_us >= declared.period_us, false))
),
waiting as (
    select pending.due_at
    from known, {schema}.pecker_pending as pending
    where pending.name = known.name
        and pending.asked and pending.epoch = 0
    order by pending.due_at
    limit 1
),
asked as (
    {asked_run}
    select known.name, clock.now, known.era, 0, '00000000-0000-0000-0000-000000000000',
           'infinity', true, %(by)s
    from clock, known
    where not exists (select from waiting)
    on conflict (name, due_at, era) do nothing
    returning due_at
)
select {us(due_at)} as due from asked
union all
select {us(due_at)} from waiting

/* celery_pecker:import_last */
-- Sets when entries ran last, as another scheduler remembers it. What has been won here
-- already is left alone unless asked for, or its slots would come twice; what lies in the
-- future would be taken for a clock that stepped back.
with {clock}
insert into {schema}.pecker_tasks as task (name, executed_at)
select given.name, given.instant
from clock,
    unnest(%(names)s::text[], %(instants)s::timestamptz[]) as given (name, instant)
where given.instant <= clock.now
order by given.name
on conflict (name) do update
set executed_at = excluded.executed_at
where task.epoch = 0 or %(overwrite)s
returning task.name

/* celery_pecker:add_alarm_rules */
-- Rules of this code that the table does not have; they are due at once. And where notices go,
-- so that a target can be tried that was sent nothing so far.
with {clock},
targets as (
    insert into {schema}.pecker_alarm_targets (target)
    select wanted.target
    from unnest(%(targets)s::text[]) as wanted (target)
    order by wanted.target
    on conflict (target) do nothing
)
insert into {schema}.pecker_alarm_rules (rule, due_at, looked_at)
select wanted.rule, clock.now, clock.now
from clock, unnest(%(rules)s::text[]) as wanted (rule)
order by wanted.rule
on conflict (rule) do nothing

/* celery_pecker:take_alarm_rules */
-- Takes the rules whose round is due: of all replicas one looks, under the epoch that it
-- raised. No other replica takes it before the lease ends: looks that outlast an interval, as
-- on a machine that is busy, overtook one another, and nothing ever rang. Recording a look
-- ends the lease, and is its holder no more. A holder that takes the rule again has not
-- recorded its last look: its lease still counts from the first take, else a replica whose
-- looks fail kept the rule for ever. Rules whose last look lies in the
-- future are due, too: the clock stepped back, and `stepped` says by how much. The answer
-- has the time in a row of its own, and how many notices wait to be sent.
with {clock},
due as materialized (
    select r.rule, r.looked_at, not r.recorded as first,
           coalesce(r.holder = %(holder)s, false)
               and r.looked_at <= clock.now + interval '1 second' as again
    from {schema}.pecker_alarm_rules as r, clock
    where r.rule = any (%(rules)s::text[])
        and (
            r.due_at <= clock.now
            or r.looked_at > clock.now + interval '1 second'
            or r.holder = %(holder)s
                and r.looked_at <= clock.now - %(interval)s * interval '1 second'
        )
    order by r.rule
    for update of r skip locked
),
taken as (
    update {schema}.pecker_alarm_rules as r
    set due_at = case when due.again then r.due_at
            else clock.now + greatest(%(interval)s, %(lease)s) * interval '1 second' end,
        looked_at = clock.now,
        stepped = case when due.looked_at > clock.now then due.looked_at - clock.now end,
        epoch = greatest(r.epoch + 1, {us(clock.now)}),
        holder = %(holder)s
    from due, clock
    where r.rule = due.rule
    returning r.rule, r.epoch, due.first, extract(epoch from r.stepped)::float8 as stepped, r.passed
)
select clock.now, null::text as rule, null::bigint as epoch, null::boolean as first,
       null::float8 as stepped, null::text as passed,
       (
           select count(*) from {schema}.pecker_alarm_notices as n
           where n.held_until <= clock.now
               or n.held_until > clock.now + interval '2 minutes'
       ) as notices
from clock
union all
select null, rule, epoch, first, stepped, passed, null
from taken

/* celery_pecker:find_alarm_part */
-- Names of entries are read a part at a time: where the next part ends. Null: none is left.
select max(name)
from (
    select task.name
    from {schema}.pecker_tasks as task
    where task.name > %(low)s
    order by task.name
    limit %(most)s
) as part

/* celery_pecker:find_silent */
-- Entries of which no slot was won although one has been due for long: of a grid the next one
-- after the last win, of other schedules the instant that code gives. Expected for sure is an
-- entry whose declaration stands and was renewed after that slot was due, or which the last
-- replica of its kind declared: that this one is gone is the alarm. Else code may have dropped
-- the entry meanwhile (unsure), and only a replica with that code can tell. What the gate of any living
-- replica holds back is held, and not silent. Each replica writes into its row what its gate holds
-- back: by the memory of the process that looks, another process would find the same entry silent,
-- and the alarm would ring and recover by turns. executed_at changes with each slot, so no index
-- may have it: a part of all names is read, and those that ring. A slot for which an entry rings
-- is due until it is won, whether or not this process has worked its instant out yet: one that has
-- just begun said of hundreds of crontabs that they had recovered.
with {clock},
alive as materialized (
    select replica.kind = 'local' as local, max(replica.seen_at) as seen_at
    from {schema}.pecker_replicas as replica
    group by 1
),
held as materialized (
    select unnest(%(held)s::text[]) as name
    union
    select unnest(replica.held)
    from clock, {schema}.pecker_replicas as replica
    where replica.seen_at > clock.now - interval '20 seconds'
),
open as materialized (
    select alarm.subject, alarm.since
    from {schema}.pecker_alarms as alarm
    where alarm.rule = %(rule)s and alarm.state <> 'recovered'
)
select task.name, slot.due, extract(epoch from clock.now - slot.due)::float8,
       case when declared.declared_until >= clock.now
                   and declared.declared_until - %(term)s * interval '1 second' >= slot.due
               or coalesce(
                   alive.seen_at < clock.now - interval '20 seconds'
                   and alive.seen_at < declared.declared_until, true)
           then '' else 'unsure' end,
       task.name
{declared_tasks}
    left join unnest(%(names)s::text[], %(instants)s::timestamptz[])
        as given (name, due) on given.name = task.name
    left join open on open.subject = task.name
    left join alive on alive.local = (declared.run = 'local'),
    lateral (
        select coalesce(
            task.executed_at + declared.period_us * interval '1 microsecond',
            greatest(given.due, open.since)) as due
    ) as slot
where (task.name > %(low)s and task.name <= %(high)s
        or task.name = any (array(select open.subject from open)))
    and (declared.name > %(low)s and declared.name <= %(high)s
        or declared.name = any (array(select open.subject from open)))
    and slot.due < clock.now - %(after)s * interval '1 second'
    and task.executed_at < slot.due
    and not task.paused
    and (task.name in (select held.name from held)) = %(wanted)s::boolean
    and not exists (
        select from {schema}.pecker_schedules as stored
        where stored.name = task.name
            and (stored.removed_at is not null
                or stored.ends_at <= slot.due
                or stored.once and task.executed_at >= stored.once_at)
    )
order by task.name
limit 1000

/* celery_pecker:find_stored_slots */
-- Stored schedules that are no grid and whose last slot lies so far back that the next one may
-- be late: from version and last slot code works out when that was due, once for each slot.
with {clock}
select task.name, stored.version, {us(task.executed_at)}
{declared_tasks}
    join {schema}.pecker_schedules as stored on stored.name = task.name
where (task.name > %(low)s and task.name <= %(high)s
        or task.name = any (array(
            select alarm.subject from {schema}.pecker_alarms as alarm
            where alarm.rule = %(rule)s and alarm.state <> 'recovered')))
    and declared.stored and declared.period_us is null
    and stored.removed_at is null
    and not (stored.once and coalesce(task.executed_at >= stored.once_at, false))
    and task.executed_at < clock.now - %(after)s * interval '1 second'
    and not task.paused
order by task.name

/* celery_pecker:find_failing */
-- Entries whose last slot was not sent, or whose last run ended badly: by an index that holds
-- no others.
with {clock}
select outcome.name, null::timestamptz, outcome.failed::float8,
       coalesce(
           case when outcome.undelivered then outcome.unsent_error
               else outcome.bad_error end, ''),
       outcome.name
{known_outcomes}
where (outcome.failing or outcome.undelivered)
    and declared.declared_until >= clock.now
    and not task.paused
order by outcome.name
limit 1000

/* celery_pecker:find_unreported */
-- Entries of whose messages no worker reports although they should have begun. unreported_at
-- changes with slots, so no index may have it: a part of all names is read, and those that ring.
with {clock}
select outcome.name, null::timestamptz,
       extract(epoch from clock.now - outcome.unreported_at)::float8, '', outcome.name
{known_outcomes}
where (outcome.name > %(low)s and outcome.name <= %(high)s
        or outcome.name = any (array(
            select alarm.subject from {schema}.pecker_alarms as alarm
            where alarm.rule = %(rule)s and alarm.state <> 'recovered')))
    and outcome.unreported_at < clock.now
    and declared.declared_until >= clock.now
    and not task.paused
order by outcome.name
limit 1000

/* celery_pecker:find_counted */
-- Counters that rose by so much within a window: missed slots, overruns, overtaken runs, eras.
-- The first rise opens the window; one that rises enough rings until a window has passed
-- without as much. What rises after a window that was not enough opens the next one. At the first look, of a rule or of an entry, what was counted before is no
-- news; else a counter without a mark was zero. Missed slots are read from a part of all entries, the
-- others from those that had bad news within the window, the highest era from all. Of more than
-- 20,000 that moved, as after an outage, the rest keep their marks for the next looks: marks for
-- 100,000 outlast the timeout of a statement, and no look came to its end.
with {clock},
counted as materialized (
    select task.name as subject,
           task.missed + coalesce(outcome.not_sent, 0) as value
    from {schema}.pecker_tasks as task
    left join {schema}.pecker_outcomes as outcome
        on outcome.name = task.name
        and outcome.name > %(low)s and outcome.name <= %(high)s
    where %(kind)s::text = 'misfire'
        and task.name > %(low)s and task.name <= %(high)s
    union all
    select outcome.name,
           case %(kind)s::text when 'overrun' then outcome.overrun
               else outcome.refused_overtaken end
    from clock, {schema}.pecker_outcomes as outcome
    where %(kind)s::text in ('overrun', 'overtaken')
        and outcome.bad_at > clock.now - case when %(first)s then interval '100 years'
            else %(within)s * interval '1 second' end
    union all
    select 'database', coalesce(max(task.era), 0)
    from {schema}.pecker_tasks as task
    where %(kind)s::text = 'clock' and task.era > 0
),
compared as materialized (
    select counted.subject, counted.value, mark.rule is not null as marked,
           mark.at, mark.rung_at, mark.rose, mark.detail,
           counted.value - coalesce(
               case when past.over then mark.seen else mark.value end,
               case when %(first)s then counted.value else 0 end)
               + %(more)s::bigint as diff,
           past.over
    from clock, counted
    left join {schema}.pecker_alarm_marks as mark
        on mark.rule = %(rule)s and mark.subject = counted.subject
        and (%(kind)s::text <> 'misfire'
            or mark.subject > %(low)s and mark.subject <= %(high)s),
    lateral (
        select coalesce(
            mark.at < clock.now - %(within)s * interval '1 second'
                or mark.at > clock.now + interval '1 second', false) as over
    ) as past
),
judged as materialized (
    select compared.*, diff >= %(count)s as rises,
           diff < 0 or (%(first)s and not marked) as anew
    from compared
    where diff <> 0 or (%(first)s and not marked)
    order by rises desc, subject
    limit case when %(kind)s::text = 'misfire' or not %(first)s then 20000 end
),
marked as (
    insert into {schema}.pecker_alarm_marks as mark
        (rule, subject, value, seen, at, rung_at, rose, detail)
    select %(rule)s, j.subject,
           case when j.rises or j.anew then j.value else j.value - j.diff end,
           j.value,
           case when j.rises or j.anew then null
                when j.over then clock.now
                else coalesce(j.at, clock.now) end,
           case when j.rises then clock.now else j.rung_at end,
           case when j.rises then j.diff else coalesce(j.rose, 0) end,
           case when j.rises then %(detail)s else coalesce(j.detail, '') end
    from judged as j, clock
    order by j.subject
    on conflict (rule, subject) do update
    set {excluded(value, seen, at, rung_at, rose, detail)}
)
select j.subject, null::timestamptz, j.diff::float8, %(detail)s::text, j.subject
from judged as j
where j.rises
union all
select mark.subject, null, mark.rose::float8, mark.detail, mark.subject
from clock, {schema}.pecker_alarm_marks as mark
where mark.rule = %(rule)s
    and mark.rung_at > clock.now - %(within)s * interval '1 second'
    and mark.rung_at <= clock.now + interval '1 second'
    and not exists (select from judged as j where j.subject = mark.subject and j.rises)
order by 1
limit 1000

/* celery_pecker:find_long_runs */
-- Runs in hand for longer than their timeout, or than the period where they have none. Only
-- processes that have long runs in hand have a row to read.
with {clock}
select run.name,
       min(timestamptz 'epoch' + (run.due_us
           + coalesce(declared.timeout_us, declared.period_us)) * interval '1 microsecond'),
       extract(epoch from clock.now - min(
           timestamptz 'epoch' + run.due_us * interval '1 microsecond'))::float8,
       '', run.name
from clock,
    {schema}.pecker_lives as life,
    unnest(life.names, life.due_us) as run (name, due_us)
    join {schema}.pecker_declarations as declared on declared.name = run.name
where timestamptz 'epoch' + (run.due_us
        + coalesce(declared.timeout_us, declared.period_us)) * interval '1 microsecond'
    < clock.now - %(after)s * interval '1 second'
group by run.name, clock.now
order by run.name
limit 1000

/* part:last_begun */
-- Of a sharded job: when a layer began, or a shard was claimed, last.
greatest(
    (select max(layer.started_at) from {schema}.pecker_layers as layer
     where layer.job = job.job),
    (select max(shard.claimed_at) from {schema}.pecker_shards as shard
     where shard.job = job.job)
)

/* part:taken_tickets */
-- Of a sharded job: tickets that somebody holds, or that rest until a moment.
select from {schema}.pecker_tickets as ticket
where ticket.job = job.job
    and (ticket.state = 'held' and ticket.leased_until > clock.now
        or ticket.wake_at > clock.now)

/* celery_pecker:find_hanging_jobs */
-- Sharded jobs of which something stands still. The codes are those of list_shards: 401 ready,
-- and no worker claims; 402 claimed, and not begun, by a live process: its lease is not over;
-- 403 claimed by a process that is gone. What rang as 402 goes on as 403 once its lease is over:
-- without a look that finds neither, which would say that it has recovered.
with {clock},
edge as materialized (
    select now - %(after)s * interval '1 second' as at from clock
),
job as materialized (
    select job.job, job.task_id, job.task, job.layer,
           coalesce(job.planned_at, job.submitted_at) as begun_at
    from {schema}.pecker_jobs as job
    where job.stage = 'sharding' and not job.paused
    order by job.job
    limit 1000
)
select job.task || ' ' || job.task_id, stuck.since, stuck.code::float8,
       stuck.shards::text, job.task
from job, clock,
    lateral (
        select 403 as code, count(*) as shards,
               min(greatest(shard.claimed_at, ticket.leased_until)) as since
        from edge, {schema}.pecker_shards as shard
        left join {schema}.pecker_tickets as ticket
            on ticket.job = shard.job and ticket.ticket = shard.ticket
            and ticket.seq = shard.epoch and ticket.state = 'held'
        where shard.job = job.job and shard.status in (201, 202)
            and coalesce(ticket.leased_until, shard.claimed_at) < edge.at
            and shard.claimed_at < edge.at
        having count(*) > 0
        union all
        select case when ticket.leased_until < clock.now then 403 else 402 end,
               count(*), min(shard.claimed_at)
        from edge, {schema}.pecker_shards as shard
        join {schema}.pecker_tickets as ticket
            on ticket.job = shard.job and ticket.ticket = shard.ticket
            and ticket.seq = shard.epoch and ticket.state = 'held'
        where shard.job = job.job and shard.status = 201
            and shard.cursor = 0 and shard.deaths = 0
            and shard.claimed_at < edge.at and ticket.leased_until >= edge.at
        group by 1
        union all
        select 401, waiting.shards, last.at
        from edge,
            lateral (
                select count(*) as shards
                from {schema}.pecker_shards as shard
                where shard.job = job.job and shard.layer = job.layer
                    and shard.status = 100
                    and coalesce(shard.not_before <= edge.at, true)
            ) as waiting,
            lateral (
                select coalesce({last_begun}, job.begun_at) as at
            ) as last
        where waiting.shards > 0 and last.at < edge.at
            and not exists ({taken_tickets})
        order by code desc
        limit 1
    ) as stuck

/* celery_pecker:find_failed_jobs */
with {clock}
select job.task || ' ' || job.task_id, job.ended_at, 0::float8,
       coalesce(concat_ws(': ', job.error ->> 'type', job.error ->> 'message'), ''), job.task
from {schema}.pecker_jobs as job
where job.stage = 'ended' and job.outcome = 'failed'
    and job.ended_at > (select now - %(within)s * interval '1 second' from clock)
order by job.ended_at desc
limit 1000

/* celery_pecker:find_late_jobs */
-- Jobs that have not ended so long after their deadline, or after their submission where
-- they have none.
with {clock}
select job.task || ' ' || job.task_id, coalesce(job.deadline_at, job.submitted_at),
       extract(epoch from clock.now - job.submitted_at)::float8, job.stage, job.task
from clock, {schema}.pecker_jobs as job
where job.stage <> 'ended'
    and coalesce(job.deadline_at, job.submitted_at)
        < clock.now - %(after)s * interval '1 second'
order by job.job
limit 1000

/* celery_pecker:find_outbox_parked */
with parked as materialized (
    select row.task, row.parked_at, row.last_error
    from {schema}.pecker_outbox as row
    where row.parked_at is not null
    order by row.id
    limit 10000
)
select task, min(parked_at), count(*)::float8,
       coalesce((array_agg(last_error order by parked_at desc))[1], ''), task
from parked
group by task
having count(*) >= %(count)s

/* celery_pecker:find_observers_parked */
select o.name, o.parked_at, o.failures::float8, coalesce(o.last_error, ''), o.name
from {schema}.pecker_observers as o
where o.parked_at is not null and o.status <> 'deleted'
order by o.parked_at
limit 1000

/* celery_pecker:find_observer_hosts */
-- Hosts that stopped without a goodbye: buried by others after the end of their lease, or to be
-- buried and no host is there for it. One that is back under its name is well.
with {clock}
select n.name, max(n.leased_until),
       sum((select count(*) from {schema}.pecker_observers as o where o.node = n.node))::float8,
       '', n.name
from clock, {schema}.pecker_observer_nodes as n
where n.leased_until < clock.now - %(after)s * interval '1 second'
    and (n.state <> 'dead'
        or n.left_at >= n.leased_until
            and n.left_at > clock.now - %(within)s * interval '1 second')
    and not exists (
        select from {schema}.pecker_observer_nodes as back
        where back.name = n.name and back.state <> 'dead' and back.leased_until > clock.now
    )
group by n.name

/* celery_pecker:find_observer_notices */
select (n.event ->> 'event') || ' ' || (n.event ->> 'name') || ' #' || n.id,
       n.created_at, n.tries::float8, coalesce(n.last_error, ''), n.event ->> 'name'
from {schema}.pecker_observer_notices as n
where n.tries > 1 and n.tries >= %(count)s
order by n.id
limit 1000

/* celery_pecker:record_alarms */
-- What one look of one rule found becomes its alarms: what is new waits or rings, what is
-- gone has recovered (not if the look was cut at its limit), and each target gets a row of its own, all at once. Of what is
-- muted or snoozed nothing is told; what still rings when a snooze is over rings anew. What begins
-- or ends in a storm, more than so many within a minute, is one row that has all subjects; one that waits is widened by
-- what is new, and loses what is so no more. Only under the epoch of the round: a replica that was frozen since writes nothing (I3). A newer notice takes
-- the place of one that waits, under an id of its own: a sender of the old one cannot
-- take the new one for sent, and a target that knows the old id does not drop the new one.
with {clock},
mine as materialized (
    select rule from {schema}.pecker_alarm_rules
    where rule = %(rule)s and epoch = %(epoch)s
    for update skip locked
),
moved as (
    update {schema}.pecker_alarm_rules as r
    set passed = %(passed)s,
        severity = %(severity)s,
        recorded = true,
        holder = null,
        due_at = r.looked_at + %(interval)s * interval '1 second'
    from mine
    where r.rule = mine.rule
),
found as materialized (
    select found.*
    from mine,
        unnest(%(subjects)s::text[], %(details)s::text[], %(sinces)s::timestamptz[],
               %(afters)s::float8[], %(cooldowns)s::float8[], %(recoveries)s::boolean[])
            as found (subject, detail, since, after, cooldown, recovery)
),
known as materialized (
    select alarm.*
    from mine
    join {schema}.pecker_alarms as alarm on alarm.rule = mine.rule
    where alarm.state <> 'recovered' or alarm.subject = any (%(subjects)s::text[])
),
judged as materialized (
    select found.subject, found.detail, found.recovery, found.cooldown,
           coalesce(known.state = 'ringing', false) as rang,
           coalesce(known.state = 'ringing' and known.noticed, false) as noticed,
           known.noticed_at, known.rang_at, coalesce(known.times, 0) as times,
           coalesce(known.snoozed_until <= clock.now, false) as woke,
           known.muted_by is not null
               or coalesce(known.snoozed_until > clock.now, false) as quiet,
           since.at as since,
           coalesce(known.state = 'ringing', false)
               or clock.now - since.at >= found.after * interval '1 second' as rings
    from clock, found
    left join known on known.subject = found.subject,
    lateral (
        select coalesce(
            found.since,
            case when known.state <> 'recovered' then least(known.since, clock.now) end,
            clock.now) as at
    ) as since
),
decided as materialized (
    select judged.*,
           judged.rings and not judged.quiet and (judged.woke or not judged.noticed and (
               coalesce(
                   judged.noticed_at + judged.cooldown * interval '1 second' <= clock.now,
                   true)
               or judged.noticed_at > clock.now + interval '1 second')) as tells
    from judged, clock
),
written as (
    insert into {schema}.pecker_alarms as alarm
        (rule, subject, kind, state, detail, since, seen_at, rang_at, recovered_at,
         noticed, noticed_at, recovery, times)
    select %(rule)s, d.subject, %(kind)s,
           case when d.rings then 'ringing' else 'pending' end,
           d.detail, d.since, clock.now,
           case when d.rang then d.rang_at when d.rings then clock.now end, null,
           d.noticed or d.tells,
           case when d.tells then clock.now else d.noticed_at end,
           d.recovery,
           d.times + (d.rings and not d.rang)::integer
    from decided as d, clock
    order by d.subject
    on conflict (rule, subject) do update
    set {excluded(kind, state, detail, since, seen_at, rang_at, noticed, noticed_at,
                  recovery, times)},
        recovered_at = null,
        taken_by = case when alarm.state <> 'recovered' then alarm.taken_by end,
        snoozed_until = case when alarm.snoozed_until > excluded.seen_at
            then alarm.snoozed_until end
),
recovered as (
    update {schema}.pecker_alarms as alarm
    set state = 'recovered', recovered_at = clock.now, noticed = false
    from known, clock
    where alarm.rule = known.rule and alarm.subject = known.subject
        and known.state <> 'recovered'
        and %(whole)s::boolean
        and not exists (select from found where found.subject = known.subject)
    returning alarm.subject, known.detail, known.since,
              known.state = 'ringing' and known.noticed and known.recovery
                  and known.muted_by is null
                  and coalesce(known.snoozed_until <= clock.now, true) as tells
),
news as materialized (
    select subject, detail, since, 'ringing' as event from decided where tells
    union all
    select subject, detail, since, 'recovered' from recovered where tells
),
stormy as materialized (
    select news.event
    from clock, news
    group by news.event, clock.now
    having count(*) > 1 and count(*) + (
        select count(*) from {schema}.pecker_alarms as alarm
        where alarm.rule = %(rule)s
            and greatest(alarm.noticed_at, alarm.recovered_at)
                >= (select now - interval '1 minute' from clock)
            and case news.event when 'ringing' then alarm.noticed_at else alarm.recovered_at end
                between clock.now - interval '1 minute' and clock.now
    ) > %(storm)s
),
rings_on as materialized (
    select subject from decided where rings
    union all
    select known.subject from known
    where known.state = 'ringing' and not %(whole)s::boolean
        and not exists (select from found where found.subject = known.subject)
),
several as materialized (
    select target.name as target, stormy.event, all_of.subjects, first.detail, first.since
    from stormy
    cross join unnest(%(targets)s::text[]) as target (name)
    left join {schema}.pecker_alarm_notices as waits
        on waits.target = target.name and waits.rule = %(rule)s
        and waits.subject = '* ' || stormy.event,
    lateral (
        select array_agg(subject order by subject) as subjects
        from (
            select news.subject from news where news.event = stormy.event
            union
            select old.subject from unnest(waits.subjects) as old (subject)
            where (stormy.event = 'ringing') = exists (
                select from rings_on where rings_on.subject = old.subject)
        ) as both_of
    ) as all_of,
    lateral (
        select news.detail, min(news.since) over () as since
        from news
        where news.event = stormy.event
        order by news.subject
        limit 1
    ) as first
),
told as (
    select target.name as target, news.subject, news.event, news.detail, news.since,
           null::text[] as subjects
    from news, unnest(%(targets)s::text[]) as target (name)
    where news.event not in (select event from stormy)
    union all
    select target, '* ' || event, event, detail, since, subjects from several
),
notices as (
    insert into {schema}.pecker_alarm_notices as notice
        (target, rule, subject, kind, event, detail, since, at, held_until, subjects)
    select told.target, %(rule)s, told.subject, %(kind)s, told.event, told.detail,
           told.since, clock.now, clock.now, told.subjects
    from clock, told
    order by told.target, told.subject
    on conflict (target, rule, subject) do update
    set {excluded(kind, event, detail, since, at, subjects)}, id = default
)
select (select count(*) from mine) as mine,
       (select count(*) from news) as news

/* celery_pecker:take_alarm_notices */
-- Notices to send, the oldest first: for so long no other process sends them. A process that dies with one
-- in hand leaves it to the others. A target that fails rests; a clock that stepped back lets
-- nothing wait for the old future.
with {clock},
due as materialized (
    select n.id
    from {schema}.pecker_alarm_notices as n, clock
    where (n.held_until <= clock.now
            or n.held_until > clock.now + 2 * %(hold)s * interval '1 second')
        and n.target = any (%(targets)s::text[])
        and not exists (
            select from {schema}.pecker_alarm_targets as target
            where target.target = n.target
                and target.next_at > clock.now
                and target.next_at < clock.now + interval '1 hour'
        )
    order by n.id
    limit %(most)s
    for update of n skip locked
)
update {schema}.pecker_alarm_notices as n
set held_until = clock.now + %(hold)s * interval '1 second',
    holder = %(holder)s,
    epoch = greatest(n.epoch + 1, {us(clock.now)}),
    tries = n.tries + 1
from due, clock
where n.id = due.id
returning n.id, n.target, n.rule, n.kind, n.subject, n.event, n.detail, n.since, n.at,
    n.epoch, n.tries, coalesce(n.subjects, array[n.subject]),
    coalesce((
        select r.severity from {schema}.pecker_alarm_rules as r where r.rule = n.rule
    ), 'warning')

/* celery_pecker:close_alarm_notice */
-- Its target has it. One that was replaced meanwhile stays and is due at once; of one that
-- another process has taken nothing is written.
with {clock},
closed as (
    delete from {schema}.pecker_alarm_notices as n
    where n.id = %(id)s and n.epoch = %(epoch)s
    returning n.id
),
replaced as (
    update {schema}.pecker_alarm_notices as n
    set held_until = clock.now
    from clock
    where n.target = %(target)s and n.rule = %(rule)s and n.subject = %(subject)s
        and n.id <> %(id)s and n.holder = %(holder)s
),
target as (
    insert into {schema}.pecker_alarm_targets as target (target, sent, sent_at)
    select %(target)s, 1, clock.now
    from clock
    on conflict (target) do update
    set sent = target.sent + 1, sent_at = excluded.sent_at, failures = 0,
        failing_since = null, next_at = null, last_error = null
)
select id from closed

/* celery_pecker:fail_alarm_notice */
-- Its target did not take it: the target rests, for longer each time, with all that this sender
-- has in hand for it. The notice stays.
with {clock},
mine as materialized (
    select n.id
    from {schema}.pecker_alarm_notices as n
    where n.target = %(target)s and n.holder = %(holder)s
    order by n.id
    for update of n skip locked
),
freed as (
    update {schema}.pecker_alarm_notices as n
    set held_until = clock.now,
        last_error = case when n.id = %(id)s then %(error)s else n.last_error end
    from mine, clock
    where n.id = mine.id
)
insert into {schema}.pecker_alarm_targets as target
    (target, failures, failing_since, next_at, last_error)
select %(target)s, 1, clock.now, clock.now + %(first)s * interval '1 second', %(error)s
from clock
on conflict (target) do update
set failures = target.failures + 1,
    failing_since = coalesce(target.failing_since, excluded.failing_since),
    next_at = excluded.failing_since + least(
        %(first)s * 2 ^ least(target.failures, 20), %(most)s) * interval '1 second',
    last_error = excluded.last_error

/* celery_pecker:forget_alarms */
-- What recovered a day ago, and rules that no replica has looked at for a day, with their alarms.
-- Targets that this code does not have and that were not tried for a day, with what waits for them.
with {clock},
targets as (
    delete from {schema}.pecker_alarm_targets as target
    using clock
    where target.target <> all (%(targets)s::text[])
        and coalesce(greatest(target.sent_at, target.next_at), '-infinity')
            < clock.now - interval '1 day'
),
notices as (
    delete from {schema}.pecker_alarm_notices as n
    using clock
    where n.target <> all (%(targets)s::text[])
        and n.at < clock.now - interval '1 day'
        and not exists (
            select from {schema}.pecker_alarm_targets as target
            where target.target = n.target
                and greatest(target.sent_at, target.next_at) > clock.now - interval '1 day'
        )
),
rules as (
    delete from {schema}.pecker_alarm_rules as r
    using clock
    where r.looked_at < clock.now - interval '1 day'
    returning r.rule
),
marks as (
    delete from {schema}.pecker_alarm_marks as mark
    where mark.rule in (select rule from rules)
        or mark.subject <> 'database' and not exists (
            select from {schema}.pecker_tasks as task where task.name = mark.subject)
)
delete from {schema}.pecker_alarms as alarm
using clock
where alarm.recovered_at < clock.now - interval '1 day' and alarm.muted_by is null
    or alarm.rule in (select rule from rules)

/* celery_pecker:list_alarms */
-- What rings, the newest first; with `every` what waits to ring and what recovered lately, too; those
-- behind the alarm of that rule and subject, if it is still there.
-- Rules that no replica has looked at for a day are of no code any more: whether it rings is unknown.
with {clock},
waits as materialized (
    select n.rule, n.target, about.subject
    from {schema}.pecker_alarm_notices as n,
        unnest(coalesce(n.subjects, array[n.subject])) as about (subject)
)
select alarm.rule, alarm.kind, alarm.subject, alarm.state, r.severity, alarm.detail,
       alarm.since, alarm.rang_at, alarm.recovered_at, alarm.seen_at, alarm.noticed,
       alarm.times, alarm.taken_by, alarm.taken_at, alarm.note, alarm.muted_by,
       case when alarm.snoozed_until > clock.now then alarm.snoozed_until end
           as snoozed_until,
       coalesce((
           select array_agg(distinct waits.target order by waits.target)
           from waits
           where waits.rule = alarm.rule and waits.subject = alarm.subject
       ), '{}') as waiting,
       clock.now
from clock
cross join {schema}.pecker_alarms as alarm
join {schema}.pecker_alarm_rules as r on r.rule = alarm.rule
left join {schema}.pecker_alarms as last
    on last.rule = (%(behind)s::text[])[1] and last.subject = (%(behind)s::text[])[2]
where (alarm.state = 'ringing' or (%(every)s and alarm.state <> 'ringing'))
    and r.looked_at > clock.now - interval '1 day'
    and (%(state)s::text is null or alarm.state = %(state)s::text)
    and (%(rule)s::text is null or alarm.rule = %(rule)s::text)
    and (%(subject)s::text is null
        or strpos(lower(alarm.subject), lower(%(subject)s::text)) > 0)
    and (last.rule is null
        or (alarm.state <> 'ringing',
            coalesce(-extract(epoch from alarm.rang_at)::float8, 'infinity'),
            alarm.rule, alarm.subject)
        > (last.state <> 'ringing',
            coalesce(-extract(epoch from last.rang_at)::float8, 'infinity'),
            last.rule, last.subject))
order by alarm.state = 'ringing' desc, alarm.rang_at desc nulls last, alarm.rule, alarm.subject
limit %(most)s

/* celery_pecker:change_alarm */
-- What a person does to an alarm. Of two who take it at once the second waits for the first, and its
-- answer says who has it. What is muted no more wakes as at the end of a snooze. Notices that wait are withdrawn from what is to be quiet; that of a
-- storm is about others, too, and stays.
with {clock},
alarm as materialized (
    select a.rule, a.subject, a.taken_by, a.taken_at,
           case when %(act)s = 'take' then coalesce(a.taken_by, %(by)s) = %(by)s
               else true end and (a.state <> 'recovered' or %(act)s in ('mute', 'unmute'))
               as may
    from {schema}.pecker_alarms as a
    where a.rule = %(rule)s and a.subject = %(subject)s
    for update
),
changed as (
    update {schema}.pecker_alarms as a
    set taken_by = case %(act)s
            when 'take' then %(by)s when 'give-back' then null else a.taken_by end,
        taken_at = case %(act)s when 'take' then clock.now else a.taken_at end,
        note = case %(act)s when 'take' then %(note)s else a.note end,
        snoozed_until = case %(act)s
            when 'snooze' then %(until)s::timestamptz
            when 'unmute' then case when a.muted_by is not null
                or a.snoozed_until > clock.now then clock.now end
            else a.snoozed_until end,
        muted_by = case %(act)s
            when 'mute' then %(by)s when 'unmute' then null else a.muted_by end
    from clock, alarm
    where a.rule = alarm.rule and a.subject = alarm.subject and alarm.may
),
withdrawn as (
    delete from {schema}.pecker_alarm_notices as n
    using alarm
    where %(act)s in ('mute', 'snooze') and alarm.may
        and n.rule = alarm.rule and n.subject = alarm.subject
)
select may, taken_by, taken_at from alarm

/* celery_pecker:try_alarm_target */
-- A trial joins what waits for a target: a scheduler sends it as it does the others.
with {clock}
insert into {schema}.pecker_alarm_notices as n
    (target, rule, subject, kind, event, detail, since, at, held_until)
select target.target, 'trial', %(by)s, 'trial', 'trial', %(detail)s, clock.now, clock.now,
       clock.now
from clock, {schema}.pecker_alarm_targets as target
where target.target = %(target)s
on conflict (target, rule, subject) do update
set at = excluded.at, id = default
returning n.target

/* celery_pecker:list_alarm_targets */
-- But those that failed a day ago and were not tried since: no code has them any more.
with {clock}
select target.target, target.sent, target.sent_at, target.failures, target.failing_since,
       target.next_at, target.last_error,
       (
           select count(*) from {schema}.pecker_alarm_notices as n
           where n.target = target.target
       ) as waiting
from clock, {schema}.pecker_alarm_targets as target
where target.failures = 0
    or coalesce(target.next_at > clock.now - interval '1 day', true)
order by target.target

/* celery_pecker:count_alarms */
-- What rings of each rule and is neither muted nor snoozed, when it was looked at last, and what
-- waits to be sent.
with {clock}
select r.rule, count(alarm.subject) as ringing, coalesce(max(alarm.kind), '') as kind,
       extract(epoch from clock.now - r.looked_at)::float8 as looked,
       (select count(*) from {schema}.pecker_alarm_notices) as waiting
from clock
cross join {schema}.pecker_alarm_rules as r
left join {schema}.pecker_alarms as alarm
    on alarm.rule = r.rule and alarm.state = 'ringing'
    and alarm.muted_by is null and coalesce(alarm.snoozed_until <= clock.now, true)
where r.looked_at > clock.now - interval '1 day'
group by r.rule, r.looked_at, clock.now
order by r.rule

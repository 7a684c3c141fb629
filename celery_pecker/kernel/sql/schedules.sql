/* part:delete_undeclared */
delete from {schema}.$1 as gone
using undeclared
where gone.name = undeclared.name

/* part:new_rows */
-- A new entry counts from the moment it is first seen.
insert into {schema}.pecker_tasks (name, executed_at)
select wanted.name, clock.now
from clock, unnest(%(names)s::text[]) as wanted (name)
order by wanted.name
on conflict (name) do nothing

/* part:asked_run */
insert into {schema}.pecker_pending
    (name, due_at, era, epoch, holder, claimed_at, asked, asked_by)

/* celery_pecker:claim_due */
-- Takes every slot of the named entries that is due, once (I5), and says what time it is.
--
-- grid entries   (period given): slots lie at executed_at + k * period, so a new period
--                counts from the last slot; the latest slot that is due is taken, or, with
--                depth n, the oldest of the last n (catch up).
-- other entries  (instant given): Python worked the slot out from `seen`, the executed_at
--                that it knew; taken only if the row still says the same.
-- stepped back:  executed_at lies further ahead than clock slack and period: the clock of the
--                database went back. The era rises and claiming goes on (I1).
-- columns:       one that says the usual for every entry comes as an empty array, which
--                unnest fills up with nulls; the others come in binary. Writing ten
--                arrays as text cost a third of the claim.
-- paused:        the row moves on as ever and its slots are not counted, so that there is no
--                backlog when the entry is resumed; they do not run.
-- until:         a statement that reaches the server after its sender gave up on it (frozen
--                server, lost packet) must claim nothing (I2).
-- versions:      of stored schedules, as this replica read them; null for entries of code.
--                The row has the version that is committed, so nothing is claimed under an
--                older definition.
--
-- FOR UPDATE SKIP LOCKED in a lateral subselect per name walks the primary key whatever
-- the number of rows (joining on name = any(...) turned to a sequential scan from 1,000
-- names on); a rival's row is passed over, never waited for (I4). The answer's first row
-- is the time, also when nothing was won (losers write nothing); the others name
-- entries by their place in the question, so that 1,000 of them stay under 64 kB (I9).
with {clock},
due as materialized (
    select held.ctid, wanted.name, wanted.nth, wanted.timeout,
           coalesce(wanted.kept, false) as kept,
           held.stepped, slot.at, clock.now,
           case
               when held.stepped then 0
               when wanted.period is null then coalesce(wanted.passed, 0)
               else (extract(epoch from slot.at - held.executed_at) * 1000000
                     / wanted.period)::bigint - 1
           end as passed
    from clock,
        unnest(
            %(names)b::text[], %(periods)b::bigint[], %(depths)b::integer[],
            %(instants)s::timestamptz[], %(seen)s::timestamptz[],
            %(passed)b::integer[], %(ahead)b::bigint[],
            %(kept)b::boolean[], %(timeouts)b::bigint[], %(versions)b::bigint[]
        ) with ordinality as wanted (
            name, period, depth, instant, seen, passed, ahead, kept, timeout, version,
            nth
        ),
        lateral (
            select task.ctid, task.executed_at,
                   task.executed_at > clock.now
                       + wanted.ahead * interval '1 microsecond' as stepped
            from {schema}.pecker_tasks as task
            where task.name = wanted.name
                and task.version is not distinct from wanted.version
                and clock.now < %(until)s::timestamptz
                and case
                    when task.executed_at > clock.now
                        + wanted.ahead * interval '1 microsecond' then true
                    when wanted.period is null then
                        task.executed_at = wanted.seen
                        and wanted.instant > task.executed_at
                        and wanted.instant <= clock.now
                    else
                        task.executed_at
                            + wanted.period * interval '1 microsecond' <= clock.now
                end
            for update skip locked
        ) as held,
        lateral (
            select case
                when wanted.period is null then wanted.instant
                when held.stepped then date_bin(
                    wanted.period * interval '1 microsecond',
                    clock.now, held.executed_at)
                else greatest(
                    held.executed_at + wanted.period * interval '1 microsecond',
                    date_bin(
                        wanted.period * interval '1 microsecond',
                        clock.now, held.executed_at)
                    - (coalesce(wanted.depth, 1) - 1) * wanted.period * interval '1 microsecond')
            end as at
        ) as slot
),
claimed as (
    update {schema}.pecker_tasks as task
    set executed_at = due.at,
        epoch = greatest(task.epoch + 1, {us(due.now)}),
        era = task.era + due.stepped::integer,
        missed = task.missed + case when task.paused then 0 else due.passed end,
        holder = %(holder)s
    from due
    where task.ctid = any (array(select ctid from due))
        and task.name = due.name
    returning due.nth, due.name, due.kept, due.timeout, due.now,
        due.passed, task.executed_at, task.epoch, task.era, task.paused
),
pending as (
    insert into {schema}.pecker_pending
        (name, due_at, era, epoch, holder, claimed_at, deadline)
    select name, executed_at, era, epoch, %(holder)s, now,
           executed_at + timeout * interval '1 microsecond'
    from claimed
    where kept and not paused
    on conflict (name, due_at, era) do update
    set {excluded(epoch, holder, claimed_at)}
)
select {us(clock.now)} as now, null::integer as nth, null::bigint as due,
       null::bigint as epoch, null::integer as era, null::integer as passed,
       null::boolean as paused
from clock
union all
select null, claimed.nth::integer, {us(claimed.executed_at)}, claimed.epoch,
       claimed.era,
       case when claimed.paused then 0
            else least(claimed.passed, 2147483647) end::integer,
       claimed.paused
from claimed

/* celery_pecker:enroll */
-- A new entry counts from the moment it is first seen: its first slot is one period later.
with {clock}
{new_rows}

/* celery_pecker:declare */
-- Renewed by whichever replica comes first once a third of the term is over; what is
-- fresh is left out before the insert, which would lock its row otherwise. Answers with names
-- that living code declares with another task or schedule: both of them are sent.
with {clock},
known as materialized (
    select wanted.name, wanted.task, wanted.schedule, wanted.delivery,
           wanted.period_us, wanted.timeout_us, wanted.run, wanted.countdown_us,
           clock.now + %(term)s * interval '1 second' as until,
           kept.name is null
               or kept.declared_until < clock.now + %(term)s * 2 / 3.0 * interval '1 second'
               or kept.declared_until > clock.now + (%(term)s + 1) * interval '1 second'
               as stale,
           kept.declared_until >= clock.now and not kept.stored
               and (kept.task, kept.schedule, kept.period_us) is distinct from
                   (wanted.task, wanted.schedule, wanted.period_us) as differs
    from clock
    cross join unnest(
        %(names)s::text[], %(tasks)s::text[],
        %(schedules)s::text[], %(deliveries)s::text[],
        %(periods)s::bigint[], %(timeouts)s::bigint[], %(runs)s::text[],
        %(countdowns)s::bigint[]
    ) as wanted (
        name, task, schedule, delivery, period_us, timeout_us, run, countdown_us)
    left join {schema}.pecker_declarations as kept on kept.name = wanted.name
),
declared as (
    insert into {schema}.pecker_declarations as kept
        (name, task, schedule, delivery, period_us, timeout_us, run, countdown_us,
         declared_until)
    select name, task, schedule, delivery, period_us, timeout_us, run, countdown_us, until
    from known
    where stale
    order by name
    on conflict (name) do update
    set {excluded(task, schedule, delivery, period_us, timeout_us, run, countdown_us)},
        stored = false,
        declared_until = excluded.declared_until
)
select known.name from known where known.differs

/* celery_pecker:anchor_changed */
-- At the start of a replica: entries that this code declares with another schedule than the
-- code before, or that no replica declared while others lived, count from now
-- on. Slots of the new schedule that lie before were never due: they are no misses, and
-- neither coalescing nor catching up runs one (a day that became a second counted 71,999).
-- A grid keeps its phase. The epoch stays, as no slot was claimed.
--
-- An outage of all replicas is no change: no replica ran without the entry. A replica that
-- has just started proves nothing, since it may not have renewed the declaration yet; local
-- entries are declared by local replicas only.
--
-- Of two replicas that start at once the second waits for the first one's row, finds the
-- new schedule declared and anchors nothing. Rows of entries are locked before those of
-- declarations, as by every edit, or the two were a deadlock. One that a stored schedule
-- still has, because it is being edited, is not waited for.
with {clock},
wanted as materialized (
    select wanted.name, wanted.schedule, wanted.period_us
    from unnest(%(names)s::text[], %(schedules)s::text[], %(periods)s::bigint[])
        as wanted (name, schedule, period_us)
),
held as materialized (
    select task.name
    from clock
    cross join wanted
    join {schema}.pecker_declarations as kept on kept.name = wanted.name
    join {schema}.pecker_tasks as task on task.name = wanted.name
    where task.version is null
        and (
            kept.schedule <> wanted.schedule
            or kept.period_us <> wanted.period_us
            or kept.declared_until < clock.now
        )
    order by task.name
    for update of task
),
changed as (
    update {schema}.pecker_declarations as kept
    set schedule = wanted.schedule,
        period_us = wanted.period_us,
        declared_until = clock.now + %(term)s * interval '1 second'
    from clock, wanted, held
    where kept.name = wanted.name
        and held.name = wanted.name
        and (
            kept.schedule <> wanted.schedule
            or kept.period_us <> wanted.period_us
            or kept.declared_until < clock.now and exists (
                select from {schema}.pecker_replicas as replica
                where replica.holder <> %(holder)s
                    and (replica.kind = 'local') = (kept.run = 'local')
                    and replica.seen_at > greatest(replica.started_at, kept.declared_until)
                        + %(term)s / 3.0 * interval '1 second'
            )
        )
    returning kept.name, wanted.period_us * interval '1 microsecond' as period, clock.now
)
update {schema}.pecker_tasks as task
set executed_at = coalesce(
        date_bin(changed.period, changed.now, task.executed_at), changed.now),
    holder = null
from changed
where task.name = changed.name
    and task.executed_at + coalesce(changed.period, interval '0') < changed.now
returning task.name

/* celery_pecker:announce */
-- This process life is there; lives unseen for a day are forgotten.
with {clock},
forgotten as (
    delete from {schema}.pecker_replicas
    using clock
    where seen_at < clock.now - interval '1 day' and holder <> %(holder)s
)
insert into {schema}.pecker_replicas as replica
    (holder, host, pid, version, entries, unreadable, held, differing, kind, started_at,
     seen_at)
select %(holder)s, %(host)s, %(pid)s, %(version)s, %(entries)s, %(unreadable)s,
       %(held)s::text[], %(differing)s::text[], %(kind)s, clock.now, clock.now
from clock
on conflict (holder) do update
set {excluded(entries, unreadable, held, differing, seen_at)}

/* celery_pecker:forget_undeclared */
-- Rows that no living code has declared for a day go, with all that hangs on them: stored
-- schedules that were removed a day ago too (removing ends their declaration), and those
-- of one run that had it a day ago. A stored schedule that stands is never forgotten: its
-- declaration may have been that of code that is no more, until it is given back.
--
-- The entries' rows are locked first, as an edit does. One that is being edited is passed
-- over: behind a transaction that stores a single run anew, this deleted what that had
-- written, or the two were a deadlock.
with {clock},
had_their_run as materialized (
    select stored.name
    from clock, {schema}.pecker_schedules as stored
    join {schema}.pecker_tasks as task on task.name = stored.name
    where stored.once
        and stored.once_at < clock.now - %(after)s * interval '1 second'
        and task.version = stored.version
        and task.executed_at >= stored.once_at
    limit 1000
    for update of task skip locked
),
not_declared as materialized (
    select declared.name
    from clock, {schema}.pecker_declarations as declared
    join {schema}.pecker_tasks as task on task.name = declared.name
    where declared.declared_until < clock.now - %(after)s * interval '1 second'
        and not exists (
            select from {schema}.pecker_schedules as stored
            where stored.name = declared.name and stored.removed_at is null
        )
    for update of task skip locked
),
rowless as materialized (
    select declared.name
    from {schema}.pecker_declarations as declared
    where declared.declared_until < (select clock.now from clock)
            - %(after)s * interval '1 second'
        and not exists (
            select from {schema}.pecker_tasks as task where task.name = declared.name
        )
),
undeclared as (
    delete from {schema}.pecker_declarations as declared
    using clock
    where declared.name in (select name from had_their_run)
        or declared.declared_until < clock.now - %(after)s * interval '1 second'
        and (
            declared.name in (select name from not_declared)
            or declared.name in (select name from rowless)
        )
    returning declared.name
),
unstored as (
    {delete_undeclared(pecker_schedules)}
),
unchanged as (
    {delete_undeclared(pecker_schedule_changes)}
),
unconfirmed as (
    {delete_undeclared(pecker_pending)}
),
unfenced as (
    {delete_undeclared(pecker_fences)}
),
untold as (
    {delete_undeclared(pecker_history)}
),
uncounted as (
    {delete_undeclared(pecker_outcomes)}
)
delete from {schema}.pecker_tasks as task
using undeclared
where task.name = undeclared.name
returning task.name

/* celery_pecker:read_tasks */
-- What the table says of some entries, and what time it is.
with {clock}
select {us(clock.now)} as now, task.name, {us(task.executed_at)} as executed,
       task.epoch, task.era, task.holder, task.paused, task.version
from clock
left join {schema}.pecker_tasks as task on task.name = any (%(names)s::text[])

/* celery_pecker:count_missed */
-- Slots that were claimed here and never sent, counted where the others are.
update {schema}.pecker_tasks as task
set missed = task.missed + lost.slots
from unnest(%(names)s::text[], %(slots)s::bigint[]) as lost (name, slots)
where task.name = lost.name

/* celery_pecker:confirm */
-- The broker has it: the slot is no longer pending. Fenced by the epoch (I3). The limit
-- keeps the lateral subselect a walk of the primary key under a generic plan too; names
-- and epochs are compared once more because a row that a rival updated meanwhile is
-- checked again, and its ctid alone would still match.
with sent as materialized (
    select held.ctid, given.name, given.epoch
    from unnest(%(names)s::text[], %(epochs)s::bigint[]) as given (name, epoch),
        lateral (
            select pending.ctid
            from {schema}.pecker_pending as pending
            where pending.name = given.name and pending.epoch = given.epoch
            limit 1
        ) as held
)
delete from {schema}.pecker_pending as pending
using sent
where pending.ctid = any (array(select ctid from sent))
    and pending.name = sent.name
    and pending.epoch = sent.epoch
returning pending.name

/* celery_pecker:read_orphans */
-- Entries with slots that were claimed and not confirmed within the lease; oldest
-- first, so that what is refused again and again cannot starve the others.
with {clock}
select pending.name
from {schema}.pecker_pending as pending, clock
where least(pending.claimed_at, pending.taken_at)
    < clock.now - %(lease)s * interval '1 second'
order by least(pending.claimed_at, pending.taken_at)
limit 1000

/* celery_pecker:reclaim_pending */
-- Slots that were claimed and not confirmed within the lease: published again
-- by the first replica, under a higher epoch and the same task id. Runs that were asked
-- for have taken_at, and an infinite claimed_at. The epoch passes that of the entry's row,
-- too: with a clock that stepped back it would stay below, and its run be "overtaken".
-- Only under the version that the row has: it is sent with the committed definition.
with {clock},
outdated as materialized (
    select known.name
    from unnest(%(names)s::text[], %(versions)s::bigint[]) as known (name, version),
        lateral (
            select task.version
            from {schema}.pecker_tasks as task
            where task.name = known.name
            limit 1
        ) as task
    where task.version is distinct from known.version
),
orphaned as materialized (
    select pending.name, pending.due_at, pending.era
    from {schema}.pecker_pending as pending, clock
    where least(pending.claimed_at, pending.taken_at)
            < clock.now - %(lease)s * interval '1 second'
        and pending.name = any (%(names)s::text[])
        and clock.now < %(until)s::timestamptz
        and pending.name not in (select name from outdated)
    order by least(pending.claimed_at, pending.taken_at)
    limit 1000
    for update of pending skip locked
)
update {schema}.pecker_pending as pending
set holder = %(holder)s,
    epoch = greatest(
        pending.epoch + 1,
        (select task.epoch + 1 from {schema}.pecker_tasks as task
         where task.name = pending.name),
        {us(clock.now)}),
    claimed_at = case when pending.asked then pending.claimed_at else clock.now end,
    taken_at = case when pending.asked then clock.now end,
    attempt = pending.attempt + 1
from orphaned, clock
where pending.name = orphaned.name
    and pending.due_at = orphaned.due_at
    and pending.era = orphaned.era
returning pending.name,
    {us(pending.due_at)} as due, pending.epoch, pending.era, pending.attempt,
    pending.asked, {us(pending.deadline)} as ends

/* celery_pecker:read_requested_runs */
-- Runs that people asked for, with the rows of their entries, and what time it is. Read
-- every second by every replica, so it only reads.
with {clock},
asked as materialized (
    select pending.name, pending.due_at, pending.era, pending.epoch,
           pending.taken_at is not null as taken, pending.deadline,
           task.executed_at, task.epoch as task_epoch
    from {schema}.pecker_pending as pending
    join {schema}.pecker_tasks as task on task.name = pending.name
    where pending.asked
    order by pending.due_at
    limit 1000
)
select {us(clock.now)} as now, asked.name, {us(asked.due_at)} as due, asked.era,
       asked.epoch, asked.taken, {us(asked.deadline)} as ends,
       {us(asked.executed_at)} as executed, asked.task_epoch
from clock
left join asked on true
order by asked.due_at

/* celery_pecker:take_requested_runs */
-- Takes runs that people asked for, each once (I5). The entry's row must have the epoch
-- that was read: then no slot was claimed and no other such run taken in between, and
-- the deadline, worked out from that row, still keeps this run apart from all others.
-- And the version that this replica read: it runs no older definition than the committed.
-- The epoch of the row rises (I3): an older run that writes after this one is refused.
-- The row's slot and holder stay: no slot was won.
with {clock},
held as materialized (
    select task.ctid, wanted.name, wanted.due_at, wanted.era, wanted.deadline, clock.now
    from clock
    cross join unnest(
        %(names)s::text[], %(dues)s::timestamptz[], %(eras)s::integer[],
        %(epochs)s::bigint[], %(deadlines)s::timestamptz[], %(versions)s::bigint[]
    ) as wanted (name, due_at, era, epoch, deadline, version),
        lateral (
            select row.ctid
            from {schema}.pecker_tasks as row
            where row.name = wanted.name
                and row.epoch = wanted.epoch
                and row.version is not distinct from wanted.version
                and clock.now < %(until)s::timestamptz
                and clock.now < coalesce(wanted.deadline, 'infinity')
            for update skip locked
        ) as task,
        lateral (
            select from {schema}.pecker_pending as asked
            where asked.name = wanted.name
                and asked.due_at = wanted.due_at
                and asked.era = wanted.era
                and asked.epoch = 0
                and asked.asked
            for update skip locked
        ) as slot
),
raised as (
    update {schema}.pecker_tasks as task
    set epoch = greatest(task.epoch + 1, {us(held.now)})
    from held
    where task.ctid = any (array(select ctid from held))
        and task.name = held.name
    returning task.name, task.epoch, held.due_at, held.era, held.deadline, held.now
)
update {schema}.pecker_pending as pending
set epoch = raised.epoch,
    holder = %(holder)s,
    taken_at = raised.now,
    deadline = raised.deadline
from raised
where pending.name = raised.name
    and pending.due_at = raised.due_at
    and pending.era = raised.era
returning pending.name,
    {us(pending.due_at)} as due, pending.epoch, pending.era

/* celery_pecker:keep_requested_runs */
-- The broker has a run that was asked for: its row rests until its deadline, so that the
-- next one waits for it. Fenced by the epoch (I3).
update {schema}.pecker_pending as pending
set taken_at = null
from unnest(%(names)s::text[], %(epochs)s::bigint[]) as sent (name, epoch)
where pending.name = sent.name
    and pending.epoch = sent.epoch
    and pending.asked

/* celery_pecker:drop_requested_runs */
-- Removes runs that were asked for, each only as it was read: given up, or long ended.
delete from {schema}.pecker_pending as pending
using unnest(
    %(names)s::text[], %(dues)s::timestamptz[], %(eras)s::integer[],
    %(epochs)s::bigint[]
) as gone (name, due_at, era, epoch)
where pending.name = gone.name
    and pending.due_at = gone.due_at
    and pending.era = gone.era
    and pending.epoch = gone.epoch
    and pending.asked
returning pending.name,
    {us(pending.due_at)} as due, pending.era

/* part:reached */
-- The row, or the clock, has come to this slot and this epoch: see start_run.
%(epoch)s <= 5000000 + greatest(task.epoch, {us(clock.now)})
and (%(era)s, %(due)s::timestamptz) <= (
    task.era, greatest(task.executed_at, clock.now + interval '5 seconds')
)

/* celery_pecker:start_run */
-- A run of an entry with a timeout starts here, or not at all: one statement, one write.
--
-- late:       its deadline is over.
-- overtaken:  a newer slot of the entry was claimed, or its run has started.
-- repeated:   this very run has started before: redelivered by the broker, or published
--             again because its confirmation was lost (the same slot, a higher epoch).
--             Retries of the task are new attempts of the same run, and pass.
-- reached:    the entry's row, or the clock, has come to this slot and this epoch, with some
--             seconds for a clock that stepped back. A slot of the year 9999, or an epoch
--             ahead of all others, was never claimed: kept as the last run that started, it
--             would overtake each later one. A reclaim's epoch passes the row's.
-- asked:      a requested run lies beside the grid: it may be sent after
--             slots that are younger than the question, so only its epoch counts.
-- lock_timeout: an older run's guarded transaction holds the row for as long as it is open.
--             It is waited for, but not longer; the setting is gone with this statement.
with {clock},
patient as materialized (
    select set_config('lock_timeout', %(lock_timeout)s::text, true)
),
claimed as materialized (
    select task.epoch,
           {reached} as reached
    from clock, {schema}.pecker_tasks as task
    where task.name = %(name)s
),
started as (
    insert into {schema}.pecker_fences as fence
        (name, era, due_at, attempt, epoch, started_at)
    select %(name)s, %(era)s, %(due)s::timestamptz, %(attempt)s, %(epoch)s, clock.now
    from clock, patient
    where clock.now < %(deadline)s::timestamptz
        and not exists (select from claimed where claimed.epoch > %(epoch)s)
        and exists (select from claimed where claimed.reached)
    on conflict (name) do update
    set {excluded(era, due_at, attempt, epoch, started_at)}
    where case
        when (fence.era, fence.due_at) = (excluded.era, excluded.due_at) then
            excluded.attempt > fence.attempt and excluded.epoch >= fence.epoch
        else
            excluded.epoch > fence.epoch
            and (%(asked)s or (excluded.era, excluded.due_at) > (fence.era, fence.due_at))
    end
    returning true
)
select {us(clock.now)} as now,
       exists (select from started) as started,
       clock.now >= %(deadline)s::timestamptz as late,
       coalesce(
           (fence.era, fence.due_at) = (%(era)s, %(due)s::timestamptz)
           and fence.attempt >= %(attempt)s, false
       ) as repeated,
       exists (select from claimed where claimed.reached) as reached
from clock
left join {schema}.pecker_fences as fence on fence.name = %(name)s

/* celery_pecker:hold_fence */
-- Run inside a user's own transaction, before what it writes: until that transaction ends
-- no newer run of the entry starts, and if one was claimed or has started there is no row
-- (I3); nor if the entry's row has not reached this slot, as in start_run. A run that had no start check (local, or without a timeout) takes the fence here.
--
-- bounded:  a process that is frozen with this transaction open would keep newer runs
--           from starting. So the server ends it: at the deadline (PostgreSQL 17 on), or
--           when it was idle for as long as was left (before). Both settings end with it,
--           and neither is loosened where the user's own is stricter. A longer one of his
--           is counting already and would go on: it is switched off before ours is on.
with {clock},
budget as materialized (
    select least(2147483647, greatest(
               1000, extract(epoch from %(deadline)s::timestamptz - clock.now) * 1000
           ))::bigint as left_ms,
           {set_ms('idle_in_transaction_session_timeout')} as idle_ms,
           {set_ms('transaction_timeout', true)} as whole_ms
    from clock
    where %(deadline)s::timestamptz is not null
),
bounded as materialized (
    select set_config(
               'idle_in_transaction_session_timeout',
               least(left_ms, idle_ms)::text, true),
           case when current_setting('server_version_num')::integer >= 170000
               and (whole_ms is null or 1000 < left_ms and left_ms < whole_ms)
           then
               set_config('transaction_timeout', '0', true)
               || set_config('transaction_timeout', left_ms::text, true)
           end
    from budget
),
held as (
    insert into {schema}.pecker_fences as fence
        (name, era, due_at, attempt, epoch, started_at)
    select %(name)s, %(era)s, %(due)s::timestamptz, %(attempt)s, %(epoch)s, clock.now
    from clock
    where (select count(*) from bounded) >= 0
        and not exists (
            select from {schema}.pecker_tasks as task
            where task.name = %(name)s and task.epoch > %(epoch)s
        )
        and exists (
            select from {schema}.pecker_tasks as task
            where task.name = %(name)s
                and {reached}
        )
    on conflict (name) do update
    set {excluded(era, due_at, attempt, epoch)}
    where (excluded.epoch, excluded.attempt) >= (fence.epoch, fence.attempt)
    returning true
)
select exists (select from held) as held

/* celery_pecker:read_clock */
-- What time it is by the database.
with {clock}
select {us(clock.now)} as now
from clock

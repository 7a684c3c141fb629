/* part:rows_to_change */
-- The next rows that were named, but for those that a relay has in hand.
select o.id
from {schema}.pecker_outbox as o
where o.id > %(above)s
    {chosen_rows}
    and coalesce(o.attempt, 0) >= %(attempts_from)s
    and o.id not in (
        select unnest(ids) from {schema}.pecker_outbox_batches)
order by o.id
limit %(most)s
for update skip locked

/* part:chosen_rows */
and (%(ids)s::bigint[] is null or o.id = any (%(ids)s::bigint[]))
and (%(tasks)s::text[] is null or o.task = any (%(tasks)s::text[]))
and (%(parked)s::boolean is null or (o.parked_at is not null) = %(parked)s)
and (%(until)s::timestamptz is null or o.created_at <= %(until)s)
and (%(queue)s::text is null
    or coalesce(nullif(o.exchange, ''), o.routing_key) = %(queue)s)
and (%(last_error)s::text is null
    or strpos(lower(o.last_error), lower(%(last_error)s::text)) > 0)
and (%(state)s::text is null or {message_state} = %(state)s)

/* part:message_state */
-- What was sent and started no run has been due since then, as in count_outbox.
case
    when o.parked_at is not null then 'parked'
    when o.running and o.held_until > (select now from clock) then 'held'
    when o.id in (select unnest(ids) from {schema}.pecker_outbox_batches) then 'held'
    when o.pushes > 0 then 'waiting'
    when o.due_at > (select now from clock) then 'later'
    else 'waiting'
end

/* celery_pecker:claim_outbox_pushes */
-- Rows of mode 1 that are due: a message is sent for each. The claim moves due_at, so
-- that two replicas do not send at once, and a message that the broker forgot is sent
-- again: after holds[n] seconds, n messages having been sent since the last run began.
-- It counts no attempt: a run does that when it starts.
-- Tasks are found one by one in the index, and each has its share of `most`.
with {clock},
wanted as materialized (
    with recursive walk (task) as (
        select (
            select o.task from {schema}.pecker_outbox as o
            where o.mode = 1 and o.parked_at is null
            order by o.task limit 1)
        union all
        select (
            select o.task from {schema}.pecker_outbox as o
            where o.mode = 1 and o.parked_at is null and o.task > walk.task
            order by o.task limit 1)
        from walk
        where walk.task is not null
    )
    select task from walk
    where task is not null
        and (%(only)s::text[] is null or task = any (%(only)s::text[]))
),
due as materialized (
    select one.id, least(coalesce(one.pushes, 0) + 1, 1000)::smallint as pushes
    from wanted cross join lateral (
        select o.id, o.pushes
        from {schema}.pecker_outbox as o
        where o.mode = 1
            and o.parked_at is null
            and o.task = wanted.task
            and coalesce(o.due_at, o.created_at) <= (select now from clock)
            and (o.running is null or o.held_until <= (select now from clock))
        order by coalesce(o.due_at, o.created_at), o.id
        limit (select greatest(1, %(most)s / greatest(1, count(*))) from wanted)
        for update skip locked
    ) as one
    limit %(most)s
)
update {schema}.pecker_outbox as o
set due_at = moved.until,
    held_until = moved.until,
    held_at = moved.now,
    running = null,
    pushes = moved.pushes
from (
    select due.id, due.pushes, clock.now,
           clock.now + interval '1 second' * (%(holds)s::float8[])[
               least(due.pushes, cardinality(%(holds)s::float8[]))] as until
    from due, clock
) as moved
where o.id = moved.id
returning o.id, coalesce(o.epoch, 0) as epoch,
          octet_length(o.body) + octet_length(o.headers) as size

/* celery_pecker:read_outbox_runs */
-- The messages of rows that were claimed, after the claim's commit: no lock is held
-- while they come. Rows that were parked or changed since are left out. Neither sorted
-- nor joined: see read_outbox.
select o.id, o.task, o.task_id, o.exchange, o.routing_key, o.priority, o.content_type,
       o.content_encoding, o.declare, o.headers, o.properties, o.body
from {schema}.pecker_outbox as o
where o.id = any (%(ids)b::bigint[])
    and o.parked_at is null
    and coalesce(o.epoch, 0)
        = (%(epochs)b::bigint[])[array_position(%(ids)b::bigint[], o.id)]

/* part:meant_run */
-- The row that a message means, if no run has it in hand.
o.id = %(id)s
and o.task_id = %(task_id)s
and o.mode = 1
and o.parked_at is null
and coalesce(o.epoch, 0) = %(epoch)s
and (o.running is null or o.held_until <= (select now from clock))

/* celery_pecker:start_outbox_run */
-- A run of a row of mode 1 starts here, or not at all: one statement, one write. It
-- counts the attempt, and due_at moves by holds[attempt] seconds, or by `floor` if
-- that is more: a process that takes a row and dies costs it that long.
--
-- The message names the epoch that the row had when it was sent, and each start raises
-- it: of all messages of one epoch the first one runs. It names the task id, too, which
-- tells its row from one of the same number in another table.
-- A row that has had `last` attempts, the last of them without a reported
-- end, is parked.
with {clock},
started as (
    update {schema}.pecker_outbox as o
    set attempt = coalesce(o.attempt, 0) + 1,
        epoch = greatest(
            coalesce(o.epoch, 0) + 1,
            {us(clock.now)}),
        running = true,
        pushes = null,
        dedupe_key = null,
        held_at = clock.now,
        held_until = clock.now + interval '1 second' * greatest(%(floor)s,
            (%(holds)s::float8[])[
                least(coalesce(o.attempt, 0) + 1, cardinality(%(holds)s::float8[]))]),
        due_at = clock.now + interval '1 second' * greatest(%(floor)s,
            (%(holds)s::float8[])[
                least(coalesce(o.attempt, 0) + 1, cardinality(%(holds)s::float8[]))])
    from clock
    where {meant_run}
        and coalesce(o.attempt, 0) < %(last)s
    returning o.attempt, o.epoch, extract(epoch from o.held_until - o.held_at) as held
),
parked as (
    update {schema}.pecker_outbox as o
    set parked_at = clock.now, running = null,
        epoch = coalesce(o.epoch, 0) + 1,
        last_error = coalesce(o.last_error || ', ', '')
            || 'attempt ' || o.attempt || ' has not reported its end'
    from clock
    where {meant_run}
        and o.attempt >= %(last)s
    returning true
)
select started.attempt, started.epoch, started.held::float8,
       case
           when started.attempt is not null then 'started'
           when exists (select from parked) then 'parked'
           when o.id is null then 'gone'
           else 'repeated'
       end as verdict
from clock
left join started on true
left join {schema}.pecker_outbox as o on o.id = %(id)s and o.task_id = %(task_id)s

/* celery_pecker:take_outbox_runs */
-- Rows of mode 2 that are due start here, at most so many, of the tasks that are named:
-- those that this worker has. The first named come first, so the caller turns them
-- round. Else as start_outbox_run.
with {clock},
due as materialized (
    select one.id, coalesce(one.attempt, 0) >= known.last as over,
           interval '1 second' * greatest(known.floor, (%(holds)s::float8[])[
               least(coalesce(one.attempt, 0) + 1, cardinality(%(holds)s::float8[]))]
           ) as hold
    from unnest(%(tasks)s::text[], %(lasts)s::integer[], %(floors)s::float8[])
        as known (task, last, floor)
    cross join lateral (
        select o.id, o.attempt
        from {schema}.pecker_outbox as o
        where o.mode = 2
            and o.parked_at is null
            and o.task = known.task
            and coalesce(o.due_at, o.created_at) <= (select now from clock)
            and (o.running is null or o.held_until <= (select now from clock))
        order by coalesce(o.due_at, o.created_at), o.id
        limit %(most)s
        for update skip locked
    ) as one
    limit %(most)s
)
update {schema}.pecker_outbox as o
set attempt = coalesce(o.attempt, 0) + case when due.over then 0 else 1 end,
    epoch = greatest(coalesce(o.epoch, 0) + 1, {us(clock.now)}),
    running = case when not due.over then true end,
    dedupe_key = null,
    held_at = clock.now,
    held_until = clock.now + due.hold,
    due_at = clock.now + due.hold,
    parked_at = case when due.over then clock.now end,
    last_error = case when due.over then
        coalesce(o.last_error || ', ', '')
            || 'attempt ' || o.attempt || ' has not reported its end'
        else o.last_error end
from due, clock
where o.id = due.id
returning o.id, o.task, o.attempt, o.epoch,
          extract(epoch from due.hold)::float8 as held, due.over

/* celery_pecker:end_outbox_run */
-- The task has succeeded: its row goes, in a transaction of its own, if no later run
-- has it by now (I3). The log keeps the newest `kept`.
with {clock},
gone as (
    delete from {schema}.pecker_outbox
    where id = %(id)s and epoch = %(epoch)s
    returning id, task, task_id, attempt, created_at
),
logged as (
    insert into {schema}.pecker_outbox_done
        (id, task, task_id, attempt, emergency, created_at, done_at)
    select gone.id, gone.task, gone.task_id, gone.attempt, %(emergency)s,
           gone.created_at, clock.now
    from gone, clock
    where %(kept)s > 0
    returning number
),
old as materialized (
    select done.number
    from {schema}.pecker_outbox_done as done
    where done.number <= (select max(number) from logged where mod(number, 64) = 0) - %(kept)s
    order by done.number
    limit 1000
    for update skip locked
),
trimmed as (
    delete from {schema}.pecker_outbox_done as done
    using old
    where done.number = old.number
)
select count(*) from gone

/* celery_pecker:fail_outbox_run */
-- The run has failed: the row keeps its error and waits for the rest of its hold. After
-- the last attempt it is parked, and so is one whose message no broker takes. Of a
-- message that is not run the task id counts, as for a start.
with {clock}
update {schema}.pecker_outbox as o
set running = null,
    last_error = %(error)s,
    parked_at = case when %(park)s then clock.now end
from clock
where o.id = %(id)s and coalesce(o.epoch, 0) = %(epoch)s
    and (%(task_id)s::text is null or o.task_id = %(task_id)s)

/* celery_pecker:shorten_outbox_run_holds */
-- A hold that began later than now was taken before the clock stepped back: it would
-- last for as long as the step. It begins now.
with {clock},
ahead as materialized (
    select o.id
    from {schema}.pecker_outbox as o
    where o.held_at is not null
        and o.parked_at is null
        and o.held_at > (select now + %(slack)s * interval '1 second' from clock)
    limit %(most)s
    for update skip locked
)
update {schema}.pecker_outbox as o
set held_at = clock.now,
    held_until = clock.now + (o.held_until - o.held_at),
    due_at = case when o.due_at = o.held_until
        then clock.now + (o.held_until - o.held_at) else o.due_at end
from ahead, clock
where o.id = ahead.id

/* celery_pecker:read_outbox_load */
-- How hard the processing may work; no row: as by default.
select threads, pause_empty::float8, pause_error::float8, pause_done::float8,
       only_tasks as only
from {schema}.pecker_outbox_load

/* celery_pecker:set_outbox_load */
-- All of it is set; null: the default.
with {clock}
insert into {schema}.pecker_outbox_load as load
    (threads, pause_empty, pause_error, pause_done, only_tasks, changed_at)
select %(threads)s::smallint, %(pause_empty)s::real, %(pause_error)s::real,
       %(pause_done)s::real, %(only)s::text[], clock.now
from clock
on conflict (id) do update
set {excluded(threads, pause_empty, pause_error, pause_done, only_tasks, changed_at)}

/* celery_pecker:change_outbox */
-- By hand, `most` rows at a time, in the order of ids from above `above` on: when they
-- are due, how many attempts they have had, and whether they are parked. What is not
-- given (null) stays. Messages that are under way start nothing any more. A run that
-- goes on keeps its hold, unless an operator says that it has ended. Rows that are being
-- claimed at this very moment, or are in a relay's batch, are passed over: a row that
-- came back into a batch that was sent without it would be deleted with it.
with {clock},
chosen as materialized (
    {rows_to_change}
),
changed as (
    update {schema}.pecker_outbox as o
    set due_at = coalesce(
            %(due_at)s::timestamptz, clock.now + interval '1 second' * %(delay)s, o.due_at),
        attempt = coalesce(%(attempt)s, o.attempt),
        running = case when not %(ended)s then o.running end,
        epoch = case when o.mode > 0
            and (%(ended)s or o.running is null or o.held_until <= clock.now)
            then greatest(coalesce(o.epoch, 0) + 1,
                {us(clock.now)})
            else o.epoch end,
        pushes = null,
        parked_at = case %(park)s::boolean
            when true then coalesce(o.parked_at, clock.now)
            when false then null
            else o.parked_at end,
        last_error = coalesce(%(error)s, o.last_error)
    from chosen, clock
    where o.id = chosen.id
    returning o.id
)
select count(*), max(id) from changed

/* celery_pecker:drop_outbox */
-- By hand: rows go, whatever became of them. As change_outbox.
with {clock},
chosen as materialized (
    {rows_to_change}
),
gone as (
    delete from {schema}.pecker_outbox as o
    using chosen
    where o.id = chosen.id
    returning o.id
)
select count(*), max(id) from gone

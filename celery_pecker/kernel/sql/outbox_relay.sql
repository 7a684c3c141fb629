/* celery_pecker:claim_outbox */
-- One batch of what is due: `most` ids or so many bytes of messages at most, one
-- message at least. Nothing is written into the rows; the batch is what holds them.
-- Two claims at once would take the same ids: neither sees the other's batch. So each
-- takes its turn: it locks the row whose number its snapshot has seen, passes over it
-- if a rival has it, and finds it changed if one came in between. A lost turn is an
-- empty answer (I4). Ids at or below `above` are known to be gone; a relay that knows
-- nothing yet begins where the others have come to.
-- A row with a dedupe_key is taken only if no caller holds it, which would have recorded
-- another under this key; once taken it has no key, since from then on it may run before
-- what a caller writes can be seen. `last` stays below a row that was passed over.
with {clock},
seen as materialized (
    select turn, coalesce(%(above)s::bigint, passed) as above
    from {schema}.pecker_outbox_turn
    where id = 1
),
mine as materialized (
    select control.turn
    from {schema}.pecker_outbox_turn as control, seen
    where control.id = 1 and control.turn = seen.turn
    for update of control skip locked
),
held as materialized (
    select unnest(ids) as id from {schema}.pecker_outbox_batches
),
later as materialized (
    select o.id, octet_length(o.body) + octet_length(o.headers) as size,
           o.dedupe_key is not null as keyed
    from {schema}.pecker_outbox as o
    where o.mode = 0
        and o.due_at is not null
        and o.parked_at is null
        and o.due_at <= (select now from clock)
        and o.id not in (select id from held)
    order by o.due_at, o.id
    limit %(most)s
),
ready as materialized (
    select o.id, octet_length(o.body) + octet_length(o.headers) as size,
           o.dedupe_key is not null as keyed
    from {schema}.pecker_outbox as o
    where o.mode = 0
        and o.due_at is null
        and o.parked_at is null
        and o.id > (select above from seen)
        and o.id not in (select id from held)
    order by o.id
    limit %(most)s
),
summed as (
    select id, is_later, keyed, sum(size) over (order by is_later desc, id) as total,
           row_number() over (order by is_later desc, id) as number
    from (
        select id, size, keyed, true as is_later from later
        union all
        select id, size, keyed, false from ready
    ) as both_kinds
),
chosen as materialized (
    select id, is_later, keyed
    from summed
    where number <= %(most)s and (number = 1 or total <= %(bytes)s)
        and exists (select from mine)
),
unlocked as materialized (
    select o.id
    from {schema}.pecker_outbox as o
    where o.id = any (array(select id from chosen where keyed))
    for update of o skip locked
),
freed as (
    update {schema}.pecker_outbox as o
    set dedupe_key = null
    where o.id = any (array(select id from unlocked))
),
taken as (
    select id, is_later from chosen
    where not keyed or id in (select id from unlocked)
),
gathered as materialized (
    select array_agg(id order by id) as ids,
           least(
               max(id) filter (where not is_later),
               (
                   select min(id) - 1 from chosen
                   where keyed and not is_later and id not in (select id from unlocked)
               )
           ) as last
    from taken
),
batch as (
    insert into {schema}.pecker_outbox_batches
        (token, ids, holder, epoch, hold, held_until, created_at)
    select %(token)s, ids, %(holder)s, {us(clock.now)},
           %(hold)s * interval '1 second',
           clock.now + %(hold)s * interval '1 second', clock.now
    from gathered, clock
    where ids is not null
    returning batch, token, epoch, ids
),
turned as (
    update {schema}.pecker_outbox_turn as control
    set turn = control.turn + 1, passed = greatest(control.passed, %(above)s::bigint)
    from mine
    where control.id = 1 and exists (select from batch)
)
select exists (select from mine) as had_turn,
       batch.batch, batch.token, batch.epoch, batch.ids, seen.above, gathered.last,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint as newest
from seen
cross join gathered
left join batch on true

/* celery_pecker:read_outbox_writers */
-- Transactions that are writing into the outbox, or may: each takes this lock before it
-- takes an id, and keeps it until it ends. Whatever id is missing below one that can be
-- seen belongs to one of these. One that was prepared has lost its own name.
select coalesce(
    array_agg(distinct
        case when l.pid is null then 'prepared' else l.virtualtransaction end),
    '{}')
from pg_locks as l
join pg_class as c on c.oid = l.relation and c.relname = %(table)s
join pg_namespace as n on n.oid = c.relnamespace and n.nspname = %(schema)s
where l.locktype = 'relation'
    and l.mode = 'RowExclusiveLock'
    and l.database = (select oid from pg_database where datname = current_database())

/* celery_pecker:find_outbox_behind */
-- The first message of a slice of ids that a claim would not see any more: it waits, no
-- relay has it, and it lies below where they walk.
select o.id
from {schema}.pecker_outbox as o
where o.mode = 0
    and o.due_at is null
    and o.parked_at is null
    and o.id > %(after)s
    and o.id <= %(up_to)s
    and o.id not in (select unnest(ids) from {schema}.pecker_outbox_batches)
order by o.id
limit 1

/* celery_pecker:read_outbox_space */
-- Dead rows and live rows, as PostgreSQL counts them, and whether this
-- role may VACUUM the table: the owner of it or of the database, and from 17 on a role
-- with MAINTAIN.
select s.n_dead_tup, s.n_live_tup,
       pg_has_role(c.relowner, 'usage')
           or pg_has_role(d.datdba, 'usage')
           or case
               when current_setting('server_version_num')::integer >= 170000
               then has_table_privilege(c.oid, 'maintain')
               else false
           end
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace and n.nspname = %(schema)s
join pg_stat_user_tables as s on s.relid = c.oid
join pg_database as d on d.datname = current_database()
where c.relname = %(table)s

/* celery_pecker:vacuum_outbox */
-- Make room where rows were. If another session does it at this moment, nothing is done;
-- the file keeps its length, since making it shorter would lock callers out.
vacuum (skip_locked, truncate off, parallel 0) {schema}.pecker_outbox

/* celery_pecker:reclaim_outbox */
-- One batch whose holder did not finish it in time: whole, under its own token, so that
-- Redis adds nothing that it has. Of batches first the one that waits longest. `mine`:
-- also one of this relay, which does not know of it: the reply of its claim was lost.
with {clock},
lapsed as materialized (
    select batch
    from {schema}.pecker_outbox_batches
    where held_until <= (select now from clock) or (%(mine)s and holder = %(holder)s)
    order by held_until
    limit 1
    for update skip locked
)
update {schema}.pecker_outbox_batches as b
set holder = %(holder)s,
    epoch = greatest(b.epoch + 1, {us(clock.now)}),
    hold = %(hold)s * interval '1 second',
    held_until = clock.now + %(hold)s * interval '1 second',
    tries = b.tries + 1
from lapsed, clock
where b.batch = lapsed.batch
returning b.batch, b.token, b.epoch, b.ids, b.alone, b.tries

/* celery_pecker:shorten_outbox_holds */
-- A hold that ends later than a whole hold from now was taken before the clock stepped
-- back: it would keep a dead relay's batch for as long as the step. It ends one hold
-- from now, which a living holder has given up by then.
with {clock},
ahead as materialized (
    select batch
    from {schema}.pecker_outbox_batches, clock
    where held_until > clock.now + hold
    for update skip locked
)
update {schema}.pecker_outbox_batches as b
set held_until = clock.now + b.hold
from ahead, clock
where b.batch = ahead.batch

/* celery_pecker:read_outbox_used */
-- Whether the table has a row, looked for from the newest on: of old ones many may be dead.
select max(id) is not null from {schema}.pecker_outbox

/* celery_pecker:read_outbox */
-- The messages of a batch, after the claim's commit: no lock is held while they come.
-- Not in order: a sort of whole messages may need a temporary file, which a server may
-- refuse (temp_file_limit).
select id, task, task_id, exchange, routing_key, priority, content_type,
       content_encoding, declare, headers, properties, body
from {schema}.pecker_outbox
where id = any (%(ids)b::bigint[]) and parked_at is null

/* celery_pecker:close_outbox_batch */
-- The broker has the whole batch. Rows that were parked in between stay.
with mine as materialized (
    select batch, ids
    from {schema}.pecker_outbox_batches
    where batch = %(batch)s and epoch = %(epoch)s
    for update skip locked
),
sent as (
    delete from {schema}.pecker_outbox as o
    where o.id = any ((select ids from mine)::bigint[]) and o.parked_at is null
    returning 1
),
closed as (
    delete from {schema}.pecker_outbox_batches as b
    using mine
    where b.batch = mine.batch
    returning 1
)
select (select count(*) from closed) as closed, (select count(*) from sent) as sent

/* celery_pecker:split_outbox_batch */
-- Some of a batch leave it: `sent` are on the broker and deleted, `parked` are put
-- aside with their errors, `apart` go into a batch of their own, to be sent one by
-- one under its own token. A batch with nothing left in it goes.
with {clock},
mine as materialized (
    select *
    from {schema}.pecker_outbox_batches
    where batch = %(batch)s and epoch = %(epoch)s
    for update skip locked
),
sent as (
    delete from {schema}.pecker_outbox as o
    using mine
    where o.id = any (%(sent)b::bigint[])
        and o.id = any (mine.ids)
        and o.parked_at is null
),
parked as (
    update {schema}.pecker_outbox as o
    set parked_at = clock.now, last_error = reason.error
    from mine, clock,
        unnest(%(parked)b::bigint[], %(errors)b::text[]) as reason (id, error)
    where o.id = reason.id and o.id = any (mine.ids) and o.parked_at is null
),
apart as (
    insert into {schema}.pecker_outbox_batches
        (token, ids, holder, epoch, hold, held_until, alone, created_at)
    select %(token)s, %(apart)b::bigint[], mine.holder, mine.epoch, mine.hold,
           mine.held_until, true, mine.created_at
    from mine
    where cardinality(%(apart)b::bigint[]) > 0
    returning batch
),
rest as materialized (
    select mine.batch,
           array(
               select id from unnest(mine.ids) as id
               where id <> all (
                   %(sent)b::bigint[] || %(parked)b::bigint[] || %(apart)b::bigint[])
               order by id
           ) as ids
    from mine
),
shrunk as (
    update {schema}.pecker_outbox_batches as b
    set ids = rest.ids
    from rest
    where b.batch = rest.batch and cardinality(rest.ids) > 0
),
closed as (
    delete from {schema}.pecker_outbox_batches as b
    using rest
    where b.batch = rest.batch and cardinality(rest.ids) = 0
)
select (select count(*) from mine) as held, (select batch from apart) as apart

/* celery_pecker:release_outbox_batch */
-- Give a batch back: the first relay after the wait tries it again. At most `tries` of
-- its tries count on.
with {clock}
update {schema}.pecker_outbox_batches as b
set held_until = clock.now + %(wait)s * interval '1 second',
    tries = least(b.tries, %(tries)s)
from clock
where b.batch = %(batch)s and b.epoch = %(epoch)s

/* celery_pecker:announce_relay */
-- This relay is there; return how many are. Those unseen for an hour are forgotten.
with {clock},
forgotten as (
    delete from {schema}.pecker_outbox_relays
    using clock
    where seen_at < clock.now - interval '1 hour' and holder <> %(holder)s
),
announced as (
    insert into {schema}.pecker_outbox_relays as relay
        (holder, host, pid, started_at, seen_at, sent, retried, parked, broker, rates)
    select %(holder)s, %(host)s, %(pid)s, clock.now, clock.now, %(sent)s,
           %(retried)s, %(parked)s, %(broker)s, %(rates)s::jsonb
    from clock
    on conflict (holder) do update
    set {excluded(seen_at, sent, retried, parked, broker, rates)}
)
select count(*)
from {schema}.pecker_outbox_relays, clock
where seen_at > clock.now - interval '15 seconds' and holder <> %(holder)s

/* part:message_values */
clock.now + %(delay)s::float8 * interval '1 second', %(mode)s::smallint,
%(priority)s::smallint, %(task)s::text, %(task_id)s::text, %(exchange)s::text,
%(routing_key)s::text, %(content_type)s::text, %(content_encoding)s::text,
%(declare)s::text, %(headers)s::text, %(properties)s::text, %(body)s::bytea

/* part:insert_message */
-- `$1`: a column more.
insert into {schema}.pecker_outbox as o (
    due_at, mode, priority, task, task_id, exchange, routing_key, content_type,
    content_encoding, declare, headers, properties, body, $1 created_at
)
select

/* celery_pecker:outbox_writable */
-- Whether the table of the outbox is there and may be written: asked once for each
-- database before the first message, so that a transaction is not spoilt by an error.
select
    c.oid is not null,
    coalesce(has_table_privilege(c.oid, 'insert'), false)
from (select %(schema)s::text as schema) as wanted
left join pg_namespace as n on n.nspname = wanted.schema
left join pg_class as c on c.relnamespace = n.oid and c.relname = %(table)s

/* celery_pecker:record_message */
-- One message joins the transaction. A delay counts from now on by the database's clock.
with {clock}
{insert_message}
    {message_values},
    clock.now
from clock

/* celery_pecker:record_message_once */
-- As record_message, unless a row of the same key waits: then the answer is that row's
-- task_id. The waiting row stays locked until the caller's transaction ends, so that no
-- relay takes it before. A relay that takes a row sets its key to null: from then on it does not
-- wait, and may have been run before the data of the caller could be seen.
with {clock}
{insert_message(dedupe_key,)}
    {message_values},
    %(dedupe_key)s::text, clock.now
from clock
on conflict (dedupe_key) where dedupe_key is not null
do update set dedupe_key = excluded.dedupe_key
returning o.task_id

/* celery_pecker:record_copies */
-- Many messages of one task join the transaction: what they share is sent once. What
-- differs is JSON, which has no control characters: one text of each, cut at chr(30),
-- since drivers quote the elements of an array one by one.
with {clock}
{insert_message}
    clock.now + %(delay)s::float8 * interval '1 second', %(mode)s::smallint,
    %(priority)s::smallint, %(task)s::text, m.task_id, %(exchange)s::text,
    %(routing_key)s::text, %(content_type)s::text, %(content_encoding)s::text,
    %(declare)s::text, m.headers, m.properties, convert_to(m.body, 'UTF8'), clock.now
from clock,
    unnest(
        string_to_array(%(task_id)s::text, chr(30)),
        string_to_array(%(headers)s::text, chr(30)),
        string_to_array(%(properties)s::text, chr(30)),
        string_to_array(%(body)s::text, chr(30))
    ) with ordinality as m (task_id, headers, properties, body, place)
order by m.place

/* celery_pecker:record_messages */
-- Many messages join the transaction, in their order, in one round trip.
with {clock}
{insert_message}
    clock.now + m.delay * interval '1 second', m.mode, m.priority, m.task, m.task_id,
    m.exchange, m.routing_key, m.content_type, m.content_encoding, m.declare,
    m.headers, m.properties, m.body, clock.now
from clock,
    unnest(
        %(delay)s::float8[], %(mode)s::smallint[], %(priority)s::smallint[],
        %(task)s::text[], %(task_id)s::text[], %(exchange)s::text[],
        %(routing_key)s::text[], %(content_type)s::text[],
        %(content_encoding)s::text[], %(declare)s::text[], %(headers)s::text[],
        %(properties)s::text[], %(body)s::bytea[]
    ) with ordinality as m (
        delay, mode, priority, task, task_id, exchange, routing_key, content_type,
        content_encoding, declare, headers, properties, body, place
    )
order by m.place

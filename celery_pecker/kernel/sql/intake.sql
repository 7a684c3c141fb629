/* celery_pecker:keep_intake_key */
-- Keep which tasks a request recorded, in its transaction: a request that comes again
-- under its key is answered with them. A row is the answer only to the request that wrote it first;
-- a second one waits here until the first has committed, and then gets no row.
with {clock}
insert into {schema}.pecker_intake_keys (key, digest, task_ids, created_at)
select %(key)s::text, %(digest)s::bytea, %(task_ids)s::text[], clock.now
from clock
on conflict (key) do nothing
returning true

/* celery_pecker:read_intake_key */
-- What the request of this key recorded.
select digest, task_ids
from {schema}.pecker_intake_keys
where key = %(key)s::text

/* celery_pecker:prune_intake_keys */
-- Forget the keys of requests that are not sent again.
with {clock}
delete from {schema}.pecker_intake_keys
where key in (
    select key
    from {schema}.pecker_intake_keys
    where created_at < (
        select now - %(seconds)s::float8 * interval '1 second' from clock
    )
    order by created_at
    limit 1000
)

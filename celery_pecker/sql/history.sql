/* celery_pecker:write_history */
-- Writes pages of reports, each whole: the same page again changes nothing, so that an
-- answer that got lost does no harm. In the order of names, as everywhere.
with clock as materialized (
    select coalesce(%(now)s::timestamptz, clock_timestamp()) as now
)
insert into {schema}.pecker_history
    (name, first_due, era, holder, last_due, written_at, due_us, epoch, at_us, report)
select page.name, page.first_due, page.era, %(holder)s, page.last_due, clock.now,
       page.due_us::bigint[], page.epoch::bigint[],
       page.at_us::bigint[], page.report::smallint[]
from clock,
    unnest(
        %(names)s::text[], %(firsts)s::timestamptz[], %(eras)s::integer[],
        %(lasts)s::timestamptz[], %(dues)s::text[], %(epochs)s::text[],
        %(ats)s::text[], %(reports)s::text[]
    ) as page (
        name, first_due, era, last_due, due_us, epoch, at_us, report
    )
order by page.name
on conflict (name, first_due, era, holder) do update
set last_due = excluded.last_due,
    written_at = excluded.written_at,
    due_us = excluded.due_us,
    epoch = excluded.epoch,
    at_us = excluded.at_us,
    report = excluded.report

/* celery_pecker:prune_history */
-- Removes pages all of whose slots lie before the last so many of their entry, whoever
-- wrote them. A page that somebody writes just now is left for the next time.
with edge as materialized (
    select given.name, kept.era, kept.due_us
    from unnest(%(names)s::text[]) as given (name),
        lateral (
            select distinct page.era, slot.due_us
            from {schema}.pecker_history as page,
                unnest(page.due_us) as slot (due_us)
            where page.name = given.name
            order by page.era desc, slot.due_us desc
            offset %(keep)s - 1
            limit 1
        ) as kept
),
old as materialized (
    select page.ctid
    from edge, {schema}.pecker_history as page
    where page.name = edge.name
        and (page.era, page.last_due) < (
            edge.era,
            timestamptz 'epoch' + edge.due_us * interval '1 microsecond')
    for update of page skip locked
)
delete from {schema}.pecker_history as page
where page.ctid = any (array(select ctid from old))

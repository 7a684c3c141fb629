/* part:latest_bad */
-- Of two slots that ended badly the later one.
(bad_era, bad_due, bad_at, bad_report, bad_host, bad_error) = (
    select era, due, at, report, host, error
    from (values
        (kept.bad_era, kept.bad_due, kept.bad_at, kept.bad_report,
         kept.bad_host, kept.bad_error),
        (excluded.bad_era, excluded.bad_due, excluded.bad_at, excluded.bad_report,
         excluded.bad_host, excluded.bad_error)
    ) as slot (era, due, at, report, host, error)
    order by era desc nulls last, due desc, at desc
    limit 1)

/* part:latest */
-- Of two slots of a kind the later one.
($1_era, $1_due) = (
    select era, due
    from (values (kept.$1_era, kept.$1_due),
                 (excluded.$1_era, excluded.$1_due)) as slot (era, due)
    order by era desc nulls last, due desc
    limit 1)

/* part:added */
$1 = kept.$1 + excluded.$1

/* part:write_page */
insert into {schema}.pecker_history
    (name, first_due, era, holder, host, last_due, written_at,
     due_us, epoch, at_us, report)

/* celery_pecker:write_history */
-- Writes pages of reports, each whole: the same page again changes nothing, so that an
-- answer that got lost does no harm. In the order of names, as everywhere.
with {clock}
{write_page}
select page.name, page.first_due, page.era, %(holder)s, %(host)s, page.last_due, clock.now,
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
set {excluded(last_due, written_at, due_us, epoch, at_us, report)}

/* celery_pecker:prune_history */
-- Removes pages all of whose slots lie before the last so many of their entry, whichever process
-- wrote them. A page that is being written is left for the next time.
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

/* celery_pecker:drop_reports */
-- Where no history is kept: what is left of an older one, some rows at a time.
with pages as (
    delete from {schema}.pecker_history as page
    where page.ctid = any (array(
        select ctid from {schema}.pecker_history limit %(most)s for update skip locked))
    returning 1
),
outcomes as (
    delete from {schema}.pecker_outcomes as outcome
    where outcome.ctid = any (array(
        select ctid from {schema}.pecker_outcomes limit %(most)s for update skip locked))
    returning 1
)
select (select count(*) from pages) + (select count(*) from outcomes) as dropped

/* celery_pecker:count_outcomes */
-- Adds up what became of runs, one row for each entry. Counts are added: if the answer got
-- lost, what was sent is sent once more and counts twice. The last slots are maxima, so they are the same
-- in whichever order they are written, and however often.
-- report_by: a message that no worker has begun by then is unreported: after its entry's timeout,
-- or its period, a minute at least and five at most, and its countdown. It counts from the last report of a worker, or
-- from the first slot that was sent since. Where no worker has reported of any entry for a week
-- nothing follows from silence, since plain workers cannot; unless one did of all that was sent of
-- the entry before. Local runs are not sent: their process reports of them and of nothing else.
with {clock},
workers as materialized (
    select coalesce(
        (select max(reported_day) from {schema}.pecker_outcomes)
            >= (clock.now at time zone 'UTC')::date - 7, false) as report
    from clock
)
insert into {schema}.pecker_outcomes as kept (
    name, published, not_sent, succeeded, failed, overrun, lost,
    refused_late, refused_overtaken, refused_unknown, refused_repeated,
    good_era, good_due, sent_era, sent_due, reported_era, reported_due, report_by,
    bad_era, bad_due, bad_at, bad_report, bad_host, bad_error,
    unsent_era, unsent_due, unsent_at, unsent_report, unsent_error)
select entry.name, counts.of[1], counts.of[2], counts.of[3], counts.of[4], counts.of[5],
       counts.of[6], counts.of[7], counts.of[8], counts.of[9], counts.of[10],
       entry.good_era, entry.good_due, entry.sent_era, entry.sent_due,
       case when sent.over then entry.reported_era end,
       case when sent.over then entry.reported_due end,
       case when sent.over and (workers.report or entry.reported_due is not null or exists (
               select from {schema}.pecker_outcomes as before
               where before.name = entry.name
                   and (before.sent_era, before.sent_due)
                       <= (before.reported_era, before.reported_due))) then
           clock.now + greatest(declared.countdown_us, 0) * interval '1 microsecond'
               + greatest(interval '1 minute', least(interval '5 minutes',
                   coalesce(declared.timeout_us, declared.period_us)
                       * interval '1 microsecond'))
       end,
       entry.bad_era, entry.bad_due, entry.bad_at, entry.bad_report,
       case when entry.bad_due is not null then %(host)s::text end, entry.bad_error,
       entry.unsent_era, entry.unsent_due, entry.unsent_at, entry.unsent_report,
       entry.unsent_error
from clock, workers,
    unnest(
        %(names)s::text[], %(counts)s::text[],
        %(good_eras)s::integer[], %(good_dues)s::timestamptz[],
        %(sent_eras)s::integer[], %(sent_dues)s::timestamptz[],
        %(reported_eras)s::integer[], %(reported_dues)s::timestamptz[],
        %(bad_eras)s::integer[], %(bad_dues)s::timestamptz[],
        %(bad_ats)s::timestamptz[], %(bad_reports)s::smallint[], %(bad_errors)s::text[],
        %(unsent_eras)s::integer[], %(unsent_dues)s::timestamptz[],
        %(unsent_ats)s::timestamptz[], %(unsent_reports)s::smallint[],
        %(unsent_errors)s::text[]
    ) as entry (
        name, counts, good_era, good_due, sent_era, sent_due,
        reported_era, reported_due,
        bad_era, bad_due, bad_at, bad_report, bad_error,
        unsent_era, unsent_due, unsent_at, unsent_report, unsent_error
    )
    left join {schema}.pecker_declarations as declared on declared.name = entry.name,
    lateral (select entry.counts::bigint[] as of) as counts,
    lateral (select declared.run is distinct from 'local' as over) as sent
order by entry.name
on conflict (name) do update
set {added(published)}, {added(not_sent)}, {added(succeeded)}, {added(failed)},
    {added(overrun)}, {added(lost)}, {added(refused_late)}, {added(refused_overtaken)},
    {added(refused_unknown)}, {added(refused_repeated)},
    {latest(good)},
    {latest(sent)},
    {latest(reported)},
    report_by = case
        when excluded.reported_due is null and excluded.report_by is not null
        then coalesce(kept.unreported_at, excluded.report_by)
        else excluded.report_by end,
    {latest_bad},
    (unsent_era, unsent_due, unsent_at, unsent_report, unsent_error) = (
        select era, due, at, report, error
        from (values
            (kept.unsent_era, kept.unsent_due, kept.unsent_at, kept.unsent_report,
             kept.unsent_error),
            (excluded.unsent_era, excluded.unsent_due, excluded.unsent_at,
             excluded.unsent_report, excluded.unsent_error)
        ) as slot (era, due, at, report, error)
        order by era desc nulls last, due desc, at desc
        limit 1)

/* part:figures_bin */
-- The instant at which the row of $1 minutes begins that this one is folded into.
date_bin($1 * interval '1 minute', figures.at, timestamptz 'epoch')

/* part:write_figures */
-- A process writes each minute whole, under its own name: the same again changes nothing,
-- so an answer that got lost counts nothing twice. What comes too late to be folded is dropped.
with {clock}
insert into {schema}.pecker_figures as kept (step, part, at, holder, figures)
select 1, row.part, row.at, %(holder)s, row.figures::jsonb
from clock,
    unnest(%(parts)s::smallint[], %(ats)s::timestamptz[], %(figures)s::text[])
        as row (part, at, figures)
where row.at > clock.now - interval '10 minutes'
on conflict (step, part, at, holder) do update
set {excluded(figures)}

/* celery_pecker:write_figures */
{write_figures}

/* celery_pecker:read_unfolded_figures */
-- The rows of the oldest span that is over and not folded yet, of one part: the first behind the
-- last folded one, found by the index. Schedulers begin with different parts; of two that fold
-- the same the second changes nothing.
with {clock},
span as materialized (
    select part.part, next.at
    from clock,
        generate_series(0, 15) as part (part),
        lateral (
            select {figures_bin(%(into)s::integer)} as at
            from {schema}.pecker_figures as figures
            where figures.step = %(step)s
                and figures.part = part.part
                and figures.at >= coalesce((
                    select max(folded.at) + %(into)s::integer * interval '1 minute'
                    from {schema}.pecker_figures as folded
                    where folded.step = %(into)s::integer and folded.part = part.part), '-infinity')
                and figures.at < date_bin(%(into)s::integer * interval '1 minute',
                    clock.now - %(after)s * interval '1 minute', timestamptz 'epoch')
            order by figures.at
            limit 1
        ) as next
    order by next.at, hashtext(part.part::text || %(holder)s::text)
    limit 1
)
select span.part, span.at, figures.figures::text
from span
join {schema}.pecker_figures as figures
    on figures.step = %(step)s
    and figures.part = span.part
    and figures.at >= span.at
    and figures.at < span.at + %(into)s::integer * interval '1 minute'

/* celery_pecker:fold_figures */
insert into {schema}.pecker_figures (step, part, at, holder, figures)
values (%(into)s, %(part)s, %(at)s, '00000000-0000-0000-0000-000000000000',
        %(figures)s::text::jsonb)
on conflict (step, part, at, holder) do nothing

/* celery_pecker:purge_figures */
-- Rows that are too old go, some at a time; those that are to be folded are folded first. Of a
-- part spans are folded in order, so one folded row at or behind them says that they are.
with {clock},
old as materialized (
    select figures.ctid
    from clock,
        unnest(%(steps)s::smallint[], %(intos)s::smallint[], %(kept)s::integer[])
            as tier (step, into_step, kept)
    join {schema}.pecker_figures as figures on figures.step = tier.step
    where figures.at < clock.now - tier.kept * interval '1 minute'
        and (tier.into_step is null or {figures_bin(tier.into_step)} <= (
            select max(folded.at) from {schema}.pecker_figures as folded
            where folded.step = tier.into_step and folded.part = figures.part))
    limit 1000
    for update of figures skip locked
),
marks as (
    delete from {schema}.pecker_marks as mark
    using clock
    where mark.kind <> 'deploy' and mark.at < clock.now - interval '30 days'
)
delete from {schema}.pecker_figures as figures
where figures.ctid = any (array(select ctid from old))

/* celery_pecker:write_marks */
-- What is known once is marked once. A scheduler that shows no life for a minute has gone.
with {clock}
insert into {schema}.pecker_marks (kind, what, at)
select mark.kind, left(mark.what, 200), mark.at
from clock, lateral (
    select 'deploy', %(version)s::text, clock.now where %(version)s::text <> ''
    union all
    select 'postgresql', 'started ' || pg_postmaster_start_time(), pg_postmaster_start_time()
    union all
    select 'scheduler', format('%%s %%s came (%%s)', replica.kind, replica.host, replica.holder),
           replica.started_at
    from {schema}.pecker_replicas as replica
    union all
    select 'scheduler', format('%%s %%s went (%%s)', replica.kind, replica.host, replica.holder),
           replica.seen_at
    from {schema}.pecker_replicas as replica
    where replica.seen_at < clock.now - interval '1 minute'
) as mark (kind, what, at)
where mark.at > clock.now - interval '30 days'
on conflict (kind, what) do nothing

/* celery_pecker:read_figures */
-- Cells of a subject, those of a point of a chart one after the other: of rows of that step,
-- and behind the last of them of smaller ones. Rows are unpacked once (offset 0): that is what it costs.
with folded as materialized (
    select coalesce((
               select max(at) + interval '60 minutes' from {schema}.pecker_figures
               where step = 60 and part = %(part)s), '-infinity') as hours,
           coalesce((
               select max(at) + interval '15 minutes' from {schema}.pecker_figures
               where step = 15 and part = %(part)s), '-infinity') as quarters
),
tier as (
    select tier.step, tier.since
    from folded, lateral (
        values (60::smallint, timestamptz '-infinity'),
               (15::smallint, case when %(step)s > 15 then folded.hours else '-infinity' end),
               (1::smallint, case when %(step)s > 1 then folded.quarters else '-infinity' end)
    ) as tier (step, since)
    where tier.step <= %(step)s
)
select {us(point.at)}, string_agg(point.text, ' ')
from tier
join {schema}.pecker_figures as figures
    on figures.step = tier.step
    and figures.part = %(part)s
    and figures.at >= greatest(tier.since, %(since)s::timestamptz)
    and figures.at < %(until)s::timestamptz,
    lateral (
        select {figures_bin(%(wide)s::integer)} as at, figures.figures ->> %(subject)s::text as text
        offset 0
    ) as point
where point.text is not null
group by point.at
order by point.at

/* celery_pecker:read_marks */
-- The latest marks within a time: what processes marked, alarms, and what people did.
select {us(mark.at)} as at_us, mark.kind, mark.what
from (
    select at, kind, what from {schema}.pecker_marks
    union all
    select since, 'alarm', rule || ': ' || subject
    from {schema}.pecker_alarms where state <> 'pending'
    union all
    select begun_at, 'edit', act || ' ' || subject || ' by ' || done_by
    from {schema}.pecker_acts where begun_at >= %(since)s::timestamptz
) as mark (at, kind, what)
where mark.at >= %(since)s::timestamptz and mark.at < %(until)s::timestamptz
order by mark.at desc
limit 200

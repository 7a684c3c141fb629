-- The rush hour's tables and statements (example_project/rush).

/* example_project:rush_schema */
create table people (
    id int primary key,
    meeting int not null,
    name text not null
);
create table reminders (
    meeting int primary key,
    told int not null,
    times int not null default 1
);
insert into people (id, meeting, name)
select n, n % 4000, md5(n::text) from generate_series(1, 40000) as n;
analyze people

/* example_project:people_of_meeting */
-- No index on meeting: this is the query that somebody forgot. It costs a few
-- milliseconds, which nobody notices until 4,000 come at once.
select count(*), min(name) from people where meeting = %(meeting)s

/* example_project:record_reminder */
insert into reminders (meeting, told) values (%(meeting)s, 1)
on conflict (meeting) do update set times = reminders.times + 1

/* example_project:front_page */
select name from people where id = %(person)s

/* example_project:busy_connections */
select count(*) from pg_stat_activity
where application_name = 'reminders' and state = 'active'

/* example_project:reminded */
select count(*), coalesce(sum(times - 1), 0) from reminders

/* example_project:not_reminded */
select meeting from generate_series(0, %(meetings)s - 1) as due (meeting)
where not exists (select from reminders where reminders.meeting = due.meeting)
order by meeting

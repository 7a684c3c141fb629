-- Customers, each with a stored schedule of their own (example_project/customers).

/* example_project:customers_schema */
create table customers (
    name text primary key,
    every float8 not null
);
create table reminders (
    customer text not null,
    at timestamptz not null default clock_timestamp()
);
create table pages (
    event text not null,
    customer text not null,
    at timestamptz not null default clock_timestamp()
)

/* example_project:customers_save */
insert into customers (name, every) values (%(name)s, %(every)s)
on conflict (name) do update set every = excluded.every

/* example_project:customers_remind */
insert into reminders (customer) values (%(customer)s)

/* example_project:customers_page */
insert into pages (event, customer) values (%(event)s, %(customer)s)

/* example_project:customers_reminded */
select count(*) from reminders where customer = %(customer)s

/* example_project:customers_paged */
select count(*) from pages where customer = %(customer)s and event = %(event)s

/* example_project:customers_left */
-- What a transaction that was rolled back left behind.
select (select count(*) from customers where name = %(name)s)
    + (select count(*) from pecker_schedules where name = %(name)s)

/* example_project:customers_forget_to_commit */
select from pecker_tasks where name = %(name)s for update

-- The import of the world's airports (example_project/airports).

/* example_project:airports_schema */
create table countries (
    code text primary key
);
create table subdivisions (
    country text not null references countries,
    name text not null,
    primary key (country, name)
);
create table cities (
    country text not null,
    subdivision text not null,
    name text not null,
    primary key (country, subdivision, name),
    foreign key (country, subdivision) references subdivisions
);
create table airports (
    icao text primary key check (icao ~ '^[A-Z0-9]{4}$'),
    iata text unique,
    name text not null,
    country text not null references countries,
    subdivision text,
    city text,
    elevation double precision not null,
    latitude double precision not null check (latitude between -90 and 90),
    longitude double precision not null check (longitude between -180 and 180),
    timezone text not null,
    unique (latitude, longitude),
    foreign key (country, subdivision) references subdivisions,
    foreign key (country, subdivision, city) references cities
)

/* example_project:import_country */
-- Each import may find its row there already: a worker that dies between its commit
-- and the ledger's leaves the batch to another.
insert into countries (code) values (%(code)s) on conflict do nothing

/* example_project:import_subdivision */
insert into subdivisions (country, name) values (%(country)s, %(name)s)
on conflict do nothing

/* example_project:import_city */
insert into cities (country, subdivision, name)
values (%(country)s, %(subdivision)s, %(name)s)
on conflict do nothing

/* example_project:import_airport */
insert into airports (
    icao, iata, name, country, subdivision, city,
    elevation, latitude, longitude, timezone
) values (
    %(icao)s, %(iata)s, %(name)s, %(country)s, %(subdivision)s, %(city)s,
    %(elevation)s, %(latitude)s, %(longitude)s, %(timezone)s
)
on conflict (icao) do nothing

/* example_project:airports_counted */
select
    (select count(*) from countries),
    (select count(*) from subdivisions),
    (select count(*) from cities),
    (select count(*) from airports)

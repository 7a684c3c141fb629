-- Rooms whose media server changes, and their peers (example_project/groomer). A room's
-- epoch and a peer's (epoch, rank) only rise: a statement compares, and locks no room.

/* example_project:groomer_schema */
create table groomer_servers (
    server_id int primary key,
    host text not null,
    port int not null,
    answered_at timestamptz not null default clock_timestamp()
);
create table groomer_rooms (
    room_id int primary key,
    -- Of the current room session. Given out by groomer_switch alone.
    epoch int not null check (epoch > 0),
    session_id text not null,
    server_id int not null,
    switched_at timestamptz not null
) with (fillfactor = 50);
create index groomer_rooms_switched on groomer_rooms (switched_at) where epoch > 1;
create table groomer_sessions (
    -- The history: who reports names a session, and never an epoch.
    session_id text primary key,
    room_id int not null,
    epoch int not null,
    server_id int not null,
    opened_at timestamptz not null,
    unique (room_id, epoch)
);
create table groomer_peers (
    peer_id int primary key,
    room_id int not null,
    -- Epoch of the last invitation; above `epoch` the state is CREATED.
    invited int not null default 0,
    -- Of the newest room session that was heard of; 0: none yet.
    epoch int not null default 0,
    -- 1 FIRST_OFFER_RECEIVED, 2 CONNECTED, 3 DISCONNECTED: in that session.
    rank smallint not null default 0 check (rank between 0 and 3),
    created_at timestamptz not null,
    first_offer_at timestamptz,
    connected_at timestamptz,
    disconnected_at timestamptz,
    archived_at timestamptz,
    check ((epoch = 0) = (rank = 0)),
    check (archived_at is null or rank = 3)
) with (fillfactor = 70);
-- No index has epoch, rank or invited: their updates stay in the page.
create index groomer_peers_live on groomer_peers (room_id) where archived_at is null;
create index groomer_peers_gone on groomer_peers (disconnected_at)
    where archived_at is null;
create table groomer_invitations (
    peer_id int not null,
    epoch int not null,
    room_id int not null,
    reason text not null check (reason in ('switch', 'sweep')),
    made_at timestamptz not null,
    sent_at timestamptz,
    primary key (peer_id, epoch)
);
create table groomer_watches (
    -- A row for each life of an observer of a media server: its first look and its last.
    server_id int not null,
    epoch bigint not null,
    pid int not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    -- Whether the server answered the last look.
    answered boolean not null,
    primary key (server_id, epoch)
) with (fillfactor = 50);
create view groomer_states as
select p.peer_id, p.room_id,
       case when p.invited <= p.epoch then s.session_id end as session_id,
       case
           when p.archived_at is not null then 'ARCHIVED'
           when p.invited > p.epoch then 'CREATED'
           else (array['FIRST_OFFER_RECEIVED', 'CONNECTED', 'DISCONNECTED'])[p.rank]
       end as state,
       p.created_at, p.first_offer_at, p.connected_at, p.disconnected_at
from groomer_peers as p
left join groomer_sessions as s on s.room_id = p.room_id and s.epoch = p.epoch

/* example_project:groomer_join */
-- Peers want in: they are CREATED, unless something is known of them already. The answer
-- is the current room session of each room that exists.
with clock as materialized (
    select clock_timestamp() as now
),
wanted as materialized (
    select distinct on (u.peer) u.peer, r.room_id, r.epoch, r.session_id, r.server_id
    from unnest(%(room)s::int[], %(peer)s::int[]) as u (room, peer)
    join groomer_rooms as r on r.room_id = u.room
    order by u.peer
),
joined as (
    insert into groomer_peers as p (peer_id, room_id, invited, created_at)
    select w.peer, w.room_id, w.epoch, clock.now
    from wanted as w, clock
    order by w.peer
    on conflict (peer_id) do update
    set invited = excluded.invited, created_at = excluded.created_at
    where p.epoch = 0 and p.invited < excluded.invited
)
select peer, epoch, session_id, server_id from wanted

/* example_project:groomer_apply */
-- Reports of media servers. A peer's row becomes the greater of what it is and what is
-- reported. The epoch is looked up by session and server: a server that names another's
-- session, or one that was never opened, is not believed. Each peer stands once in the
-- insert (it refuses a second), in the order of ids (so that two batches cannot wait for
-- one another). The answer: how many rows moved, and how many reports were believed.
with clock as materialized (
    select clock_timestamp() as now
),
reports as materialized (
    select u.peer, s.room_id, s.epoch, u.rank
    from unnest(
        %(server)s::int[], %(session)s::text[], %(peer)s::int[], %(rank)s::smallint[]
    ) as u (server, session, peer, rank)
    join groomer_sessions as s
        on s.session_id = u.session and s.server_id = u.server
),
greatest_of_each as materialized (
    select distinct on (peer) peer, room_id, epoch, rank
    from reports
    order by peer, epoch desc, rank desc
),
applied as (
    insert into groomer_peers as p (
        peer_id, room_id, epoch, rank, created_at,
        first_offer_at, connected_at, disconnected_at
    )
    select g.peer, g.room_id, g.epoch, g.rank, clock.now,
           case when g.rank = 1 then clock.now end,
           case when g.rank = 2 then clock.now end,
           case when g.rank = 3 then clock.now end
    from greatest_of_each as g, clock
    order by g.peer
    on conflict (peer_id) do update
    set epoch = excluded.epoch,
        rank = excluded.rank,
        first_offer_at = coalesce(
            excluded.first_offer_at,
            case when p.epoch = excluded.epoch then p.first_offer_at end),
        connected_at = coalesce(
            excluded.connected_at,
            case when p.epoch = excluded.epoch then p.connected_at end),
        disconnected_at = excluded.disconnected_at
    where (p.epoch, p.rank) < (excluded.epoch, excluded.rank)
      and p.room_id = excluded.room_id
      and p.archived_at is null
    returning 1
)
select (select count(*) from applied), (select count(*) from reports)

/* example_project:groomer_apply_one */
-- The same for one report, which needs no sorting: half of the work. Rows only rise, so one
-- that is seen to be as far cannot be behind: such a report, each second one, ends here. A
-- conflict would lock the row, and its commit wait for the disk. A batch has to wait anyhow.
with believed as materialized (
    select s.room_id, s.epoch, clock_timestamp() as now
    from groomer_sessions as s
    where s.session_id = %(session)s and s.server_id = %(server)s
),
applied as (
    insert into groomer_peers as p (
        peer_id, room_id, epoch, rank, created_at,
        first_offer_at, connected_at, disconnected_at
    )
    select %(peer)s, b.room_id, b.epoch, %(rank)s, b.now,
           case when %(rank)s::smallint = 1 then b.now end,
           case when %(rank)s::smallint = 2 then b.now end,
           case when %(rank)s::smallint = 3 then b.now end
    from believed as b
    where not exists (
        select from groomer_peers as p
        where p.peer_id = %(peer)s
          and (p.epoch, p.rank) >= (b.epoch, %(rank)s::smallint))
    on conflict (peer_id) do update
    set epoch = excluded.epoch,
        rank = excluded.rank,
        first_offer_at = coalesce(
            excluded.first_offer_at,
            case when p.epoch = excluded.epoch then p.first_offer_at end),
        connected_at = coalesce(
            excluded.connected_at,
            case when p.epoch = excluded.epoch then p.connected_at end),
        disconnected_at = excluded.disconnected_at
    where (p.epoch, p.rank) < (excluded.epoch, excluded.rank)
      and p.room_id = excluded.room_id
      and p.archived_at is null
    returning 1
)
select (select count(*) from applied), (select count(*) from believed)

/* example_project:groomer_offer */
-- Offers on their way to media servers. Only those into the current room session pass,
-- and are the peer's FIRST_OFFER; the answer to the others is which session is current.
with clock as materialized (
    select clock_timestamp() as now
),
judged as materialized (
    select u.place, u.peer, r.room_id, r.epoch, r.session_id, r.server_id,
           coalesce(u.session = r.session_id, false) as passes
    from unnest(%(room)s::int[], %(session)s::text[], %(peer)s::int[])
        with ordinality as u (room, session, peer, place)
    left join groomer_rooms as r on r.room_id = u.room
),
applied as (
    insert into groomer_peers as p (
        peer_id, room_id, epoch, rank, created_at, first_offer_at
    )
    select distinct on (j.peer) j.peer, j.room_id, j.epoch, 1, clock.now, clock.now
    from judged as j, clock
    where j.passes
    order by j.peer, j.epoch desc
    on conflict (peer_id) do update
    set epoch = excluded.epoch,
        rank = excluded.rank,
        first_offer_at = excluded.first_offer_at,
        connected_at = null,
        disconnected_at = null
    where (p.epoch, p.rank) < (excluded.epoch, excluded.rank)
      and p.room_id = excluded.room_id
      and p.archived_at is null
)
select passes, epoch, session_id, server_id from judged order by place

/* example_project:groomer_current */
-- Which room session is a room's current one.
select epoch, session_id, server_id from groomer_rooms where room_id = %(room)s

/* example_project:groomer_switch */
-- A room's next session: whoever says first which epoch follows the one that it knows
-- has given it out (a rival changes nothing). The peers of older sessions are marked as
-- invited; the answer is those whom the same transaction has to invite. A peer whose
-- first report comes later than this looks is left for groomer_sweep.
with clock as materialized (
    select clock_timestamp() as now
),
switched as (
    insert into groomer_rooms as r (room_id, epoch, session_id, server_id, switched_at)
    select %(room)s::int, %(epoch)s::int, %(session)s::text, %(server)s::int, clock.now
    from clock
    where %(epoch)s::int = 1
       or exists (select from groomer_rooms where room_id = %(room)s::int)
    on conflict (room_id) do update
    set epoch = excluded.epoch,
        session_id = excluded.session_id,
        server_id = excluded.server_id,
        switched_at = excluded.switched_at
    where r.epoch = excluded.epoch - 1
    returning r.room_id, r.epoch, r.session_id, r.server_id, r.switched_at
),
opened as (
    insert into groomer_sessions (session_id, room_id, epoch, server_id, opened_at)
    select session_id, room_id, epoch, server_id, switched_at from switched
),
behind as materialized (
    select p.peer_id
    from switched as r
    join groomer_peers as p on p.room_id = r.room_id
    where p.archived_at is null
      and p.epoch < r.epoch
      and p.rank < 3
      and p.invited < r.epoch
    order by p.peer_id
    for update of p
),
marked as (
    update groomer_peers as p
    set invited = r.epoch, created_at = r.switched_at
    from behind as b, switched as r
    where p.peer_id = b.peer_id
    returning p.peer_id, p.room_id, r.epoch, r.switched_at
),
invited as (
    insert into groomer_invitations (peer_id, epoch, room_id, reason, made_at)
    select peer_id, epoch, room_id, 'switch', switched_at from marked
    on conflict do nothing
    returning peer_id
)
select (select count(*) from switched), array(select peer_id from invited)

/* example_project:groomer_sweep */
-- What a race left behind: peers of an older session that are not invited into the
-- current one. Rooms that have had one session only, or have not changed theirs for a
-- long time, are not looked at. A row that somebody writes is left for the next sweep.
with clock as materialized (
    select clock_timestamp() as now
),
behind as materialized (
    select p.peer_id, r.epoch
    from groomer_rooms as r
    join groomer_peers as p on p.room_id = r.room_id
    where r.epoch > 1
      and r.switched_at
          > (select now from clock) - make_interval(secs => %(within)s::float8)
      and p.archived_at is null
      and p.epoch < r.epoch
      and p.rank < 3
      and p.invited < r.epoch
    order by p.peer_id
    limit %(limit)s
    for update of p skip locked
),
marked as (
    update groomer_peers as p
    set invited = b.epoch, created_at = clock.now
    from behind as b, clock
    where p.peer_id = b.peer_id
    returning p.peer_id, p.room_id, b.epoch
),
invited as (
    insert into groomer_invitations (peer_id, epoch, room_id, reason, made_at)
    select m.peer_id, m.epoch, m.room_id, 'sweep', clock.now from marked as m, clock
    on conflict do nothing
    returning peer_id, room_id, epoch
)
select peer_id, room_id, epoch from invited

/* example_project:groomer_invitation */
-- Where a peer is invited to; nothing if it was invited before, or if a later invitation
-- has overtaken this one.
with clock as materialized (
    select clock_timestamp() as now
)
update groomer_invitations as i
set sent_at = clock.now
from groomer_rooms as r, clock
where i.peer_id = %(peer)s
  and i.epoch = %(epoch)s
  and i.sent_at is null
  and r.room_id = i.room_id
  and r.epoch = i.epoch
returning r.session_id, r.server_id

/* example_project:groomer_archive */
-- Peers that have left a while ago are ARCHIVED: out of the indexes of the live ones.
with clock as materialized (
    select clock_timestamp() as now
),
gone as materialized (
    select p.peer_id
    from groomer_peers as p
    where p.archived_at is null
      and p.disconnected_at
          < (select now from clock) - make_interval(secs => %(keep)s::float8)
      and p.rank = 3
      and p.invited <= p.epoch
    order by p.disconnected_at
    limit %(limit)s
    for update skip locked
)
update groomer_peers as p
set archived_at = clock.now
from gone, clock
where p.peer_id = gone.peer_id

/* example_project:groomer_add_server */
insert into groomer_servers (server_id, host, port)
values (%(server)s, %(host)s, %(port)s)

/* example_project:groomer_servers */
select server_id, host, port from groomer_servers order by server_id

/* example_project:groomer_looked */
-- What an observer has seen of its media server. The transaction holds the observer, so
-- no look of an overtaken life is written after one of the life that follows it.
with clock as materialized (
    select clock_timestamp() as now
),
answered as (
    update groomer_servers as s
    set answered_at = clock.now
    from clock
    where s.server_id = %(server)s::int and %(answered)s::boolean
)
insert into groomer_watches as w (server_id, epoch, pid, first_at, last_at, answered)
select %(server)s::int, %(epoch)s::bigint, %(pid)s::int, clock.now, clock.now,
       %(answered)s::boolean
from clock
on conflict (server_id, epoch) do update
set last_at = excluded.last_at, answered = excluded.answered

/* example_project:groomer_watches */
-- The lives of observers, in seconds since 1970.
select server_id, epoch, pid,
       extract(epoch from first_at)::float8, extract(epoch from last_at)::float8
from groomer_watches
order by server_id, epoch

/* example_project:groomer_now */
select extract(epoch from clock_timestamp())::float8

/* example_project:groomer_answered */
-- Servers that have just answered, and the rooms of those that have not for a while.
with clock as materialized (
    select clock_timestamp() as now
),
answered as (
    update groomer_servers as s
    set answered_at = clock.now
    from clock
    where s.server_id = any(%(living)s::int[])
)
select r.room_id, r.epoch, r.server_id
from groomer_servers as s
join groomer_rooms as r using (server_id)
where s.server_id <> all(%(living)s::int[])
  and s.answered_at
      < (select now from clock) - make_interval(secs => %(dead)s::float8)
order by r.room_id

/* example_project:groomer_switched */
select count(*) from groomer_rooms where epoch > 1

/* example_project:groomer_counted */
-- The account: peers in all, those that nobody invites into the current session, and
-- invitations made, made by the sweep, and not sent.
select (select count(*) from groomer_peers) as peers,
       (
           select count(*)
           from groomer_peers as p
           join groomer_rooms as r using (room_id)
           where p.archived_at is null
             and p.epoch < r.epoch and p.rank < 3 and p.invited < r.epoch
       ) as orphans,
       (select count(*) from groomer_invitations) as invitations,
       (select count(*) from groomer_invitations where reason = 'sweep') as swept,
       (select count(*) from groomer_invitations where sent_at is null) as unsent

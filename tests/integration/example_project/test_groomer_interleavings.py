"""All orders of two and three concurrent statements of one peer, on the real database.

Enumerated, not sampled: the soak plays each two and each three of eleven kinds of
statements, from each of six states of the peer, in each order in which so many
transactions can begin and commit; `make test` those that meet at a switch. After each
schedule the laws are asked: nothing reported is lost, no row goes back, somebody is
invited whenever somebody has to be, and nobody twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from example_project.groomer import queries
from example_project.groomer.states import Progress, Rank, Report
from example_project.store import statements
from tests.integration.example_project.interleaving import (
    Answer,
    Event,
    Interleaver,
    Step,
    orders,
)

ROOM, PEER = 7, 70
OLD, NEW = "old", "new"
SERVERS = {OLD: 1, NEW: 2}
FALLS = """
create function fell() returns trigger language plpgsql as $$
begin raise 'a row went back: % to %', old, new; end $$;
create trigger groomer_fell before update on groomer_peers for each row
when ((new.epoch, new.rank) < (old.epoch, old.rank) or new.invited < old.invited)
execute function fell()
"""
CLEAR = """
delete from groomer_peers; delete from groomer_invitations;
delete from groomer_sessions; delete from groomer_rooms;
insert into groomer_rooms values (7, 1, 'old', 1, now());
insert into groomer_sessions values ('old', 7, 1, 1, now());
"""
ROW = """
insert into groomer_peers (peer_id, room_id, invited, epoch, rank, created_at)
values (70, 7, {}, {}, {}, now());
"""
SWITCHED = """
update groomer_rooms set epoch = 2, session_id = 'new', server_id = 2;
insert into groomer_sessions values ('new', 7, 2, 2, now());
"""
INVITED = "insert into groomer_invitations values (70, 2, 7, 'switch', now(), null);"
ACCOUNT = """
select coalesce(max(p.epoch), 0), coalesce(max(p.rank), 0),
       count(*) filter (where p.epoch < r.epoch and p.rank < 3 and p.invited < r.epoch),
       (select count(*) from groomer_invitations)
from groomer_rooms as r
left join groomer_peers as p using (room_id)
"""
STARTS: dict[str, tuple[str, Progress]] = {
    "nothing is known": ("", Progress()),
    "it wants in": (ROW.format(1, 0, 0), Progress()),
    "it has offered": (ROW.format(1, 1, 1), Progress(1, 1)),
    "it is connected": (ROW.format(1, 1, 2), Progress(1, 2)),
    "it is invited": (ROW.format(2, 1, 2) + SWITCHED + INVITED, Progress(1, 2)),
    "it has moved": (ROW.format(2, 2, 2) + SWITCHED + INVITED, Progress(2, 2)),
}
AT_A_SWITCH = ("switch", "sweep", "offer old")
FEW = (*AT_A_SWITCH, "join", "CONNECTED old", "CONNECTED new")
BEFORE_IT = ("nothing is known", "it wants in", "it is connected")
Maker = Callable[["Laws"], Step]


class Laws:
    """What one schedule has reported, and what must stand in the tables after it."""

    def __init__(self, start: Progress, copies: int) -> None:
        self.greatest = start
        self.copies = copies
        """Of each report; one by itself is applied by a statement of its own."""
        self.invited: list[int] = []

    def report(self, session: str, rank: Rank) -> Step:
        """Report the peer; it counts if it was believed."""

        def answered(rows: Answer) -> None:
            if rows[0][1] != b"0":
                epoch = 1 if session == OLD else 2
                self.greatest = self.greatest.after(Progress(epoch, rank))

        report = Report(server=SERVERS[session], session=session, peer=PEER, rank=rank)
        statement, columns = queries.apply_statement([report] * self.copies)
        return Step(f"{rank.name} {session}", statement, columns, answered)

    def offer(self, session: str) -> Step:
        """Offer; it counts if it was let through."""

        def answered(rows: Answer) -> None:
            if rows[0][0] == b"t":
                epoch = int(rows[0][1] or 0)
                self.greatest = self.greatest.after(Progress(epoch, Rank.FIRST_OFFER))

        columns = queries.offer_columns([(ROOM, session, PEER)])
        return Step(f"offer {session}", queries.query("offer"), columns, answered)

    def join(self) -> Step:
        """Want in."""
        columns = {"room": [ROOM], "peer": [PEER]}
        return Step("join", queries.query("join"), columns, lambda _: None)

    def switch(self) -> Step:
        """Make the new session the current one."""

        def answered(rows: Answer) -> None:
            if rows[0][1] == b"{70}":
                self.invited.append(2)

        columns = {"room": ROOM, "epoch": 2, "session": NEW, "server": 2}
        return Step("switch", queries.query("switch"), columns, answered)

    def sweep(self) -> Step:
        """Invite whom a race has left behind."""

        def answered(rows: Answer) -> None:
            self.invited += [int(row[2] or 0) for row in rows]

        columns = {"limit": 10, "within": 3600.0}
        return Step("sweep", queries.query("sweep"), columns, answered)


KINDS: dict[str, Maker] = {
    "join": Laws.join,
    "switch": Laws.switch,
    "sweep": Laws.sweep,
    "offer old": partial(Laws.offer, session=OLD),
    "offer new": partial(Laws.offer, session=NEW),
    **{
        f"{rank.name} {session}": partial(Laws.report, session=session, rank=rank)
        for rank in Rank
        for session in (OLD, NEW)
    },
}


@pytest.fixture
def service(empty_dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Give the groomer's tables; a row that goes back is an error."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(statements()["groomer_schema"].encode())
        connection.execute(FALLS.encode())
        yield connection


def judge(connection: psycopg.Connection[Any], laws: Laws, invited: bool) -> list[str]:
    """Return the laws that were broken, once a last sweep has looked."""
    laws.invited += [one.epoch for one in queries.sweep(connection)]
    [(epoch, rank, orphans, made)] = connection.execute(ACCOUNT.encode()).fetchall()
    broken = []
    if Progress(epoch, rank) != laws.greatest:
        broken.append(f"lost: {epoch, rank} instead of {laws.greatest}")
    if orphans:
        broken.append("nobody invites it")
    if len(laws.invited) + invited > 1 or made != len(laws.invited) + invited:
        broken.append(f"invited into {laws.invited}, {made} recorded")
    return broken


def enumerate_all(
    connection: psycopg.Connection[Any],
    kinds: Iterable[str],
    starts: Iterable[str],
    actors: int,
    copies: int = 1,
) -> tuple[int, list[str]]:
    """Play every schedule; return how many could happen, and what went wrong."""
    dsn = make_conninfo(connection.info.dsn, password=connection.info.password)
    interleaver = Interleaver(dsn, actors)
    played, wrong = 0, []
    try:
        for names in product(kinds, repeat=actors):
            for start in starts:
                rows, progress = STARTS[start]
                for order in orders(actors):
                    connection.execute((CLEAR + rows).encode())
                    laws = Laws(progress, copies)
                    steps = [KINDS[name](laws) for name in names]
                    if not interleaver.play(steps, order):
                        continue
                    played += 1
                    broken = judge(connection, laws, INVITED in rows)
                    if broken:
                        wrong.append(f"{names} from {start!r}, {order}: {broken}")
            connection.execute("vacuum groomer_peers, groomer_rooms, groomer_sessions")
    finally:
        interleaver.close()
    return played, wrong


def test_the_orders_are_all_that_there_are() -> None:
    """Of two that begin by number: one after the other, nested, and overlapping."""
    first, second = Event(0, commits=True), Event(1, commits=True)
    begins = [Event(0, commits=False), Event(1, commits=False)]
    assert sorted(orders(2)) == sorted(
        [
            (begins[0], first, begins[1], second),
            (begins[0], begins[1], first, second),
            (begins[0], begins[1], second, first),
        ]
    )
    assert len(set(orders(3))) == len(list(orders(3))) == 15


@pytest.mark.parametrize("copies", [1, 2])
def test_two_statements_in_every_order(
    service: psycopg.Connection[Any], copies: int
) -> None:
    """Each pair of the kinds that differ in what they lock, from before the switch."""
    played, wrong = enumerate_all(service, FEW, BEFORE_IT, 2, copies)
    assert wrong == []
    assert played > 200


def test_three_statements_at_a_switch_in_every_order(
    service: psycopg.Connection[Any],
) -> None:
    """Where a late offer of the old session, the switch and the sweep meet."""
    played, wrong = enumerate_all(service, AT_A_SWITCH, BEFORE_IT[:1], 3)
    assert wrong == []
    assert played > 200


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("actors", [2, 3])
def test_statements_of_all_kinds_in_every_order(
    service: psycopg.Connection[Any], actors: int, copies: int
) -> None:
    """Each two and each three of all eleven, from each state."""
    played, wrong = enumerate_all(service, KINDS, STARTS, actors, copies)
    assert wrong == []
    assert played > {2: 1_500, 3: 60_000}[actors]

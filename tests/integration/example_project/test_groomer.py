"""The groomer's statements, on the real tables: one at a time, and many at random."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_project.groomer import queries
from example_project.groomer.queries import Current, Invited, Verdict
from example_project.groomer.states import (
    BadReport,
    Progress,
    Rank,
    Report,
    report_of,
)
from example_project.store import statements

FIRST, SECOND = Current(1, "s1", 1), Current(2, "s2", 2)
STATE = "select session_id, state from groomer_states where peer_id = %s"
Connection = psycopg.Connection[Any]


@pytest.fixture
def service(empty_dsn: str) -> Iterator[Connection]:
    """Give the groomer's tables, with a room 7 on its first media server."""
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(statements()["groomer_schema"].encode())
        assert queries.switch(connection, 7, FIRST) == []
        yield connection


def report(session: Current, rank: Rank, peer: int = 70) -> Report:
    """Return what a server says of a peer."""
    return Report(server=session.server, session=session.session, peer=peer, rank=rank)


def state(connection: Connection, peer: int = 70) -> tuple[Any, ...] | None:
    """Return the session and the state of a peer, as people see them."""
    return connection.execute(STATE, [peer]).fetchone()


def test_a_peer_goes_through_its_states(service: Connection) -> None:
    """CREATED knows no session: the server may change before the first offer."""
    assert queries.join(service, [(7, 70)]) == {70: FIRST}
    assert state(service) == (None, "CREATED")
    assert queries.offer(service, [(7, "s1", 70)]) == [Verdict(True, FIRST)]
    assert state(service) == ("s1", "FIRST_OFFER_RECEIVED")
    for rank in (Rank.CONNECTED, Rank.DISCONNECTED):
        assert queries.apply(service, [report(FIRST, rank)]) == (1, 0)
        assert state(service) == ("s1", rank.name)


def test_reports_in_any_order_end_in_the_same_state(service: Connection) -> None:
    """Repeated and reordered, one by one, in two batches or in one; 24 orders."""
    reports = [report(FIRST, rank) for rank in Rank] + [report(FIRST, Rank.CONNECTED)]
    for number, order in enumerate(permutations(reports)):
        peer = 100 + number
        mine = [report(FIRST, one.rank, peer) for one in order]
        size = (1, 2, 4)[number % 3]
        for place in range(0, len(mine), size):
            queries.apply(service, mine[place : place + size])
        assert state(service, peer) == ("s1", "DISCONNECTED")


def test_a_late_report_of_an_older_session_changes_nothing(
    service: Connection,
) -> None:
    """Epochs are compared before ranks."""
    queries.apply(service, [report(FIRST, Rank.CONNECTED)])
    assert queries.switch(service, 7, SECOND) == [Invited(70, 7, 2)]
    queries.offer(service, [(7, "s2", 70)])
    assert queries.apply(service, [report(FIRST, Rank.DISCONNECTED)]) == (0, 0)
    assert state(service) == ("s2", "FIRST_OFFER_RECEIVED")


def test_the_first_instants_of_a_session_are_kept(service: Connection) -> None:
    """A repeated report does not move them; a new session has its own."""
    asked = "select first_offer_at, connected_at, disconnected_at from groomer_states"
    queries.apply(service, [report(FIRST, Rank.FIRST_OFFER)])
    queries.apply(service, [report(FIRST, Rank.CONNECTED)])
    before = service.execute(asked).fetchone()
    queries.apply(service, [report(FIRST, Rank.FIRST_OFFER), report(FIRST, Rank(2))])
    assert service.execute(asked).fetchone() == before
    queries.switch(service, 7, SECOND)
    queries.apply(service, [report(SECOND, Rank.CONNECTED)])
    row = service.execute(asked).fetchone() or ()
    assert [one is None for one in row] == [True, False, True]


def test_a_server_that_lies_is_not_believed(service: Connection) -> None:
    """A session of another server, one that was never opened, a peer of elsewhere."""
    queries.switch(service, 8, Current(1, "other", 2))
    queries.join(service, [(7, 70)])
    lies = [
        Report(server=2, session="s1", peer=70, rank=Rank.CONNECTED),
        Report(server=2, session="s9", peer=70, rank=Rank.CONNECTED),
    ]
    assert queries.apply(service, lies) == (0, 2)
    assert [queries.apply(service, [one]) for one in lies] == [(0, 1), (0, 1)]
    elsewhere = Report(server=2, session="other", peer=70, rank=Rank.DISCONNECTED)
    queries.apply(service, [elsewhere])
    assert state(service) == (None, "CREATED")


def test_only_offers_into_the_current_session_pass(service: Connection) -> None:
    """The others learn which one is current; of an unknown room there is none."""
    queries.switch(service, 7, SECOND)
    offers = [(7, "s1", 70), (7, "s2", 71), (9, "s2", 72), (7, "s2", 71)]
    assert queries.offer(service, offers) == [
        Verdict(False, SECOND),
        Verdict(True, SECOND),
        Verdict(False, None),
        Verdict(True, SECOND),
    ]
    assert state(service, 70) is None
    assert state(service, 71) == ("s2", "FIRST_OFFER_RECEIVED")
    assert queries.current(service, 7) == SECOND
    assert queries.current(service, 9) is None


def test_an_epoch_is_given_out_once(service: Connection) -> None:
    """Of two who see the same dead server one switches; nobody skips an epoch."""
    assert queries.switch(service, 7, SECOND) == []
    assert queries.switch(service, 7, Current(2, "rival", 3)) is None
    assert queries.switch(service, 7, FIRST) is None
    assert queries.switch(service, 7, Current(4, "gap", 3)) is None
    assert queries.switch(service, 9, Current(2, "no room", 3)) is None
    assert queries.current(service, 7) == SECOND
    [(sessions,)] = service.execute("select count(*) from groomer_sessions").fetchall()
    assert sessions == 2


def test_a_switch_invites_those_who_are_in_the_older_session(
    service: Connection,
) -> None:
    """Who has left is left alone; who is invited is not invited again."""
    for peer, rank in ((70, 1), (71, 2), (72, 3)):
        queries.apply(service, [report(FIRST, Rank(rank), peer)])
    queries.join(service, [(7, 73)])
    assert queries.switch(service, 7, SECOND) == [
        Invited(peer, 7, 2) for peer in (70, 71, 73)
    ]
    assert state(service, 71) == (None, "CREATED")
    assert queries.sweep(service) == []
    assert queries.switch(service, 7, Current(3, "s3", 1)) == [
        Invited(peer, 7, 3) for peer in (70, 71, 73)
    ]


def test_the_sweep_invites_whom_a_race_has_left_behind(service: Connection) -> None:
    """The first report of the old session came after the switch had looked."""
    queries.switch(service, 7, SECOND)
    queries.apply(service, [report(FIRST, Rank.FIRST_OFFER)])
    queries.join(service, [(7, 70)])
    assert queries.sweep(service, within=0.0) == []
    assert queries.sweep(service) == [Invited(70, 7, 2)]
    assert queries.sweep(service) == []
    assert state(service) == (None, "CREATED")


def test_who_wants_in_late_is_not_created_behind_its_reports(
    service: Connection,
) -> None:
    """Else the row would stay, and its peer would never be invited again."""
    queries.apply(service, [report(FIRST, Rank.CONNECTED)])
    queries.join(service, [(7, 70)])
    assert state(service) == ("s1", "CONNECTED")
    assert queries.switch(service, 7, SECOND) == [Invited(70, 7, 2)]


def test_who_has_left_is_archived_after_a_while(service: Connection) -> None:
    """Out of the partial indexes; no later report takes it back into them."""
    for peer, rank in ((70, 3), (71, 2)):
        queries.apply(service, [report(FIRST, Rank(rank), peer)])
    assert queries.archive(service, keep=3_600.0) == 0
    assert queries.archive(service, keep=0.0) == 1
    assert state(service) == ("s1", "ARCHIVED")
    assert state(service, 71) == ("s1", "CONNECTED")
    assert queries.apply(service, [report(FIRST, Rank.FIRST_OFFER)]) == (0, 0)
    assert queries.switch(service, 7, SECOND) == [Invited(71, 7, 2)]
    assert queries.apply(service, [report(SECOND, Rank.FIRST_OFFER)]) == (0, 0)


def test_a_report_by_itself_that_says_nothing_new_writes_nothing(
    service: Connection,
) -> None:
    """No lock of a row, and no commit that waits for the disk; each second one does."""
    queries.apply(service, [report(FIRST, Rank.CONNECTED)])
    queries.switch(service, 7, SECOND)
    queries.apply(service, [report(SECOND, Rank.FIRST_OFFER)])
    known = [report(FIRST, rank) for rank in Rank] + [report(SECOND, Rank.FIRST_OFFER)]
    with service.transaction():
        for one in known:
            assert queries.apply(service, [one]) == (0, 0)
        [(written,)] = service.execute("select pg_current_xact_id_if_assigned()")
        assert written is None
        assert queries.apply(service, [report(SECOND, Rank.CONNECTED)]) == (1, 0)


def test_updates_of_peers_stay_in_their_page(service: Connection) -> None:
    """No index has what reports change: HOT, but for the instant of the end."""
    with service.transaction():
        for rank in (Rank.FIRST_OFFER, Rank.CONNECTED):
            queries.apply(service, [report(FIRST, rank)])
        queries.switch(service, 7, SECOND)
        [(updates, hot)] = service.execute(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables"
            " where relname = 'groomer_peers'"
        ).fetchall()
    assert updates == hot == 2


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, "session is None"),
        ({"session": 3, "peer": 1, "report": "CONNECTED"}, "session is 3"),
        ({"session": "s", "peer": "1", "report": "CONNECTED"}, "peer is '1'"),
        ({"session": "s", "peer": 1, "report": "ARCHIVED"}, "report is 'ARCHIVED'"),
        ({"session": "s", "peer": 1, "report": ["x"]}, "allowed are FIRST_OFFER"),
    ],
)
def test_a_report_that_cannot_be_read_is_refused(document: Any, words: str) -> None:
    """By its field, its value and what is allowed."""
    with pytest.raises(BadReport, match=words.replace("[", r"\[")):
        report_of(document, 1)
    good = {"session": "s", "peer": 1, "report": "CONNECTED"}
    assert report_of(good, 3) == Report(server=3, session="s", peer=1, rank=Rank(2))


@given(
    st.lists(st.builds(Progress, st.integers(0, 3), st.integers(0, 3)), max_size=6),
    st.randoms(use_true_random=False),
)
def test_reports_are_joined(reports: list[Progress], chance: random.Random) -> None:
    """Any order, any repetition, any part applied before: the same end."""
    end = Progress()
    for one in reports:
        end = end.after(one)
    other = Progress()
    for one in chance.sample(reports * 2, 2 * len(reports)):
        assert other.after(one) >= other
        other = other.after(one)
    assert other == end

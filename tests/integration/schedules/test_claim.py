"""The one statement that decides who has a slot, on a real PostgreSQL."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from celery_pecker.kernel.clock import SYSTEM, from_us, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import DatabaseUnavailable
from celery_pecker.schedules.engine.model import ClaimRequest, Delivery, Entry, Policy
from celery_pecker.schedules.engine.repository import CHUNK, Repository
from celery_pecker.testing import eventually

SECOND = 1_000_000
START = datetime(2026, 1, 1, tzinfo=UTC)
FAR = to_us(datetime(2100, 1, 1, tzinfo=UTC))


class Instant:
    """The database's clock, as far as statements are concerned."""

    def __init__(self) -> None:
        self.now: datetime | None = START

    def __call__(self) -> datetime | None:
        """Return it."""
        return self.now


def wanted(
    name: str = "sweep",
    *,
    period_us: int | None = SECOND,
    delivery: Delivery = Delivery.AT_MOST_ONCE,
    instant: datetime | None = None,
    seen: datetime | None = None,
) -> ClaimRequest:
    """Return one entry of a claim."""
    policy = Policy(delivery=delivery, timeout_us=SECOND)
    return ClaimRequest(
        entry=Entry(
            name=name, task="t", described="", period_us=period_us, policy=policy
        ),
        ahead_us=max(5 * SECOND, period_us or 0),
        instant_us=None if instant is None else to_us(instant),
        seen_us=None if seen is None else to_us(seen),
    )


@pytest.fixture
def instant() -> Instant:
    """Give the clock."""
    return Instant()


@pytest.fixture
def database(dsn: str) -> Iterator[Database]:
    """Give the seam."""
    found = Database(dsn, schema="public", timeout=5.0, role="test")
    yield found
    found.close()


@pytest.fixture
def repository(database: Database, instant: Instant) -> Repository:
    """Give the tables, with one entry first seen at START."""
    database.now = instant
    found = Repository(database, uuid.uuid4())
    found.enroll(["sweep"])
    return found


def test_the_first_run_comes_one_period_after_first_seen(
    repository: Repository, instant: Instant
) -> None:
    """As with Celery's beat: a restart does not run everything at once."""
    instant.now = START + timedelta(microseconds=999_999)
    assert repository.claim([wanted()], until_us=FAR)[1] == []
    instant.now = START + timedelta(seconds=1)
    [win] = repository.claim([wanted()], until_us=FAR)[1]
    assert from_us(win.due_us) == instant.now


def test_enrolling_again_leaves_the_row_alone(
    repository: Repository, instant: Instant
) -> None:
    """A deploy does not move the grid."""
    instant.now = START + timedelta(seconds=40)
    assert repository.enroll(["sweep"]) == 0
    [win] = repository.claim([wanted()], until_us=FAR)[1]
    assert win.passed == 39  # slots 1 to 39


def test_another_period_counts_from_the_last_slot(
    repository: Repository, instant: Instant
) -> None:
    """Two versions side by side claim by their own period, and never the same slot."""
    instant.now = START + timedelta(seconds=3.2)
    repository.claim([wanted()], until_us=FAR)
    instant.now = START + timedelta(seconds=12.9)
    [win] = repository.claim([wanted(period_us=5 * SECOND)], until_us=FAR)[1]
    assert from_us(win.due_us) == START + timedelta(seconds=8)


def test_a_rival_in_the_middle_of_its_claim_is_passed_over_not_waited_for(
    repository: Repository, instant: Instant, dsn: str
) -> None:
    """Without SKIP LOCKED this claim would wait and end in a timeout (I4)."""
    repository.enroll(["other"])
    instant.now = START + timedelta(seconds=1)
    with psycopg.connect(dsn) as rival:
        rival.execute(
            "select from pecker_tasks where name = 'sweep' for update"
        ).fetchall()
        _, wins = repository.claim([wanted(), wanted("other")], until_us=FAR)
        assert [win.nth for win in wins] == [2]


def test_many_claimers_at_one_instant_never_share_a_slot(
    dsn: str, instant: Instant
) -> None:
    """Four replicas, 1,000 entries, ten instants: each slot is won exactly once."""
    names = [f"entry {n}" for n in range(CHUNK)]
    asked = [wanted(name) for name in names]
    wins: Counter[tuple[str, int, int]] = Counter()
    lock, rounds = threading.Lock(), 10

    def step() -> None:
        moment = instant.now
        assert moment is not None
        instant.now = moment + timedelta(seconds=1)

    meet = threading.Barrier(4, action=step, timeout=60)

    def compete() -> None:
        database = Database(dsn, schema="public", timeout=30.0, role="test")
        database.now = instant
        mine = Repository(database, uuid.uuid4())
        mine.enroll(names)
        for _ in range(rounds):
            meet.wait()
            found = mine.claim(asked, until_us=FAR)[1]
            with lock:
                wins.update((names[win.nth - 1], win.due_us, win.era) for win in found)
            meet.wait()
            instant.now = START + timedelta(seconds=(len(wins) // CHUNK))
        database.close()

    threads = [threading.Thread(target=compete) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert max(wins.values()) == 1
    assert len(wins) >= CHUNK


def test_a_computed_slot_is_taken_only_from_the_row_that_was_seen(
    repository: Repository, instant: Instant
) -> None:
    """Two replicas that work out different instants cannot both win."""
    instant.now = START + timedelta(seconds=90)
    first = wanted(period_us=None, instant=START + timedelta(seconds=60), seen=START)
    other = wanted(period_us=None, instant=START + timedelta(seconds=61), seen=START)
    assert len(repository.claim([first], until_us=FAR)[1]) == 1
    assert repository.claim([other], until_us=FAR)[1] == []


def test_a_computed_slot_in_the_future_is_not_taken(
    repository: Repository, instant: Instant
) -> None:
    """Python's idea of the time does not count."""
    instant.now = START + timedelta(seconds=59.999)
    early = wanted(period_us=None, instant=START + timedelta(seconds=60), seen=START)
    assert repository.claim([early], until_us=FAR)[1] == []


def test_at_least_once_leaves_a_pending_row_that_only_its_epoch_confirms(
    repository: Repository, instant: Instant, database: Database
) -> None:
    """A stale confirmation must not clear what a successor holds (I3)."""
    kept = wanted(delivery=Delivery.AT_LEAST_ONCE)
    instant.now = START + timedelta(seconds=1)
    [win] = repository.claim([kept], until_us=FAR)[1]
    successor = Repository(database, uuid.uuid4())
    assert successor.reclaim([kept.entry], lease=15, until_us=FAR) == []
    instant.now = START + timedelta(seconds=17)
    [orphan] = successor.reclaim([kept.entry], lease=15, until_us=FAR)
    assert (orphan.due_us, orphan.era, orphan.attempt) == (win.due_us, win.era, 2)
    assert orphan.epoch > win.epoch
    assert repository.confirm([("sweep", win.epoch)]) == 0
    assert successor.confirm([("sweep", orphan.epoch)]) == 1
    assert successor.reclaim([kept.entry], lease=0, until_us=FAR) == []


def test_an_epoch_never_goes_back_even_if_the_clock_and_the_row_do(
    repository: Repository, instant: Instant, database: Database
) -> None:
    """A failover that lost the last grants cannot hand out one of them again."""
    instant.now = START + timedelta(seconds=10)
    [win] = repository.claim([wanted()], until_us=FAR)[1]
    # A standby that had not yet received this grant is promoted.
    database._connected().execute("update pecker_tasks set epoch = 0")
    instant.now = START + timedelta(seconds=11)
    [later] = repository.claim([wanted()], until_us=FAR)[1]
    assert later.epoch > win.epoch
    instant.now = START - timedelta(hours=1)
    [back] = repository.claim([wanted()], until_us=FAR)[1]
    assert back.epoch == later.epoch + 1
    assert back.era == win.era + 1


def test_losers_change_nothing_and_are_told_the_time(
    repository: Repository, database: Database
) -> None:
    """A claim without a slot is a read."""
    connection = database._connected()

    def changed() -> int:
        connection.execute("select pg_stat_force_next_flush()")
        [row] = connection.execute(
            "select n_tup_upd from pg_stat_user_tables where relname = 'pecker_tasks'"
        )
        return int(row[0])

    flushes = connection.info.server_version >= 150_000  # the function came with 15
    before = changed() if flushes else 0
    told, wins = repository.claim([wanted()], until_us=FAR)
    assert wins == []
    assert told == to_us(START)
    if flushes:
        assert changed() == before


def test_the_answer_to_a_full_claim_stays_under_64_kb(
    repository: Repository, instant: Instant, database: Database
) -> None:
    """A client that freezes must not keep the server sending, locks in hand (I9)."""
    sizes: list[int] = []

    class Measuring(psycopg.Cursor[tuple[object, ...]]):
        def fetchall(self) -> list[tuple[object, ...]]:
            result = self.pgresult
            assert result is not None
            values = [
                result.get_value(row, column)
                for row in range(result.ntuples)
                for column in range(result.nfields)
            ]
            sizes.append(7 * result.ntuples + sum(4 + len(v or b"") for v in values))
            return super().fetchall()

    names = [f"{'x' * 180}{n}" for n in range(CHUNK)]
    repository.enroll(names)
    instant.now = START + timedelta(seconds=1)
    database._connected().cursor_factory = Measuring
    _, wins = repository.claim([wanted(name) for name in names], until_us=FAR)
    assert len(wins) == CHUNK
    assert CHUNK * 40 < sizes[-1] <= 65_536  # 64 kB


def test_a_claim_given_up_by_its_sender_takes_nothing_when_it_runs_at_last(
    repository: Repository, dsn: str
) -> None:
    """Locks, freezes, half-open routes: every wait has an end, on both sides (I2)."""
    patience = 0.3
    database = Database(dsn, schema="public", timeout=patience, role="test")
    stuck = Repository(database, uuid.uuid4())
    with psycopg.connect(dsn) as blocker:
        blocker.execute("lock table pecker_tasks in access exclusive mode")
        until = SYSTEM.now() + timedelta(seconds=patience)
        with pytest.raises(DatabaseUnavailable, match="claim_due"):
            stuck.claim([wanted()], until_us=to_us(until))
    assert not database.connected
    # The server goes on with the orphaned statement now; this claim meets it or
    # comes after it, and must find its slot untouched or in the middle of nothing.
    eventually(lambda: bool(stuck.claim([wanted()], until_us=FAR)[1]))
    [row] = database.run("read_tasks", names=["sweep"], now=None)
    assert row[4] == 0
    assert row[5] == stuck.holder
    [(missed,)] = database._connected().execute("select missed from pecker_tasks")
    assert missed > 0, "the slots since START were passed over once, not twice"
    database.close()

"""Two connections at the same rows: one has written, and not yet committed.

A statement that waits for a row looks at that row again as it then is; of all other
rows it keeps the picture from before it waited. Each test holds one writer in the
middle, waits until the other stands behind it, and lets go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from celery_pecker.kernel.sql import statements
from celery_pecker.testing import eventually
from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, Failure, Hold, HoldReply, Shard, Step

LEASE = 15.0
FIRST = Shard(
    shard=0,
    layer=0,
    origin=0,
    lo=0,
    hi=4,
    cursor=0,
    ahead=0,
    done=0,
    failed=0,
    deaths=0,
    attempt=0,
)
"""The first shard of a job, as its holder has it."""
WAITING = "select count(*) from pg_locks where not granted"


class Rivals:
    """Two ledgers; what `behind` is told to do begins while the other has not ended."""

    def __init__(self, first: Ledger, second: Ledger, watcher: Ledger) -> None:
        self.first, self.second, self.watcher = first, second, watcher
        self.pool = ThreadPoolExecutor(1)

    def rows(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        """Return what is committed."""
        found = self.watcher.database._connected().execute(statement, params)
        return found.fetchall() if found.description else []

    @contextmanager
    def behind(self, ask: Callable[[], Any]) -> Iterator[Future[Any]]:
        """Inside, `first` writes; `ask` waits until that is committed."""
        with self.first.database.transaction():
            answer: Future[Any] = Future()
            yield answer
            asked = self.pool.submit(ask)
            eventually(lambda: self.rows(WAITING) == [(1,)], message="one that waits")
        answer.set_result(asked.result(30.0))


@pytest.fixture
def rivals(open_ledger: Callable[[], Ledger]) -> Iterator[Rivals]:
    """Give two ledgers, and a third that watches."""
    found = Rivals(open_ledger(), open_ledger(), open_ledger())
    yield found
    found.pool.shutdown()


def holding(ledger: Ledger, job: int, ticket: int = 1, seq: int = 0) -> Hold:
    """Hold a ticket that nobody held before."""
    turn = ledger.tickets.take(
        job, ticket, seq, holder=f"a{ticket}:1:x", hostname="a", lease=LEASE
    )
    assert turn is not None
    return turn.hold


def claim(ledger: Ledger, hold: Hold, most: int = 1) -> list[Shard]:
    """Claim shards of the first layer."""
    return ledger.shards.claim(hold, layer=0, most=most)


def close(ledger: Ledger, hold: Hold, shard: Shard, *again: int) -> HoldReply:
    """Close a shard; those of its items are to be tried again."""
    failures = tuple(
        Failure(
            origin=shard.origin,
            place=place,
            shard=shard.shard,
            layer=shard.layer,
            code=Code.FAILED,
            attempt=1,
            type="ValueError",
            message="no",
        )
        for place in again
    )
    step = Step(
        shard=shard.shard,
        cursor=shard.count,
        ahead=shard.count,
        done=shard.count - len(again),
        failed=0,
        status=Code.SUCCEEDED,
        results=b"r",
        failures=failures,
        retry=(again, 0.0) if again else None,
    )
    return ledger.shards.write(hold, [step], lease=LEASE)


def standing(rivals: Rivals, job: int) -> list[tuple[Any, ...]]:
    """Return (status, ticket, deaths) of each shard."""
    return rivals.rows(
        "select status, ticket, deaths from pecker_shards where job = %s"
        " order by shard",
        job,
    )


def counts(rivals: Rivals, job: int) -> tuple[Any, ...]:
    """Return (shards, open, done) of the first layer."""
    ((*found,),) = rivals.rows(
        "select shards, open, done from pecker_layers where job = %s and layer = 0", job
    )
    return tuple(found)


def waits(label: str) -> str:
    """Return a statement that waits for what it passes over in production.

    There a rival must commit within the microseconds between what is seen and what is
    locked; here it has all the time.
    """
    text = statements("celery_sharding")[label].replace("{schema}", "public")
    assert "for update" in text
    return text.replace(" skip locked", "")


def test_of_two_takers_one_has_the_ticket(
    rivals: Rivals, planned: Callable[..., Any]
) -> None:
    """The second finds the number that the first has raised."""
    job = planned().job
    with rivals.behind(
        lambda: rivals.second.tickets.take(
            job, 1, 0, holder="b:1:x", hostname="b", lease=LEASE
        )
    ) as second:
        holding(rivals.first, job)
    assert second.result() is None
    assert rivals.rows("select holder, seq from pecker_tickets where ticket = 1") == [
        ("a1:1:x", 1)
    ]


def test_a_write_behind_the_end_of_its_hold_writes_nothing(
    rivals: Rivals, planned: Callable[..., Any]
) -> None:
    """Shard, results, errors, counts and the lease stay as they were."""
    job = planned(((4, 4),)).job
    hold = holding(rivals.second, job)
    (mine,) = claim(rivals.second, hold)
    with rivals.behind(lambda: close(rivals.second, hold, mine, 1)) as word:
        rivals.first.tickets.end_holds_of("a1:")
    assert not word.result().held
    assert standing(rivals, job) == [(100, None, 1), (100, None, 0)]
    assert counts(rivals, job) == (2, 2, 0)
    for table in ("pecker_results", "pecker_item_errors"):
        assert rivals.rows(f"select count(*) from {table}") == [(0,)]  # noqa: S608
    assert rivals.rows("select count(*) from pecker_tickets where state = 'held'") == [
        (0,)
    ]


def test_a_claim_behind_the_end_of_its_hold_claims_nothing(
    rivals: Rivals, planned: Callable[..., Any]
) -> None:
    """Else the shard would be nobody's, and look like somebody's."""
    job = planned(((4, 4),)).job
    hold = holding(rivals.second, job)
    with rivals.behind(lambda: claim(rivals.second, hold, 2)) as claimed:
        rivals.first.tickets.end_all_holds(job)
    assert claimed.result() == []
    assert standing(rivals, job) == [(100, None, 0)] * 2


def test_the_end_of_a_hold_behind_its_claim_frees_what_was_claimed(
    rivals: Rivals, planned: Callable[..., Any]
) -> None:
    """What is claimed while the statement waits is not in its picture of the shards."""
    job = planned(((4, 4),)).job
    hold = holding(rivals.first, job)
    with rivals.behind(lambda: rivals.second.tickets.end_holds_of("a1:")) as ended:
        assert len(claim(rivals.first, hold, 2)) == 2
    assert ended.result() == [job]
    assert standing(rivals, job) == [(100, None, 1)] * 2
    assert not close(rivals.first, hold, FIRST).held


def test_what_a_late_claim_of_who_has_let_go_took_is_found(
    rivals: Rivals, planned: Callable[..., Any]
) -> None:
    """Its holder thinks that it got nothing: the answer was lost."""
    job = planned(((4, 4),)).job
    hold = holding(rivals.first, job)
    with rivals.behind(lambda: rivals.second.tickets.release(hold)) as handed:
        claim(rivals.first, hold, 2)
    assert handed.result() is True
    assert [status for status, _, _ in standing(rivals, job)] == [202, 201]
    later = holding(rivals.second, job, seq=hold.seq)
    assert close(rivals.second, later, FIRST).lost == (0,)
    assert rivals.second.tickets.end_expired(job) == [job]
    assert [status for status, _, _ in standing(rivals, job)] == [100, 100]
    claim(rivals.second, later, 2)
    assert rivals.second.tickets.end_expired(job) == []


def test_two_that_close_the_last_shards_count_each_other(
    rivals: Rivals, planned: Callable[..., Any]
) -> None:
    """One of them sees the layer's counter at 0."""
    job = planned(((4, 4),)).job
    one, two = holding(rivals.first, job), holding(rivals.second, job, 2)
    (mine,), (other,) = claim(rivals.first, one), claim(rivals.second, two)
    with rivals.behind(lambda: close(rivals.second, two, other)) as word:
        assert close(rivals.first, one, mine).layer_open == 1
    assert word.result().layer_open == 0
    assert counts(rivals, job) == (2, 0, 8)


def test_two_that_try_items_again_make_shards_of_their_own(
    rivals: Rivals, planned: Callable[..., Any]
) -> None:
    """Their numbers are dealt once, and follow those of all layers."""
    job = planned(((4, 4), (4,))).job
    one, two = holding(rivals.first, job), holding(rivals.second, job, 2)
    (mine,), (other,) = claim(rivals.first, one), claim(rivals.second, two)
    with rivals.behind(lambda: close(rivals.second, two, other, 1, 2)) as word:
        assert close(rivals.first, one, mine, 3).layer_open == 2
    assert word.result().layer_open == 2
    assert counts(rivals, job) == (4, 2, 5)
    assert rivals.rows(
        "select shard, origin, picks from pecker_shards where shard > 2 order by shard"
    ) == [(3, 0, [3]), (4, 1, [1, 2])]


def test_numbers_that_another_has_dealt_meanwhile_are_dealt_anew(
    rivals: Rivals, planned: Callable[..., Any]
) -> None:
    """Where the layers' own counts are wrong, the shards' numbers are not."""
    job = planned(((4, 4),)).job
    rivals.rows("update pecker_layers set shards = 0 where job = %s", job)
    one, two = holding(rivals.first, job), holding(rivals.second, job, 2)
    (mine,), (other,) = claim(rivals.first, one), claim(rivals.second, two)
    with rivals.behind(lambda: close(rivals.second, two, other, 1)) as word:
        close(rivals.first, one, mine, 3)
    assert word.result().held
    assert counts(rivals, job)[1:] == (2, 6)
    assert rivals.rows(
        "select shard, origin from pecker_shards where shard > 1 order by shard"
    ) == [(2, 0), (3, 1)]


def test_a_repeated_write_behind_its_first_copy_counts_nothing_twice(
    rivals: Rivals, planned: Callable[..., Any]
) -> None:
    """The writer gave up on an answer; the server had not given up on the write."""
    job = planned(((4, 4),)).job
    hold = holding(rivals.first, job)
    (mine,) = claim(rivals.first, hold)
    with rivals.behind(lambda: close(rivals.second, hold, mine, 1)) as word:
        close(rivals.first, hold, mine, 1)
    assert word.result().held
    assert counts(rivals, job) == (3, 2, 3)
    assert rivals.rows("select count(*) from pecker_results") == [(1,)]


def test_a_hold_that_is_renewed_before_it_is_ended_goes_on(
    rivals: Rivals, planned: Callable[..., Any], time: Any
) -> None:
    """The lease is looked at again on the row as it now is."""
    job = planned().job
    hold = holding(rivals.first, job)
    time.step(LEASE + 1)
    ask = {"job": None, "most": 10, "now": time()}
    with rivals.behind(
        lambda: (
            rivals.second.database._connected()
            .execute(waits("end_expired_holds"), ask)
            .fetchall()
        )
    ) as ended:
        assert rivals.first.tickets.renew(hold, LEASE).held
        assert rivals.watcher.tickets.end_expired() == []
    assert ended.result() == []
    assert rivals.first.tickets.renew(hold, LEASE).held


def test_an_orphan_that_was_claimed_anew_is_its_new_holders(
    rivals: Rivals, planned: Callable[..., Any]
) -> None:
    """Whoever frees orphans saw it before that, and tickets as they stood then."""
    job = planned(((4,),)).job
    hold = holding(rivals.first, job)
    claim(rivals.first, hold)
    rivals.rows("update pecker_tickets set state = 'idle', seq = 2 where ticket = 1")
    ask = {"jobs": None, "died": True, "over": None, "shard": None}
    with rivals.behind(
        lambda: (
            rivals.second.database._connected()
            .execute(waits("free_orphans"), ask)
            .fetchall()
        )
    ) as freed:
        assert rivals.first.tickets.end_expired(job) == [job]
        later = holding(rivals.first, job, seq=2)
        (mine,) = claim(rivals.first, later)
    assert freed.result() == []
    assert standing(rivals, job) == [(202, 1, 1)]
    assert close(rivals.first, later, mine).lost == ()

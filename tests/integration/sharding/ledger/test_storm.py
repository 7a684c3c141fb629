"""Many connections at once, and somebody who ends their holds at any moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue
from random import Random
from threading import Event
from typing import Any

import pytest

from celery_sharding.codec import decode, encode
from celery_sharding.ledger import Ledger
from celery_sharding.model import Code, Failure, Hold, Shard, Step

LEASE = 600.0
WORKERS = 4
BLOWS = 200
"""Then nobody is taken for dead any more: where a turn takes longer than the time
between two blows, it would never come to its end, and the storm never to its."""
LEFT = "select count(*) from pecker_shards where status in (100, 201, 202)"
Messages = Queue[tuple[int, int]]


class Worker:
    """Takes, claims, writes, hands on; now and then writes what it wrote long ago."""

    def __init__(self, name: str, ledger: Ledger, job: int, seed: int) -> None:
        self.name, self.ledger, self.job = name, ledger, job
        self.random = Random(seed)
        self.stale: list[tuple[Hold, Step]] = []

    def turn(self, messages: Messages) -> None:
        """Do what one message says."""
        try:
            ticket, seq = messages.get(timeout=0.01)
        except Empty:
            found = self.ledger.tickets.to_publish(self.job, slots=None, resend=0.05)
            for one in found:
                messages.put(one)
            return
        turn = self.ledger.tickets.take(
            self.job,
            ticket,
            seq,
            holder=f"{self.name}:1:x",
            hostname=self.name,
            lease=LEASE,
        )
        if turn is None:
            return
        hold = turn.hold
        for shard in self.ledger.shards.claim(hold, layer=0, most=3):
            if not self.run(hold, shard):
                return
        if self.stale and self.random.random() < 0.3:
            old, step = self.random.choice(self.stale)
            word = self.ledger.shards.write(old, [step], lease=LEASE)
            assert not word.held or old == hold
        if self.random.random() < 0.5:
            if self.ledger.tickets.release(hold):
                messages.put((hold.ticket, hold.seq))
        else:
            self.ledger.tickets.set_idle(hold)

    def run(self, hold: Hold, shard: Shard) -> bool:
        """Run a shard in two writes; return whether the hold still is one."""
        half = shard.cursor + (shard.count - shard.cursor) // 2
        for cursor, status in ((half, Code.RUNNING), (shard.count, Code.SUCCEEDED)):
            step = self.step(shard, cursor, status)
            self.stale.append((hold, step))
            word = self.ledger.shards.write(hold, [step], lease=LEASE)
            if not word.held:
                return False
            assert word.lost == ()
            shard.cursor, shard.done = step.cursor, step.done
        return True

    def step(self, shard: Shard, cursor: int, status: Code) -> Step:
        """Items up to there ended; the first of a shard is to be tried again once."""
        places = [shard.place(index) for index in range(shard.cursor, cursor)]
        again = (0,) if not shard.attempt and status.ended else ()
        good = [place for place in places if shard.attempt or place != 0]
        return Step(
            shard=shard.shard,
            cursor=cursor,
            ahead=cursor,
            done=shard.done + len(good),
            failed=0,
            status=status,
            results=encode([[shard.origin, place] for place in good]),
            failures=tuple(
                self.failure(shard) for place in places if place not in good
            ),
            mended=tuple((shard.origin, place) for place in good if shard.attempt),
            retry=(again, 0.0) if again else None,
        )

    def failure(self, shard: Shard) -> Failure:
        """Return the failure of a shard's first item."""
        return Failure(
            origin=shard.origin,
            place=0,
            shard=shard.shard,
            layer=0,
            code=Code.FAILED,
            attempt=1,
            type="E",
            message="no",
        )


@pytest.mark.parametrize("seed", [1, 2])
def test_every_item_ends_once_whoever_is_taken_for_dead(
    ledger: Ledger,
    open_ledger: Callable[[], Ledger],
    planned: Callable[..., Any],
    time: Any,
    seed: int,
) -> None:
    """Holds end in the middle of claims and writes, of which some come again later."""
    time.at = None
    count = 80
    job = planned(((3,) * count,), concurrency=WORKERS + 1).job
    asked = ledger.database._connected()
    workers = [
        Worker(f"w{nth}", open_ledger(), job, seed * 100 + nth)
        for nth in range(WORKERS)
    ]
    messages: Messages = Queue()
    over = Event()

    def work(worker: Worker) -> None:
        try:
            while not over.is_set():
                worker.turn(messages)
        finally:
            over.set()

    random, reaper, blows = Random(seed), open_ledger(), 0
    with ThreadPoolExecutor(WORKERS) as pool:
        working = [pool.submit(work, worker) for worker in workers]
        try:
            while not over.wait(0.002):
                if asked.execute(LEFT).fetchall() == [(0,)]:
                    break
                blows += 1
                if blows > BLOWS:
                    continue
                if random.random() < 0.8:
                    reaper.tickets.end_holds_of(f"w{random.randrange(WORKERS)}:")
                else:
                    reaper.tickets.end_all_holds(job)
        finally:
            over.set()
    for one in working:
        one.result()
    every = {(origin, place): 1 for origin in range(count) for place in range(3)}
    bodies = asked.execute("select body from pecker_results").fetchall()
    ended = Counter(tuple(item) for (body,) in bodies for item in decode(body))
    assert ended == every
    assert asked.execute("select count(*) from pecker_item_errors").fetchall() == [(0,)]
    assert asked.execute(
        "select shards, open, done, failed from pecker_layers"
    ).fetchall() == [(2 * count, 0, 3 * count, 0)]

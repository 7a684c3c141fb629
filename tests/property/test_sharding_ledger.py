"""Tickets and shards as a state machine: real SQL, instants of the test's choosing.

Workers take tickets from messages that come late, twice, or never; claim shards, run
some of their items, and write; are not heard for longer than their lease, and write
all the same when they wake. The oracle knows who holds what. At the end everything is
run to its end: each item ended once, and its result, or its error, is there once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from celery_pecker.kernel.clock import new_tag
from celery_pecker.kernel.database import Database
from celery_sharding.codec import decode, encode, encode_items
from celery_sharding.ledger import PACKAGE, Ledger
from celery_sharding.ledger.submissions import NewJob
from celery_sharding.model import (
    Code,
    Failure,
    Hold,
    HoldReply,
    Options,
    Planned,
    Shard,
    Step,
)
from tests.profiles import examples

START = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
LEASE, RESEND, DELAY = 10.0, 8.0, 5.0
WORKERS = 3
ATTEMPTS = 3
SIZES = ((4, 3, 1, 2), (2, 2))
OPEN = (100, 201, 202)
WRITES: dict[str, Any] = {
    "who": st.integers(0, 99),
    "nth": st.integers(0, 99),
    "status": st.sampled_from(
        [Code.RUNNING, Code.RUNNING, Code.SUCCEEDED, Code.SUCCEEDED, Code.WAITING]
    ),
    "twice": st.booleans(),
}
"""Which of the shards that somebody thinks are his own, and what is written of it."""


@dataclass
class Kept:
    """A shard as its holder has it: right or long since another's."""

    shard: Shard
    pending: set[int]


@dataclass
class Holder:
    """A hold that was once given, and what was claimed under it."""

    hold: Hold
    ledger: Ledger
    kept: dict[int, Kept] = field(default_factory=dict)
    after: int = -1


@dataclass
class Known:
    """A shard as the ledger ought to have it."""

    layer: int
    count: int
    attempt: int = 0
    status: int = 100
    by: tuple[int, int] | None = None
    cursor: int = 0
    done: int = 0
    failed: int = 0
    deaths: int = 0


@pytest.fixture
def databases(dsn: str) -> Iterator[list[Database]]:
    """Give each worker its own connection, and one to who looks on."""
    found = [
        Database(dsn, schema="public", timeout=10.0, role="test", package=PACKAGE)
        for _ in range(WORKERS + 1)
    ]
    yield found
    for database in found:
        database.close()


class Ledgers(RuleBasedStateMachine):
    """One job, some workers, and what they believe."""

    databases: list[Database]

    @initialize(concurrency=st.integers(1, 4))
    def begin(self, concurrency: int) -> None:
        """A job is planned; nobody has taken anything."""
        self.at, self.concurrency = START, concurrency
        for one in self.databases:
            one.now = lambda: self.at
        self.ledgers = [Ledger(one) for one in self.databases]
        self.own = self.ledgers[-1]
        options = Options(concurrency=concurrency)
        new = NewJob(
            task_id=new_tag(),
            task="proj.job",
            args=(),
            kwargs={},
            continuation={},
            options=options,
            key=None,
        )
        self.job = self.own.submissions.submit(new).job
        turn = self.own.plans.begin(new.task_id, "p:1:x", LEASE)
        assert turn is not None
        given = [(layer, count) for layer, row in enumerate(SIZES) for count in row]
        self.own.plans.write(
            turn,
            [
                Planned(layer=layer, count=count, body=encode_items([0] * count))
                for layer, count in given
            ],
        )
        self.shards = {
            nth: Known(layer=layer, count=count)
            for nth, (layer, count) in enumerate(given)
        }
        self.layer, self.paused = 0, False
        self.messages: list[tuple[int, int]] = []
        self.holders: list[Holder] = []
        self.tickets: dict[int, tuple[int, str]] = {}
        self.until: dict[int, datetime] = {}
        self._learn_tickets()
        for worker in range(WORKERS):
            self.work(worker, None, keep=True, most=2)

    # What happens to tickets

    @rule(
        worker=st.integers(0, WORKERS - 1),
        slots=st.sampled_from([None, None, 0, 2]),
        keep=st.booleans(),
        most=st.integers(1, 3),
    )
    def work(self, worker: int, slots: int | None, keep: bool, most: int) -> None:
        """Tickets are summoned; a worker takes the last, and claims."""
        self.publish(slots)
        if self.messages:
            self.deliver(len(self.messages) - 1, worker, keep)
        if self.holders:
            self.claim(len(self.holders) - 1, most, renew=False)

    def publish(self, slots: int | None) -> None:
        """Messages are sent; together with who holds they are no more than may be."""
        found = self.own.tickets.to_publish(self.job, slots=slots, resend=RESEND)
        assert not (found and self.paused)
        held = sum(state == "held" for _, state in self.tickets.values())
        limit = self.concurrency if slots is None else min(self.concurrency, slots + 1)
        assert len(found) <= max(limit - held, 0)
        for ticket, seq in found:
            assert ticket <= self.concurrency
            known, state = self.tickets.get(ticket, (0, "idle"))
            assert (known, state) in {(seq, "idle"), (seq, "sent")}
            self.tickets[ticket] = (seq, "sent")
        self.messages += found

    @precondition(lambda self: self.messages)
    @rule(
        nth=st.integers(0, 99), worker=st.integers(0, WORKERS - 1), keep=st.booleans()
    )
    def deliver(self, nth: int, worker: int, keep: bool) -> None:
        """A message arrives: the first, or again, or long after others."""
        ticket, seq = message = self.messages[nth % len(self.messages)]
        if not keep:
            self.messages.remove(message)
        ledger = self.ledgers[worker]
        turn = ledger.tickets.take(
            self.job,
            ticket,
            seq,
            holder=f"w{worker}:1:x",
            hostname=f"w{worker}",
            lease=LEASE,
        )
        known, state = self.tickets[ticket]
        fresh = seq == known and state != "held"
        if not fresh or self.paused or ticket > self.concurrency:
            assert turn is None, "a ticket was taken twice, or against the job's will"
            if fresh:
                self.tickets[ticket] = (seq, "idle")
            return
        assert turn is not None
        assert (turn.hold.seq, turn.layer) == (seq + 1, self.layer)
        self.tickets[ticket] = (seq + 1, "held")
        self.until[ticket] = self.at + timedelta(seconds=LEASE)
        self.holders.append(Holder(turn.hold, ledger))

    @precondition(lambda self: self.holders)
    @rule(who=st.integers(0, 99), how=st.sampled_from(["renew", "hand on", "rest"]))
    def speak(self, who: int, how: str) -> None:
        """A holder is heard, whether it still is one or not."""
        holder = self._pick(who)
        if how == "renew":
            self._heard(holder, holder.ledger.tickets.renew(holder.hold, LEASE))
        else:
            self.let_go(holder, on=how == "hand on")

    def let_go(self, holder: Holder, *, on: bool) -> None:
        """A holder hands its ticket on, or lays it down, with what it has claimed."""
        tickets, hold = holder.ledger.tickets, holder.hold
        went = tickets.release(hold) if on else tickets.set_idle(hold)
        assert went == self._valid(holder)
        if went:
            self.tickets[hold.ticket] = (hold.seq, "sent" if on else "idle")
            self.messages += [(hold.ticket, hold.seq)] * on
            self._free((hold.ticket, hold.seq), died=False)

    @rule(
        seconds=st.sampled_from([0.5, 6.0, 11.0]),
        how=st.sampled_from(["nobody", "lapse", "lapse", "lose", "void"]),
        worker=st.integers(0, WORKERS - 1),
    )
    def pass_time(self, seconds: float, how: str, worker: int) -> None:
        """Time goes on, and somebody looks who is still there."""
        self.at += timedelta(seconds=seconds)
        if how == "lapse":
            self.lapse()
        elif how == "lose":
            self.lose(worker)
        elif how == "void":
            self.void()

    def lapse(self) -> None:
        """Who was not heard for its lease holds nothing."""
        over = {
            ticket
            for ticket, (_, state) in self.tickets.items()
            if state == "held" and self.until[ticket] <= self.at
        }
        ended = self.own.tickets.end_expired(self.job)
        assert ended == ([self.job] if over else [])
        for ticket in over:
            self._end(ticket, died=True)

    def lose(self, worker: int) -> None:
        """A process is known to be dead (it may be mistaken for one)."""
        self.own.tickets.end_holds_of(f"w{worker}:1:")
        for holder in self.holders:
            if holder.hold.holder == f"w{worker}:1:x" and self._valid(holder):
                self._end(holder.hold.ticket, died=True)

    def void(self) -> None:
        """Somebody ends all holds of the job."""
        self.own.tickets.end_all_holds(self.job)
        for ticket, (_, state) in [*self.tickets.items()]:
            if state == "held":
                self._end(ticket, died=False)

    # What happens to the job

    @rule(paused=st.sampled_from([False, False, True]), concurrency=st.integers(1, 5))
    def control(self, paused: bool, concurrency: int) -> None:
        """Somebody wants no more for a while, or more or fewer at once."""
        self.paused, self.concurrency = paused, concurrency
        self._alter("paused", self.paused)
        self._alter("concurrency", concurrency)
        self.advance()

    def advance(self) -> None:
        """The next layer runs when no shard of this one is open."""
        open_ones = [one for one in self._of_layer() if one.status in OPEN]
        if not open_ones and self.layer + 1 < len(SIZES):
            self.layer += 1
            self._alter("layer", self.layer)

    # What happens to shards

    @precondition(lambda self: self.holders)
    @rule(who=st.integers(0, 99), most=st.integers(1, 3), renew=st.booleans())
    def claim(self, who: int, most: int, renew: bool) -> None:
        """A holder gets shards that nobody has; who is none gets nothing."""
        holder = self._pick(who)
        hold, shards = holder.hold, holder.ledger.shards
        found = shards.claim(
            hold,
            layer=self.layer,
            most=most,
            after=holder.after,
            lease=LEASE if renew else None,
        )
        assert len(found) <= most
        valid = self._valid(holder)
        if valid and renew:
            self.until[hold.ticket] = self.at + timedelta(seconds=LEASE)
        assert not (found and (not valid or self.paused))
        pending = shards.pending(self.job, found)
        for nth, shard in enumerate(found):
            known = self.shards[shard.shard]
            assert known.status == 100, "a shard that somebody has was claimed"
            assert known.layer == self.layer
            assert len(found) == 1 or not shard.deaths, "a suspect was not alone"
            assert (shard.cursor, shard.done) == (known.cursor, known.done)
            known.status, known.by = (201 if nth else 202), (hold.ticket, hold.seq)
            left = {place for place, _ in pending.get(shard.shard, ())}
            holder.kept[shard.shard] = Kept(shard, left)
            holder.after = shard.shard
        if valid and not found and not self.paused and hold.ticket <= self.concurrency:
            waiting = self._of_layer(100)
            assert all(one.attempt for one in waiting), "a shard was not found"

    @precondition(lambda self: any(holder.kept for holder in self.holders))
    @rule(
        who=st.integers(0, 99),
        nth=st.integers(0, 99),
        ends=st.lists(st.booleans(), max_size=4),
        status=st.sampled_from(
            [Code.RUNNING, Code.RUNNING, Code.SUCCEEDED, Code.WAITING]
        ),
        twice=st.booleans(),
    )
    def write(
        self, who: int, nth: int, ends: list[bool], status: Code, twice: bool
    ) -> None:
        """A holder writes of one of the shards that it thinks are its own."""
        holders = [holder for holder in self.holders if holder.kept]
        holder = holders[who % len(holders)]
        number = [*holder.kept][nth % len(holder.kept)]
        self._write(holder, number, ends, status, twice=twice)

    def _write(
        self,
        holder: Holder,
        number: int,
        ends: list[bool],
        status: Code,
        *,
        twice: bool = False,
    ) -> None:
        kept = holder.kept[number]
        step = self._step(kept, ends, status)
        word = holder.ledger.shards.write(holder.hold, [step], lease=LEASE)
        known, mine = self.shards[number], (holder.hold.ticket, holder.hold.seq)
        written = self._valid(holder) and known.by == mine and known.status != 100
        assert written or not self._valid(holder) or word.lost == (number,)
        self._heard(holder, word)
        if not written:
            del holder.kept[number]
            return
        assert word.lost == ()
        if step.cursor > known.cursor:
            known.deaths = 0
        known.cursor, known.done, known.failed = step.cursor, step.done, step.failed
        known.status = int(step.status)
        if step.retry:
            assert number == kept.shard.shard
            self.shards[len(self.shards)] = Known(
                layer=known.layer, count=len(step.retry[0]), attempt=known.attempt + 1
            )
        if step.status is Code.WAITING:
            known.by = None
        if twice:
            again = holder.ledger.shards.write(holder.hold, [step], lease=LEASE)
            assert again.held
            assert again.lost == ()
        if step.status is Code.RUNNING:
            self._go_on(kept, step)
        else:
            del holder.kept[number]

    def _step(self, kept: Kept, ends: list[bool], status: Code) -> Step:
        """Return what a runner would write after these items ended so."""
        shard = kept.shard
        if status.ended:  # it ends with its last item
            ends = [*ends, *[True] * shard.count]
        ends = ends[: shard.count - shard.cursor]
        good: list[int] = []
        bad: list[int] = []
        for index, well in enumerate(ends, shard.cursor):
            (good if well else bad).append(shard.place(index))
        retried = shard.attempt + 1 < ATTEMPTS
        pending = kept.pending | ({*bad} if retried else set())
        cursor = shard.cursor + len(ends)
        return Step(
            shard=shard.shard,
            cursor=cursor,
            ahead=cursor,
            done=shard.done + len(good),
            failed=shard.failed + (0 if retried else len(bad)),
            status=status,
            results=encode([[shard.origin, place] for place in good]) if good else None,
            failures=tuple(self._failure(shard, place) for place in bad),
            mended=tuple((shard.origin, place) for place in good if shard.attempt),
            retry=(tuple(sorted(pending)), DELAY) if status.ended and pending else None,
        )

    def _failure(self, shard: Shard, place: int) -> Failure:
        return Failure(
            origin=shard.origin,
            place=place,
            shard=shard.shard,
            layer=shard.layer,
            code=Code.FAILED,
            attempt=shard.attempt + 1,
            type="E",
            message="no",
        )

    def _go_on(self, kept: Kept, step: Step) -> None:
        """The holder knows what it has written."""
        shard = kept.shard
        shard.cursor, shard.done, shard.failed = step.cursor, step.done, step.failed
        if shard.attempt + 1 < ATTEMPTS:
            kept.pending |= {failure.place for failure in step.failures}

    # The oracle

    def _pick(self, who: int) -> Holder:
        return self.holders[who % len(self.holders)]

    def _valid(self, holder: Holder) -> bool:
        hold = holder.hold
        return self.tickets[hold.ticket] == (hold.seq, "held")

    def _heard(self, holder: Holder, word: HoldReply) -> None:
        assert word.held == self._valid(holder), "two hold one ticket, or nobody does"
        if word.held:
            assert (word.layer, word.paused) == (self.layer, self.paused)
            self.until[holder.hold.ticket] = self.at + timedelta(seconds=LEASE)

    def _end(self, ticket: int, *, died: bool) -> None:
        seq, _ = self.tickets[ticket]
        self.tickets[ticket] = (seq + 1, "idle")
        self._free((ticket, seq), died=died)

    def _free(self, by: tuple[int, int], *, died: bool) -> None:
        for known in self.shards.values():
            if known.by == by and known.status in {201, 202}:
                known.status, known.by = 100, None
                known.deaths += died

    def _of_layer(self, *statuses: int) -> list[Known]:
        return [
            one
            for one in self.shards.values()
            if one.layer == self.layer and (not statuses or one.status in statuses)
        ]

    def _alter(self, column: str, value: object) -> None:
        self._ask(
            f"update pecker_jobs set {column} = %s where job = %s",  # noqa: S608
            value,
            self.job,
        )

    def _ask(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        found = self.databases[-1]._connected().execute(statement, params)
        return found.fetchall() if found.description else []

    def _learn_tickets(self) -> None:
        self.tickets = {
            ticket: (seq, state)
            for ticket, seq, state in self._ask(
                "select ticket, seq, state from pecker_tickets where job = %s", self.job
            )
        }

    @invariant()
    def the_tables_say_the_same(self) -> None:
        """Every shard, ticket and layer is as the oracle has it."""
        shards = self._ask(
            "select shard, status, case when status in (201, 202) then ticket end,"
            " case when status in (201, 202) then epoch end, cursor, done, failed,"
            " deaths, attempt, hi from pecker_shards where job = %s order by shard",
            self.job,
        )
        assert shards == [
            (
                number,
                one.status,
                *(one.by if one.by and one.status in {201, 202} else (None, None)),
                one.cursor,
                one.done,
                one.failed,
                one.deaths,
                one.attempt,
                one.count,
            )
            for number, one in sorted(self.shards.items())
        ]
        layers = self._ask(
            "select layer, shards, open, done, failed from pecker_layers"
            " where job = %s order by layer",
            self.job,
        )
        for layer, count, open_ones, done, failed in layers:
            mine = [one for one in self.shards.values() if one.layer == layer]
            ended = [one for one in mine if one.status not in OPEN]
            assert (count, open_ones) == (len(mine), len(mine) - len(ended))
            assert done == sum(one.done for one in ended)
            assert failed == sum(one.failed for one in ended)
        before = self.tickets
        self._learn_tickets()
        assert self.tickets == before

    def teardown(self) -> None:
        """All is run to its end: nothing was lost, nothing was done twice."""
        if not hasattr(self, "holders"):
            return
        self.paused = False
        self._alter("paused", value=False)
        self.void()
        for _ in range(200):
            if not any(one.status in OPEN for one in self.shards.values()):
                break
            self.advance()
            self.at += timedelta(seconds=max(DELAY, RESEND))
            self.publish(None)
            while self.messages:
                self.deliver(0, 0, keep=False)
            for nth, holder in enumerate(self.holders):
                if not self._valid(holder):
                    continue
                self.claim(nth, 3, renew=True)
                for number in [*holder.kept]:
                    if self.shards[number].by == (holder.hold.ticket, holder.hold.seq):
                        self._write(holder, number, [False], Code.SUCCEEDED)
                self.let_go(holder, on=False)
        self.the_tables_say_the_same()
        self._count_items()

    def _count_items(self) -> None:
        """Each item has one result, or one error."""
        bodies = self._ask("select body from pecker_results where job = %s", self.job)
        ended = Counter(tuple(item) for (body,) in bodies for item in decode(body))
        errors = self._ask(
            "select origin, place from pecker_item_errors where job = %s", self.job
        )
        sizes = [count for row in SIZES for count in row]
        every = {(nth, place) for nth, n in enumerate(sizes) for place in range(n)}
        assert ended + Counter(errors) == Counter(every)
        counted = sum(one.done + one.failed for one in self.shards.values())
        assert counted == len(every)


def test_never_two_holders_and_never_a_lost_item(databases: list[Database]) -> None:
    """Whoever does what when, and however late."""

    class Machine(Ledgers):
        pass

    Machine.databases = databases
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples(40),
            stateful_step_count=40,
            # To find the shortest history takes longer than a test may: it would end
            # without a word. Add Phase.shrink by hand.
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )

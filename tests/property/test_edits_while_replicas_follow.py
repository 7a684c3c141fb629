"""Edits of every kind, at any instant, while two replicas follow: against an oracle.

Real SQL, instants of the test's choosing. Replicas freeze and go on, lose their
connection, and edits stay open in transactions that commit in any order. The oracle
knows what is committed: which slots the definition in force has, and its arguments.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import psycopg
import pytest
from celery import Celery

from celery_pecker.kernel.adapters import adapter_of, drive
from celery_pecker.kernel.adapters.adapter import Statement
from celery_pecker.kernel.clock import to_us
from celery_pecker.schedules.stored.edit_plan import Edit
from celery_pecker.schedules.stored.edits import Edits
from celery_pecker.schedules.stored.timings import Timings
from celery_pecker.testing.manual import START, ManualClock, ManualPecker
from tests.integration.schedules.stored import Destination, edit, follower
from tests.profiles import examples

STEP_US = 250_000
NAMES = ("a", "b", "c")
PERIODS = (0.2, 0.5, 1, 1.5, 3)
SLOT = tuple[str, int]
ACTIONS = 200
WHO = Edit(by="test")


@dataclass
class Truth:
    """What is committed of a schedule."""

    period_us: int
    anchor_us: int
    args: int
    stands: bool = True
    sure_us: int = 0
    """Slots up to here were claimed, or may have gone with an edit."""


@dataclass
class Open:
    """An edit whose transaction is open."""

    connection: psycopg.Connection
    truth: Truth
    lost_us: int
    """The last slot that was claimed before it."""
    anchors: bool = True


@dataclass
class Found:
    """What is to be sent, and was."""

    owed: set[SLOT] = field(default_factory=set)
    sent: set[SLOT] = field(default_factory=set)


class TimedEdits(Edits):
    """Edits at the time of a clock."""

    def __init__(self, clock: ManualClock) -> None:
        app = Celery("edits", set_as_current=False)
        super().__init__("public", app_name="edits", timings=Timings(app))
        self._clock = clock

    def _statement(self, label: str, **params: object) -> Statement:
        now = {"now": self._clock.now()} if "now" in params else {}
        return super()._statement(label, **params | now)


class World:
    """Two replicas, three names, and people who edit."""

    def __init__(self, dsn: str, seed: int) -> None:
        self.dsn = dsn
        self.dice = random.Random(seed)
        self.stack = ExitStack()
        self.sql = self.stack.enter_context(psycopg.connect(dsn, autocommit=True))
        self.clock = ManualClock(START)
        self.replicas: list[tuple[ManualPecker, Destination]] = [
            self.stack.enter_context(follower(dsn, self.clock)) for _ in range(2)
        ]
        self._edits = TimedEdits(self.clock)
        self.frozen: set[int] = set()
        self.truth: dict[str, Truth] = {}
        self.open: dict[str, Open] = {}
        self.found = Found()
        self.edits = 0
        self.renamed = 0

    def act(self) -> None:
        """Do one thing that may happen; half of the time only time goes on."""
        what = self.dice.choices(
            [
                self.pass_time,
                self.store,
                self.change_arguments,
                self.remove,
                self.rename,
                self.end_a_transaction,
                self.freeze_or_go_on,
                self.lose_the_connection,
            ],
            [12, 3, 4, 1, 2, 3, 2, 1],
        )[0]
        what()

    def end(self) -> int:
        """All that was due is sent, once; return how many slots that were."""
        for name in [*self.open]:
            self._end(name, commit=True)
        self.frozen.clear()
        for _ in range(8):
            self._pass(STEP_US)
        owed = self._owed()
        self.stack.close()
        assert not owed - self.found.sent, "slots that nobody ran"
        return len(owed)

    def pass_time(self) -> None:
        """Time goes on."""
        for _ in range(self.dice.randint(1, 6)):
            self._pass(STEP_US)

    def store(self) -> None:
        """A new name, another period, or a name that returns."""
        self._edit(self.dice.choice(NAMES), self.dice.choice(PERIODS), anchor=True)

    def change_arguments(self) -> None:
        """The same slots, with other arguments."""
        name = self.dice.choice(NAMES)
        known = self.truth.get(name)
        if known is not None and known.stands:
            period = known.period_us / 1_000_000
            self._edit(name, period, anchor=False)

    def remove(self) -> None:
        """It runs no more."""
        name = self.dice.choice(NAMES)
        if name in self.truth:
            self._edit(name, 1, anchor=True, removed=True)

    def rename(self) -> None:
        """It goes on under a name that is free; some are rolled back."""
        old = self.dice.choice([*self.truth] or [""])
        new = self.dice.choice((*NAMES, "d"))
        stands = {name for name, truth in self.truth.items() if truth.stands}
        if old not in stands or new in stands or {old, new} & {*self.open}:
            return
        truth, claimed_us = self.truth[old], self._executed_us(old)
        if claimed_us + truth.period_us <= self._executed_us(new):
            return  # it is asked for, under another instant
        with psycopg.connect(self.dsn) as connection:
            drive(adapter_of(connection), lambda _: self._edits.rename(old, new, WHO))
            if self.dice.random() < 0.2:
                connection.rollback()
                return
        self.renamed += 1
        self.found.owed |= self._slots(old, truth, claimed_us)
        self.truth[old] = replace(truth, stands=False)
        self.truth[new] = replace(truth, anchor_us=claimed_us)

    def _executed_us(self, name: str) -> int:
        row = self.sql.execute(
            "select (extract(epoch from executed_at) * 1000000)::bigint"
            " from pecker_tasks where name = %s",
            [name],
        ).fetchone()
        return 0 if row is None else int(row[0])

    def end_a_transaction(self) -> None:
        """In any order; some are rolled back."""
        if self.open:
            self._end(self.dice.choice([*self.open]), commit=self.dice.random() < 0.8)

    def freeze_or_go_on(self) -> None:
        """A process stands still; the other one is there."""
        replica = self.dice.randint(0, 1)
        if replica in self.frozen or not self.frozen:
            self.frozen ^= {replica}

    def lose_the_connection(self) -> None:
        """The next one may lead to another server: all is read again."""
        self.dice.choice(self.replicas)[0]._database.close()

    def _edit(
        self,
        name: str,
        period: float,
        *,
        anchor: bool,
        removed: bool = False,
    ) -> None:
        if name in self.open:
            return
        connection = self.stack.enter_context(psycopg.connect(self.dsn))
        self.edits += 1
        before, now_us = self.truth.get(name), to_us(self.clock.now())
        edit(
            connection,
            name,
            {"every": period},
            clock=self.clock,
            args=[self.edits],
            anchor=anchor,
            removed=removed,
            misfire="catch_up",
            catch_up=1_000,
        )
        claimed_us = self._executed_us(name) or now_us
        anchor_us = max(claimed_us, now_us)
        if before is not None and not anchor:
            anchor_us = before.anchor_us
        truth = Truth(
            period_us=round(period * 1_000_000),
            anchor_us=anchor_us,
            args=self.edits,
            stands=not removed,
        )
        self.open[name] = Open(connection, truth, claimed_us, anchor)
        if self.dice.random() < 0.7:  # the others stay open
            self._end(name, commit=True)

    def _end(self, name: str, *, commit: bool) -> None:
        one = self.open.pop(name)
        if not commit:
            one.connection.rollback()
        else:
            one.connection.commit()
            before = self.truth.get(name)
            if before is not None and before.stands and one.anchors:
                # What was due and not claimed goes with this plain edit (that of the
                # API files it as a run that is asked for).
                self.found.owed |= self._slots(name, before, one.lost_us)
            self.truth[name] = one.truth
        one.connection.close()

    def _pass(self, us: int) -> None:
        self.clock.advance_us(us)
        for number, (pecker, destination) in enumerate(self.replicas):
            if number in self.frozen:
                continue
            before = len(pecker.publisher.sent)
            pecker.turn()
            for one in pecker.publisher.sent[before:]:
                self._judge(one.name, str(one.header["due_at"]), destination)

    def _judge(self, name: str, due_at: str, destination: Destination) -> None:
        """Look at one run: of a slot of what is committed, with its arguments, once."""
        due_us = to_us(type(START).fromisoformat(due_at))
        assert (name, due_us) not in self.found.sent, "a slot ran twice"
        self.found.sent.add((name, due_us))
        truth = self.truth[name]
        assert truth.stands, "a removed schedule ran"
        assert due_us > truth.anchor_us
        assert (due_us - truth.anchor_us) % truth.period_us == 0, "no slot of it"
        assert destination.built[name].args == (truth.args,), "an older definition ran"

    def _slots(self, name: str, truth: Truth, until_us: int) -> set[SLOT]:
        first_us = truth.anchor_us + truth.period_us
        return {
            (name, due_us) for due_us in range(first_us, until_us + 1, truth.period_us)
        }

    def _owed(self) -> set[SLOT]:
        """Return all that had to be sent: up to the last step but some."""
        until_us = to_us(self.clock.now()) - 4 * STEP_US
        owed = set(self.found.owed)
        for name, truth in self.truth.items():
            if truth.stands:
                owed |= self._slots(name, truth, until_us)
        return owed


@pytest.mark.parametrize("seed", range(examples(5)))
def test_no_edit_doubles_or_loses_a_slot(dsn: str, seed: int) -> None:
    """Nor does a run start by a definition that is older than the committed one."""
    world = World(dsn, seed)
    try:
        for _ in range(ACTIONS):
            world.act()
        assert world.end() > ACTIONS // 2
        assert world.renamed
    finally:
        world.stack.close()

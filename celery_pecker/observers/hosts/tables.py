"""What a host asks of the tables, as calls."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from celery_pecker.kernel.database import Database
from celery_pecker.observers import placement
from celery_pecker.observers.kind import Observer
from celery_pecker.observers.lease import Claimed
from celery_pecker.observers.model import Report

AT_ONCE = 1_000
"""Rows of one claim at most (I9)."""
READ_AT_ONCE = 100
"""Of arguments and cursors, up to 20 kB each."""
SHOWN = 2_000
"""Characters of an error that are kept."""


class Pulse(NamedTuple):
    """What a host learns when it renews its lease."""

    state: str | None
    """None: this host was buried."""
    buried: Sequence[str]
    """Names of the hosts that it buried."""
    orphans: bool
    orders: bool
    waiting: bool
    draining: bool
    """Whether another host gives away what it has."""
    notices: bool
    """Whether there are signatures to send."""


class LifeOrder(NamedTuple):
    """What people asked of an observer."""

    id: int
    epoch: int
    stop: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a host reports of a life."""

    id: int
    epoch: int
    report: Report
    delay: float = 0.0
    failures: int | None = None
    error: str | None = None


class Notice(NamedTuple):
    """A signature that is to be sent."""

    id: int
    signature: str
    """As JSON."""
    event: str
    """What it is called with, as JSON."""
    tries: int


class ReportResult(NamedTuple):
    """What became of a report."""

    id: int
    done: bool
    """False: another life has begun; this one's report changes nothing."""
    epoch: int | None


@dataclass
class Tables:
    """The tables as one host sees them."""

    database: Database
    kinds: Mapping[str, Observer]
    _: KW_ONLY
    follows: bool = True
    """Whether a silent host of the same name is the life before, and dead."""
    drains: bool = False
    """Whether the process before was drained, and died."""
    node: str = ""
    """Id of this life of the host."""

    def join(  # what a host is
        self,
        node: str,
        *,
        name: str,
        pid: int,
        capacity: int,
        ttl: float,
        drains: bool = False,
    ) -> None:
        """Begin a life; ``drains``: the one before was asked to take nothing more."""
        first = not self.node
        beside = not self.follows and first
        # The life before another one of this process was its own, and is buried.
        self.follows = self.follows and first
        self.node = node
        kinds = [*self.kinds]
        options = [self.kinds[kind].options for kind in kinds]
        self.database.change(
            "join_observer_nodes",
            node=node,
            name=name,
            pid=pid,
            capacity=capacity,
            ttl=ttl,
            drains=drains or (self.drains and first),
            beside=beside,
            kinds=kinds,
            weights=[one.weight for one in options],
            parked=[one.on_parked for one in options],
            moved=[one.on_moved for one in options],
        )

    def pulse(self) -> Pulse:
        """Renew the lease; return what there is to do."""
        [pulse] = self.database.read(
            Pulse,
            "pulse_observer_node",
            node=self.node,
            kinds=[*self.kinds],
            follows=self.follows,
        )
        return pulse

    def free(self) -> None:
        """Let what dead hosts held wait for a host."""
        while self.database.column("free_observers", most=AT_ONCE)[0] >= AT_ONCE:
            pass

    def survey(self) -> placement.Survey:
        """Return how the load lies."""
        seen = self.database.read(placement.seen, "survey_observers")
        return placement.survey_of(seen)

    def claim(self, room: int, most: int) -> list[Claimed]:
        """Take what waits, up to a weight of ``room``."""
        rows = self.database.run(
            "claim_observers",
            node=self.node,
            kinds=[*self.kinds],
            room=room,
            most=min(most, AT_ONCE),
        )
        return self._read({ident: moved for ident, _, moved in rows})

    def retake(self, running: Iterable[int], most: int) -> list[Claimed]:
        """Take anew what this host holds and does not run."""
        rows = self.database.run(
            "retake_observers",
            node=self.node,
            running=[*running],
            most=min(most, AT_ONCE),
        )
        return self._read({ident: False for ident, _ in rows})

    def epochs(self) -> int:
        """Return the sum of the epochs of what this host holds by the table."""
        [(total,)] = self.database.run("sum_observer_epochs", node=self.node)
        return int(total)

    def lost(self, lives: Mapping[int, int]) -> set[int]:
        """Return the ids of those lives, by their epochs, that the table lacks."""
        ids = [*lives]
        lost: set[int] = set()
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            epochs = [lives[ident] for ident in some]
            lost.update(
                self.database.column(
                    "find_lost_lives", node=self.node, ids=some, epochs=epochs
                )
            )
        return lost

    def read(self, ids: Iterable[int]) -> list[Claimed]:
        """Return observers that this host holds."""
        return self._read(dict.fromkeys(ids, False))

    def orders(self) -> Sequence[LifeOrder]:
        """Return what people asked of what this host holds."""
        return self.database.read(
            LifeOrder, "read_observer_orders", node=self.node, most=AT_ONCE
        )

    def report(self, outcomes: Sequence[Outcome]) -> Sequence[ReportResult]:
        """Report what became of lives; return those whose report is done with."""
        return self.database.read(
            ReportResult,
            "report_observers",
            node=self.node,
            ids=[one.id for one in outcomes],
            epochs=[one.epoch for one in outcomes],
            reports=[str(one.report) for one in outcomes],
            delays=[one.delay for one in outcomes],
            failures=[one.failures for one in outcomes],
            errors=[_shown(one.error) for one in outcomes],
        )

    def save(self, cursors: Mapping[int, tuple[int, str]]) -> set[int]:
        """Write cursors; return the ids of those that are written."""
        return {
            *self.database.column(
                "save_observer_states",
                node=self.node,
                ids=[*cursors],
                epochs=[epoch for epoch, _ in cursors.values()],
                states=[state for _, state in cursors.values()],
            )
        }

    def notices(self, most: int) -> Sequence[Notice]:
        """Take signatures that are to be sent; no other host does for a while."""
        return self.database.read(Notice, "take_observer_notices", most=most)

    def notice_sent(self, ident: int) -> None:
        """Forget a signature that was sent."""
        self.database.change("close_observer_notice", id=ident)

    def notice_failed(self, ident: int, error: str) -> None:
        """Keep why a signature was not sent."""
        self.database.change("fail_observer_notice", id=ident, error=_shown(error))

    def _read(self, moved: Mapping[int, bool]) -> list[Claimed]:
        def claimed(**columns: Any) -> Claimed:
            return Claimed(**columns, node=self.node, moved=moved[columns["id"]])

        ids = [*moved]
        rows: list[Claimed] = []
        for start in range(0, len(ids), READ_AT_ONCE):
            rows += self.database.read(
                claimed,
                "read_observers",
                node=self.node,
                ids=ids[start : start + READ_AT_ONCE],
            )
        return rows


def _shown(error: str | None) -> str | None:
    return None if error is None else error[:SHOWN]

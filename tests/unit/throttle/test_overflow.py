"""What a worker does with more than it may hold, and to keep what it holds.

The broker is played: what real ones make of it is in tests/integration/throttle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker import state as _state

from celery_pecker.kernel.clock import now
from throttle.admission import Accounts
from throttle.hold import Hold
from throttle.model import Limit, Target
from throttle.settings import MESSAGE_BYTES, Settings
from throttle.worker import overflow
from throttle.worker.brokers.broker import Callbacks, Held
from throttle.worker.held_tasks import HeldTasks, scheduled
from throttle.worker.overflow import BACK, SLICE, STANDSTILL, Overflow

state: Any = _state
LIMITS = {"main": Limit(database="main", operations=100.0, queues=("only",))}
MOST = 4
LARGE = 100 * MESSAGE_BYTES


class Request:
    """What a message in hand is known by."""

    def __init__(self, queue: str, size: int = 1) -> None:
        self.id = "x"
        self.queue = queue
        self.body = b"x" * size
        self.task = SimpleNamespace(name="t")
        self.expires = None
        self.delivery_info: dict[str, Any] = {}


class Remembered(HeldTasks):
    """What is held, and was forgotten."""

    forgotten: list[Held]

    def forget(self, held: Held) -> None:
        """The request is no longer ours."""
        super().forget(held)
        self.forgotten.append(held)


class Played:
    """A broker that does what it is asked, and remembers it."""

    elastic = True
    hold_timeout: float | None = None
    renewal: float | None = None
    refuses = False
    answers = True

    def __init__(self, told: Callbacks) -> None:
        self.told = told
        self.renewed: list[Sequence[Held]] = []
        self.back: list[Held] = []
        self.parked: list[Held] = []
        self.paused: list[str] = []
        self.attended: Collection[str] = ()

    def renew(self, held: Sequence[Held]) -> bool:
        """The broker waits again."""
        self.renewed.append(held)
        return self.answers

    def hand_back(self, held: Held) -> None:
        """It is in its queue again."""
        self.back.append(held)
        self.told.gone(held)

    def park(self, database: str, held: Sequence[Held]) -> None:
        """They are in the parking queue."""
        del database
        for one in held:
            if self.refuses:
                self.told.kept(one)
                continue
            self.parked.append(one)
            self.told.parked(one)

    def pause(self, queue: str) -> None:
        """Nothing more is taken from it."""
        self.paused.append(queue)

    def attend(self, databases: Collection[str]) -> None:
        """These parking queues are consumed."""
        self.attended = databases

    def queue_of(self, request: Request) -> str:
        """Return where it came from."""
        return request.queue

    def was_parked(self, request: Request) -> bool:
        """Say that nothing was."""
        del request
        return False


class Bench:
    """An overflow with its hold, and the turns of a loop."""

    def __init__(
        self, most: int = MOST, *, hold_bytes: int | None = None, **broker: Any
    ) -> None:
        self.now = 100.0
        self.soon: list[Callable[[], None]] = []
        settings = Settings(
            limits=LIMITS, hold_bytes=hold_bytes or most * MESSAGE_BYTES
        )
        self.hold: Hold[Held] = Hold(
            LIMITS, max_messages=settings.hold_messages, max_bytes=settings.hold_bytes
        )
        self.options = broker
        consumer: Any = SimpleNamespace(
            call_soon=self.soon.append,
            hub=object(),
            timer=SimpleNamespace(
                call_repeatedly=lambda *_: None, call_after=lambda *_: None
            ),
        )
        self.held = Remembered(consumer, self.hold, Accounts(LIMITS), turn=self.turn)
        self.held.forgotten = []
        self.overflow = Overflow(
            settings,
            self.held,
            clock=lambda: self.now,
        )
        self.broker: Any = self.overflow.begin(consumer)
        self.turn()

    def make(self, consumer: object, settings: object, told: Callbacks) -> Played:
        """Play the broker of a connection."""
        del consumer, settings
        played = Played(told)
        vars(played).update(self.options)
        return played

    def come(
        self, count: int, *, queue: str = "mixed", age: float = 0, size: int = 1
    ) -> list[Held]:
        """So many may not pass; those that are to be held are."""
        since = now().timestamp() - age
        came = [
            Held(request=Request(queue, size), since=since, target=Target("main"))
            for _ in range(count)
        ]
        for one in came:
            scheduled.add(one.request)
            if not self.overflow.takes(one):
                self.hold.put(one.target, one, size=one.size)
        return came

    def turn(self) -> None:
        """The loop turns until nothing is to be done soon."""
        while self.soon:
            self.soon.pop(0)()

    def later(self, seconds: float) -> None:
        """Time passes, second by second, as on the consumer's timer."""
        for _ in range(round(seconds)):
            self.now += 1
            self.overflow._watch()
            self.turn()


@pytest.fixture
def benches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Bench]]:
    """Give a function that makes one, with a broker that is played."""

    class Ready(Bench):
        def __init__(self, *args: Any, **options: Any) -> None:
            monkeypatch.setattr(overflow, "broker_of", self.make)
            super().__init__(*args, **options)

    yield Ready
    state.reset_state()


def test_what_is_too_much_is_parked(benches: Callable[..., Bench]) -> None:
    """The hold is bounded: what comes when it is full makes room for others."""
    bench = benches()
    came = bench.come(MOST + 3)
    bench.turn()
    assert bench.hold.items() == came[:MOST]
    assert bench.broker.parked == bench.held.forgotten == came[MOST:]
    assert bench.overflow.parked("main") == 3


def test_bytes_bound_what_is_held_as_messages_do(
    benches: Callable[..., Bench],
) -> None:
    """Beyond ``throttle_hold_bytes`` it is parked, and is back below half of them."""
    bench = benches(hold_bytes=4 * LARGE)
    came = bench.come(7, size=LARGE)
    bench.turn()
    assert bench.broker.parked == came[4:]
    assert bench.broker.attended == []
    for one in came[:2]:
        bench.held.forget(one)
    bench.later(1)
    assert bench.broker.attended == []
    bench.held.forget(came[2])
    bench.later(1)
    assert bench.broker.attended == ["main"]


def test_what_cannot_be_taken_beside_is_parked_at_once(
    benches: Callable[..., Bench],
) -> None:
    """Held within the prefetch it would keep all others out."""
    bench = benches(elastic=False)
    came = bench.come(2)
    bench.turn()
    assert bench.broker.parked == came


def test_a_queue_of_one_database_is_paused_and_nothing_parked(
    benches: Callable[..., Bench],
) -> None:
    """Its messages wait where they are; what was on its way is held."""
    bench = benches()
    bench.come(MOST + 3, queue="only")
    bench.turn()
    assert bench.broker.paused == ["only"]
    assert (len(bench.hold), bench.broker.parked) == (MOST + 3, [])


def test_what_left_meanwhile_is_not_parked(benches: Callable[..., Bench]) -> None:
    """Revoked while it waited to be parked: from there it would come again."""
    bench = benches()
    *_, gone, stays = bench.come(MOST + 2)
    scheduled.discard(gone.request)
    bench.turn()
    assert bench.broker.parked == [stays]


def test_all_that_is_held_is_renewed_in_time(benches: Callable[..., Bench]) -> None:
    """Slice by slice, each once a period."""
    bench = benches(most=1000, renewal=15.0)
    came = bench.come(2 * SLICE + 1)
    bench.later(14)
    assert bench.broker.renewed == []
    bench.later(2)
    renewed = [one for some in bench.broker.renewed for one in some]
    assert sorted(map(id, renewed)) == sorted(map(id, came))
    assert max(map(len, bench.broker.renewed)) == SLICE


def test_after_a_standstill_all_is_renewed_before_anything_is_let_through(
    benches: Callable[..., Bench],
) -> None:
    """What another worker has by now is told then, and must not run here."""
    bench = benches(renewal=15.0)
    came = bench.come(3)
    bench.now += 14
    assert bench.overflow.look()
    assert bench.broker.renewed == []
    bench.now += 16
    assert bench.overflow.look()
    assert bench.broker.renewed == [came]


def test_after_a_standstill_nothing_is_let_through_without_an_answer(
    benches: Callable[..., Bench],
) -> None:
    """Each look asks once more, until Redis has said which are ours."""
    bench = benches(renewal=15.0, answers=False)
    came = bench.come(3)
    bench.now += 16
    assert not bench.overflow.look()
    bench.now += 0.05
    assert not bench.overflow.look()
    bench.broker.answers = True
    assert bench.overflow.look()
    assert bench.overflow.look()
    assert bench.broker.renewed == [came] * 3


def test_after_a_standstill_the_loop_reads_first_where_nothing_is_renewed(
    benches: Callable[..., Bench],
) -> None:
    """RabbitMQ may have closed the connection: then nothing of it is held any more."""
    bench = benches(hold_timeout=100.0)
    bench.come(3)
    bench.now += 0.05
    assert bench.overflow.look()
    bench.now += STANDSTILL + 1
    assert not bench.overflow.look()
    bench.now += 0.05
    assert bench.overflow.look()


def test_what_is_held_too_long_goes_back_in_time(
    benches: Callable[..., Bench],
) -> None:
    """Before the broker closes the channel; a part at a time, and no other."""
    bench = benches(most=1000, hold_timeout=100.0)
    late = bench.come(BACK + 1, age=101)
    early = bench.come(2, age=50)
    bench.later(10)
    assert len(bench.broker.back) == BACK
    bench.later(1)
    assert bench.broker.back == bench.held.forgotten == late
    assert bench.hold.items() == early


def test_what_cannot_be_parked_is_held_and_tried_again(
    benches: Callable[..., Bench],
) -> None:
    """In the hold it may go as its database opens; who went is parked no more."""
    bench = benches(refuses=True)
    held = bench.come(MOST)
    more = bench.come(3)
    bench.turn()
    assert bench.hold.items() == [*held, *more]
    assert not bench.held.forgotten
    bench.hold.remove(more[0])
    scheduled.discard(more[0].request)
    bench.broker.refuses = False
    bench.later(1)
    assert bench.broker.parked == more[1:]
    assert bench.hold.items() == held

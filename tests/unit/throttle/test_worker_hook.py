"""The hook's order of things, with a consumer and accounts that a test plays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker import state as _state

from celery_pecker.kernel.clock import now
from throttle.hold import Hold
from throttle.model import Admission, Amount, Limit, Target
from throttle.settings import Settings
from throttle.worker.held_tasks import PERIOD, scheduled
from throttle.worker.hook import Hook
from throttle.worker.pool import RUN

state: Any = _state
LIMITS = {"main": Limit(database="main", operations=100.0)}


class Request:
    """What the hook looks at."""

    def __init__(self, name: str, database: str | None = "main") -> None:
        self.id = name
        self.database = database
        self.task = SimpleNamespace(name="t")
        self.body = b"x"
        self.expires: datetime | None = None
        self.dead = False
        self.time_start = None
        self.delivery_info: dict[str, Any] = {"priority": None}
        self.request_dict: dict[str, Any] = {"delivery_info": self.delivery_info}

    def revoked(self) -> bool:
        """Say whether Celery finds it revoked or expired."""
        return self.dead


class Accounts:
    """Admits as many as a test says."""

    def __init__(self) -> None:
        self.room = 0
        self.forgotten: list[int] = []
        self.news = True

    def admit(self, target: Target, task: str, run: int) -> Admission:
        """Take one of the room."""
        del target, task, run
        if not self.room:
            return Admission(False, 0.0, 0.1)
        self.room -= 1
        return Admission(True, float(self.room), 0.0)

    def enter(self, target: Target, task: str, run: int) -> bool:
        """Take one of the room."""
        return self.admit(target, task, run).admitted

    def opened(self) -> bool:
        """Say what a test says."""
        return self.news

    def over(self, ended: Collection[int], unstarted: Collection[int]) -> None:
        """These have ended, and those did not run."""
        del ended
        self.forgotten += unstarted

    def cost(self, target: Target, task: str) -> Amount:
        """Return one operation."""
        del target, task
        return Amount(1.0)


class Bench:
    """A hook, what went through it, and the timers that it set."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.accounts = Accounts()
        self.hold: Hold[Any] = Hold(LIMITS, max_messages=10, max_bytes=1000)
        self.through: list[str] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.lost: list[str] = []
        self.soon: list[Callable[[], None]] = []
        runtime: Any = SimpleNamespace(
            settings=Settings(limits=LIMITS),
            hold=self.hold,
            accounts=self.accounts,
            targets={},
            target=lambda one, _: one.database and Target(one.database),
        )
        consumer = SimpleNamespace(
            on_task_request=lambda one: self.through.append(one.id),
            on_connection_error_after_connected=lambda _: self.lost.append("celery's"),
            disable_rate_limits=True,
            update_strategies=lambda: None,
            task_buckets={},
            hub=SimpleNamespace(call_soon=self.soon.append),
            qos=None,
            timer=SimpleNamespace(
                call_after=lambda delay, call: self.timers.append((delay, call))
            ),
        )
        self.hook = Hook(consumer, runtime, clock)
        self.consumer = consumer
        self.runtime = runtime

    def come(self, *names: str, database: str | None = "main") -> list[Request]:
        """These tasks come."""
        all_of_them = [Request(name, database) for name in names]
        for one in all_of_them:
            state.task_reserved(one)
            self.consumer.on_task_request(one)
        return all_of_them

    def fire(self) -> None:
        """The oldest timer fires."""
        self.timers.pop(0)[1]()


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Give one whose clock stands still."""
    yield Bench(lambda: 0.0)
    state.reset_state()


def test_what_has_no_database_passes(bench: Bench) -> None:
    """Nobody is asked."""
    bench.come("a", database=None)
    assert bench.through == ["a"]


def test_what_is_known_of_a_task_is_not_asked_for_each_message(bench: Bench) -> None:
    """Most tasks touch no database that has a limit."""
    bench.runtime.targets["t"] = None
    bench.runtime.target = None
    bench.come("a")
    bench.runtime.targets["t"] = Target("main")
    bench.come("b")
    assert bench.through == ["a"]
    assert [one.request.id for one in bench.hold.items()] == ["b"]


def test_a_newcomer_does_not_overtake(bench: Bench) -> None:
    """There is room again; those that wait go first, in their order."""
    bench.come("a", "b")
    bench.accounts.room = 3
    bench.come("c")
    assert bench.through == []
    bench.fire()
    assert bench.through == ["a", "b", "c"]
    bench.accounts.room = 1
    bench.come("d")
    assert bench.through == ["a", "b", "c", "d"]


def test_one_timer_while_something_waits_and_none_otherwise(bench: Bench) -> None:
    """However many wait."""
    bench.come("a", "b", "c")
    assert [delay for delay, _ in bench.timers] == [PERIOD]
    bench.accounts.room = 2
    bench.fire()
    assert [delay for delay, _ in bench.timers] == [PERIOD]
    bench.accounts.room = 1
    bench.fire()
    assert bench.timers == []


def test_the_loop_is_woken_when_the_exchange_has_heard(bench: Bench) -> None:
    """What waits for a database that has opened does not wait for the timer."""
    bench.hook.collect()
    assert bench.soon == [], "nothing is held"
    bench.come("a", "b", "c")
    bench.accounts.room = 2
    bench.hook.collect()
    bench.soon.pop()()
    assert bench.through == ["a", "b"]
    assert [delay for delay, _ in bench.timers] == [PERIOD], "one timer, still"
    bench.accounts.room = 1
    bench.fire()
    bench.hook.collect()
    assert (bench.through, bench.soon) == (["a", "b", "c"], [])


@pytest.mark.parametrize("first", ["the exchange", "the timer", "a newcomer"])
def test_whoever_turns_first_after_a_standstill_lets_nothing_through(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Messages may be another worker's by now: the broker is asked before."""
    known = False
    monkeypatch.setattr(bench.hook.overflow, "look", lambda: known)
    bench.come("a", "b")
    bench.accounts.room = 9
    if first == "the exchange":
        bench.hook.collect()
        bench.soon.pop()()
    elif first == "the timer":
        bench.fire()
    else:  # it brings the token of a `rate_limit`, which is for the first in line
        for one in list(bench.hold.take("main", lambda _: Admission(True, 0.0, 0.0))):
            bench.hook._pace.add(one)
        bench.come("c")
    assert (bench.through, bench.soon) == ([], [])
    assert [delay for delay, _ in bench.timers] == [PERIOD], "it is looked at soon"
    known = True
    bench.fire()
    assert set(bench.through) >= {"a", "b"}


def test_the_loop_is_left_alone_when_nothing_has_opened(bench: Bench) -> None:
    """What a share that stays the same lets in comes in by the timer."""
    bench.come("a")
    bench.accounts.news = False
    bench.hook.collect()
    assert bench.soon == []
    bench.accounts.news = True
    bench.hook.collect()
    assert len(bench.soon) == 1


def test_held_tasks_are_scheduled_and_not_reserved(bench: Bench) -> None:
    """Reserved ones make the autoscaler grow the pool; released ones are reserved."""
    [one] = bench.come("a")
    assert one in scheduled
    assert one not in state.reserved_requests
    bench.accounts.room = 1
    bench.fire()
    assert one not in scheduled
    assert one in state.reserved_requests


def test_a_long_release_lets_the_loop_go_on() -> None:
    """On the solo pool a task runs within it: one at a time, without a pause."""
    times = iter(range(10_000))
    bench = Bench(lambda: float(next(times)))
    bench.come("a", "b")
    bench.accounts.room = 2
    bench.fire()
    assert bench.through == ["a"]
    assert [delay for delay, _ in bench.timers] == [0.0]
    bench.fire()
    assert bench.through == ["a", "b"]
    state.reset_state()


def test_at_a_loss_all_is_forgotten_before_celery_closes(bench: Bench) -> None:
    """A timer that fires now must not start what goes back to its queue."""
    bench.come("a", "b")
    held: list[int] = []
    bench.hook._lose = lambda _: held.append(len(bench.hook.held))
    bench.consumer.on_connection_error_after_connected(OSError())
    assert held == [0]
    bench.accounts.room = 2
    bench.fire()
    assert bench.through == []
    assert bench.timers == []


def test_a_failing_release_leaves_the_rest_to_the_next_turn(bench: Bench) -> None:
    """What the pool raises is Celery's to tell; the timer goes on."""
    bench.come("a", "b")
    bench.accounts.room = 2

    def fail(_: object) -> None:
        message = "the pool is broken"
        raise OSError(message)

    well, bench.hook._through = bench.hook._through, fail
    with pytest.raises(OSError, match="the pool is broken"):
        bench.fire()
    bench.hook._through = well
    bench.fire()
    assert bench.through == ["b"]


def test_the_accounts_hear_of_what_never_started(bench: Bench) -> None:
    """It was revoked in the queue of the pool: what was expected of it is free."""
    bench.accounts.room = 1
    [one] = bench.come("a")
    bench.hook.collect()
    assert bench.accounts.forgotten == []
    state.task_ready(one)
    bench.hook.collect()
    assert bench.accounts.forgotten == [one.request_dict["delivery_info"][RUN]]


def test_prefetch_is_lowered_by_what_it_really_rose(bench: Bench) -> None:
    """A broker may raise less than it is asked for, and Celery's own is not ours."""
    more = [0]

    def rise(_: int) -> int:
        risen = int(more[0] < 2)
        more[0] += risen
        return risen

    def lower(count: int) -> None:
        more[0] -= count

    prefetch = SimpleNamespace(rise=rise, fall=lower)
    broker: Any = SimpleNamespace(prefetch=prefetch, smaller_first=True)
    bench.hook.held.broker = broker
    bench.come("a", "b", "c")
    assert (bench.hook.held.prefetch_more, more) == (2, [2])
    bench.accounts.room = 3
    bench.fire()
    assert bench.through == ["a", "b", "c"]
    assert (bench.hook.held.prefetch_more, more) == (0, [0])


@pytest.mark.parametrize("how", ["expired", "revoked"])
def test_the_dead_leave_though_nothing_is_let_through(how: str, bench: Bench) -> None:
    """And do not start when there is room."""
    dead = Request("dead")
    if how == "expired":
        dead.expires = now() - timedelta(seconds=1)
    bench.consumer.on_task_request(dead)
    bench.come("living")
    dead.dead = True
    if how == "revoked":
        state.revoked.add("dead")
    bench.fire()
    assert len(bench.hook.held) == 1
    bench.accounts.room = 2
    bench.fire()
    assert bench.through == ["living"]


def test_without_an_event_loop_the_broker_is_told_at_once(bench: Bench) -> None:
    """Telling may read messages, which are held and told of too, not one in another."""
    depth: list[int] = []
    told: list[int] = []

    class Quality:
        """kombu's count; while it is told one more task comes."""

        value = 2
        prev: int | None = 2

        def update(self) -> None:
            """Tell the broker."""
            depth.append(1)
            assert len(depth) == 1
            self.prev = self.value
            told.append(1)
            if len(told) < 4:
                bench.come(f"t{len(told)}")
            depth.pop()

    quality = Quality()

    def rise(_: int) -> int:
        quality.prev = None
        return 1

    prefetch = SimpleNamespace(rise=rise)
    broker: Any = SimpleNamespace(prefetch=prefetch, smaller_first=True)
    bench.consumer.hub = None
    bench.consumer.qos = quality
    bench.hook.held.broker = broker
    bench.come("t0")
    assert len(bench.hook.held) == 4
    assert len(told) == 4
    assert bench.hook.held.prefetch_more == 4


def test_a_timer_that_celery_cancelled_is_set_again(bench: Bench) -> None:
    """It cancels what was set while it connected, if that came to nothing.

    RabbitMQ delivers from the first queue before the worker consumes from the last.
    """
    bench.come("a")
    assert len(bench.timers) == 1
    bench.timers.clear()
    bench.consumer.on_connection_error_after_connected(OSError())
    bench.come("b")
    bench.accounts.room = 1
    bench.fire()
    assert bench.through == ["b"]

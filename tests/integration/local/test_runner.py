"""Slots that run where they were won: on threads, through Celery's tracer."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, signals
from celery.beat import BeatLazyFunc

import celery_pecker.signals
from celery_pecker import deadline, runs
from celery_pecker.kernel.clock import SYSTEM, SystemClock
from celery_pecker.kernel.errors import BrokerUnavailable, Misconfigured, NotStarted
from celery_pecker.kernel.settings import Settings
from celery_pecker.runs import guard
from celery_pecker.schedules.history.report import Report
from celery_pecker.schedules.local.runner import UnclaimedLog
from celery_pecker.testing import eventually
from tests.integration.local.hand import Gates, Make

ROOT = Path(__file__).parents[3]
RAN = [Report.STARTED, Report.SUCCEEDED]
FAILED = [Report.STARTED, Report.FAILED]


class Hands(SystemClock):
    """A clock that is set by hand."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        """Return what was set."""
        return self.seconds


def test_a_run_is_told_all_that_a_task_is_told(app: Celery, hand: Make) -> None:
    """Arguments, request, headers, run and deadline; and people see its end."""
    seen: dict[str, Any] = {}

    @app.task(bind=True, name="look", shared=False)
    def look(self: Any, items: list[int], *, more: str) -> str:
        run = runs.current()
        assert run is not None
        seen.update(
            items=items,
            more=more,
            id=self.request.id,
            hostname=self.request.hostname,
            header=self.request.headers["pecker"],
            mine=self.request.headers["mine"],
            eager=self.request.is_eager,
            run=(run.name, run.epoch, run.era, run.deadline is not None),
            left=deadline.remaining(),
            thread=threading.current_thread().name,
        )
        return "seen"

    one = hand(app)
    name = one.prepare(
        look,
        name="entry",
        args=([1],),
        kwargs={"more": "x"},
        options={"headers": {"mine": 3}, "queue": "elsewhere"},
    )
    one.run(name)
    assert one.ended() == [(name, report) for report in RAN]
    assert seen["header"]["epoch"] == 7
    assert seen["run"] == ("entry", 7, 0, True)
    assert 4.0 < seen["left"] <= 5.0
    assert (seen["items"], seen["more"], seen["mine"]) == ([1], "x", 3)
    assert (seen["hostname"], seen["eager"]) == ("hand@test", False)
    assert seen["thread"].startswith("pecker-run-")
    assert one.kinds == ["task-received", "task-started", "task-succeeded"]
    assert one.told[0][1]["name"] == "look"
    assert one.told[2][1]["result"] == "'seen'"
    assert {fields["uuid"] for _, fields in one.told} == {seen["id"]}
    assert one.counted == {"started": 1, "succeeded": 1}


def test_each_run_has_arguments_of_its_own(app: Celery, hand: Make) -> None:
    """As from the wire: what one run does to a list is not there in the next."""
    seen: list[Any] = []

    @app.task(name="spoil", shared=False)
    def spoil(items: list[int], at: int) -> None:
        seen.append(([*items], at))
        items.append(9)

    class Counted(BeatLazyFunc):
        """Another number each time."""

    numbers = iter(range(10))
    one = hand(app)
    one.prepare(spoil, args=([1], 5), name="same")
    one.prepare(spoil, args=([1], Counted(lambda: next(numbers))), name="lazy")
    for name in ("same", "same", "lazy", "lazy"):
        one.run(name)
        one.ended()
    assert seen == [([1], 5), ([1], 5), ([1], 0), ([1], 1)]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_nothing_that_a_task_raises_ends_its_thread(
    app: Celery, hand: Make, error: BaseException
) -> None:
    """One thread: the next slot runs on it."""
    threads: list[int] = []

    @app.task(name="fall", shared=False)
    def fall() -> None:
        threads.append(threading.get_ident())
        raise error

    one = hand(app, threads=1)
    name = one.prepare(fall)
    for _ in range(2):
        one.run(name)
        one.ended()
    assert len(threads) == 2
    assert len(set(threads)) == 1
    assert one.notes.reports == [(name, report) for report in (*FAILED, *FAILED)]
    assert one.kinds == ["task-received", "task-started", "task-failed"] * 2
    assert type(error).__name__ in one.told[2][1]["exception"]
    assert type(error).__name__ in one.told[2][1]["traceback"]


def test_what_a_run_leaves_in_its_context_is_gone(app: Celery, hand: Make) -> None:
    """A tracer that forgets to close its span must not adopt the next run."""
    left: ContextVar[str] = ContextVar("left", default="")
    seen: list[str] = []

    @app.task(name="leave", shared=False)
    def leave() -> None:
        seen.append(left.get())
        left.set("something")

    one = hand(app, threads=1)
    name = one.prepare(leave)
    for _ in range(2):
        one.run(name)
        one.ended()
    assert seen == ["", ""]


def test_a_long_run_alone_keeps_nobody_from_claiming(
    app: Celery, hand: Make, gates: Gates
) -> None:
    """What waits for a thread does; not what has one."""

    @app.task(name="long", shared=False)
    def long() -> None:
        gates.wait()

    one = hand(app, threads=1)
    one.run(one.prepare(long))
    gates.arrived()
    old = SYSTEM.monotonic() + 0.3
    eventually(lambda: old < SYSTEM.monotonic(), 30.0, "it runs for long")
    one.run(one.prepare(long, name="next"))
    assert [*one.runner.held(["another", "next"])] == ["next"]


def test_signals_and_hooks_are_those_of_a_worker(app: Celery, hand: Make) -> None:
    """Django closes its connections by them, tracers open their spans."""
    heard: list[str] = []

    class Hooked(app.Task):  # type: ignore[name-defined]
        def before_start(self, *_: object) -> None:
            heard.append("before_start")

        def on_failure(self, *_: object) -> None:
            heard.append("on_failure")

        def after_return(self, *_: object) -> None:
            heard.append("after_return")

    @app.task(base=Hooked, name="hooked", shared=False)
    def hooked() -> None:
        raise ValueError

    told: dict[str, Any] = {
        "prerun": signals.task_prerun,
        "failure": signals.task_failure,
        "postrun": signals.task_postrun,
    }
    for name, signal in told.items():
        signal.connect(
            lambda name=name, **_: heard.append(name), weak=False, dispatch_uid=name
        )
    try:
        one = hand(app)
        one.run(one.prepare(hooked))
        one.ended()
    finally:
        for name, signal in told.items():
            signal.disconnect(dispatch_uid=name)
    hooks = ["before_start", "on_failure", "failure", "after_return"]
    assert heard == ["prerun", *hooks, "postrun"]


def test_no_run_waits_for_a_result_backend(hand: Make) -> None:
    """Nobody so much as connects to it: it accepts and would never answer."""
    backend = socket.create_server(("127.0.0.1", 0))
    backend.setblocking(False)
    app = Celery(
        "proj",
        broker="redis://127.0.0.1:1/0",
        backend=f"redis://127.0.0.1:{backend.getsockname()[1]}/1",
        set_as_current=False,
    )
    app.conf.update(task_store_errors_even_if_ignored=True, task_track_started=True)

    @app.task(name="good", shared=False)
    def good() -> int:
        return 4

    @app.task(name="bad", shared=False)
    def bad() -> int:
        raise ValueError

    one = hand(app)
    names = [one.prepare(good), one.prepare(bad)]
    one.run(*names)
    one.ended()
    assert one.counted == {"started": 2, "succeeded": 1, "failed": 1}
    failed = [fields for kind, fields in one.told if kind == "task-failed"]
    assert [fields["exception"] for fields in failed] == ["ValueError()"]
    with backend, pytest.raises(BlockingIOError):
        backend.accept()


def test_a_local_run_is_not_retried(
    app: Celery, hand: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """`retry()` raises what failed; called elsewhere it is Celery's own."""

    @app.task(bind=True, name="again", shared=False)
    def again(self: Any) -> None:
        try:
            raise ValueError  # noqa: TRY301
        except ValueError as error:
            raise self.retry(exc=error) from error

    @app.task(name="auto", autoretry_for=(ValueError,), shared=False)
    def auto() -> None:
        raise ValueError

    @app.task(bind=True, name="bare", shared=False)
    def bare(self: Any) -> None:
        self.retry()

    one = hand(app)
    for task in (again, auto, bare):
        one.run(one.prepare(task))
        one.ended()
    told = [fields["exception"] for kind, fields in one.told if kind == "task-failed"]
    assert told[:2] == ["ValueError()", "ValueError()"]
    assert told[2].startswith("NotRetried('A run in the worker that won it")
    assert "auto is not retried in a local run" in caplog.text
    assert auto.apply(retries=auto.max_retries or 3).state == "FAILURE"
    assert caplog.text.count("is not retried in a local run") == 3


def test_an_entry_that_still_runs_is_not_started_again(
    app: Celery, hand: Make, gates: Gates
) -> None:
    """Nor is it claimed: held, its slots are left to other workers."""

    @app.task(name="long", shared=False)
    def long() -> None:
        gates.wait()

    @app.task(name="short", shared=False)
    def short() -> None: ...

    one = hand(app)
    busy, free = one.prepare(long), one.prepare(short)
    one.run(busy)
    gates.arrived()
    assert [*one.runner.held([busy, free])] == [busy]
    with pytest.raises(NotStarted, match=r"long: its slot of .* still runs") as refused:
        one.run(busy, free)
    assert refused.value.done == {free}
    assert refused.value.why.startswith("long: its slot of")
    eventually(lambda: one.counted.get("succeeded"), 30.0, "the other ran")
    gates.go.set()
    one.ended()
    one.run(busy)
    one.ended()
    assert one.counted == {"started": 3, "succeeded": 3}


def test_a_run_that_does_not_end_is_said_once(
    app: Celery, hand: Make, gates: Gates, caplog: pytest.LogCaptureFixture
) -> None:
    """No end, no event and no miss tells of it: only the log can."""

    @app.task(name="long", shared=False)
    def long() -> None:
        gates.wait()

    one = hand(app, threads=1)
    first, second = one.prepare(long), one.prepare(long, "second")
    one.run(first, left=0.1)
    gates.arrived()
    one.run(second)
    said = "the local run of long still goes on"

    def told() -> bool:
        one.runner.held([first, second])
        return said in caplog.text

    eventually(told, 30.0, "it is said")
    assert told()
    assert caplog.text.count("still goes on") == 1
    assert "threads for local runs" not in caplog.text


def test_threads_that_are_all_taken_are_said_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """When a slot has waited for long, then once a minute."""
    clock = Hands()
    complaints = UnclaimedLog(clock)
    told = []
    for waited in (0.3, 5.1, 20.0, 70.0):
        clock.seconds += waited
        complaints.of_threads(waited, running=8, waiting=3)
        told.append(caplog.text.count("8 running, 3 waiting"))
    assert told == [0, 1, 1, 2]


def test_a_slot_that_waits_past_its_deadline_is_not_run(
    app: Celery, hand: Make, gates: Gates
) -> None:
    """It is counted where the others are: in the table, the log and the signal."""
    ran: list[str] = []

    @app.task(name="long", shared=False)
    def long() -> None:
        gates.wait()

    @app.task(name="late", shared=False)
    def late() -> None:
        ran.append("late")

    heard: list[celery_pecker.signals.Missed] = []
    celery_pecker.signals.missed.connect(heard.append)
    try:
        one = hand(app, threads=1)
        first, second = one.prepare(long), one.prepare(late)
        one.run(first)
        gates.arrived()
        one.run(second, left=0.3)

        def held() -> list[str]:
            return [*one.runner.held(["another"])]

        assert held() == []
        eventually(held, 30.0, "others may have what waits too long here")
        assert one.runner.stats()["waiting"] == 1
        ends = SYSTEM.monotonic() + 0.4
        eventually(lambda: ends < SYSTEM.monotonic(), 30.0, "the deadline is over")
        gates.go.set()
        one.ended()
    finally:
        celery_pecker.signals.missed.disconnect(heard.append)
    assert ran == []
    assert one.notes.reports[-1] == (second, Report.REFUSED_LATE)
    assert one.runner.take_missed() == {second: 1}
    assert one.runner.take_missed() == {}
    assert [(event.names, event.slots) for event in heard] == [((second,), 1)]
    assert one.kinds[-1] == "task-revoked"


def test_a_slot_whose_deadline_is_over_is_not_started(app: Celery, hand: Make) -> None:
    """The process was frozen between the claim and here, or its clock ran on."""
    ran: list[str] = []

    @app.task(name="late", shared=False)
    def late(*_: object) -> None:
        ran.append("late")

    class Slow(BeatLazyFunc):
        """Takes until the deadline is over."""

    def wait() -> int:
        over = SYSTEM.monotonic() + 0.2
        eventually(lambda: over <= SYSTEM.monotonic(), 30.0, "the deadline is over")
        return 1

    one = hand(app)
    frozen, slow = one.prepare(late), one.prepare(late, name="slow", args=(Slow(wait),))
    one.run(frozen, left=-0.001)
    one.run(slow, left=0.1)
    late_ones = [report for _, report in one.ended()]
    assert ran == []
    assert late_ones == [Report.REFUSED_LATE] * 2
    assert one.runner.take_missed() == {frozen: 1, slow: 1}
    assert one.kinds.count("task-started") == 0


def test_a_slot_that_its_holder_may_not_trust_any_more_is_not_started(
    app: Celery, hand: Make
) -> None:
    """Without a deadline too: the next slot's turn has come meanwhile."""

    @app.task(name="free", shared=False)
    def free() -> None: ...

    one = hand(app)
    name = one.prepare(free)
    slot = replace(one.slot(name, left=None), latest=SYSTEM.monotonic())
    one.runner.publish([slot], "token", within=60.0)
    assert one.ended() == [(name, Report.REFUSED_LATE)]


def test_more_slots_than_threads_wait_their_turn(app: Celery, hand: Make) -> None:
    """A minute's entries come all at once."""
    ran: list[int] = []
    most: list[int] = []

    @app.task(name="one_of_many", shared=False)
    def one_of_many(number: int) -> None:
        most.append(one.runner.busy)
        ran.append(number)

    one = hand(app, threads=3)
    names = [one.prepare(one_of_many, name=f"{n}", args=(n,)) for n in range(200)]
    one.run(*names)
    one.ended()
    assert sorted(ran) == [*range(200)]
    assert max(most) <= 3


def test_a_run_past_its_deadline_is_told_as_such(
    app: Celery, hand: Make, gates: Gates
) -> None:
    """Whether it was ended by it, or did not care."""

    @app.task(name="asks", shared=False)
    def asks() -> None:
        while True:
            deadline.check()

    @app.task(name="ignores", shared=False)
    def ignores() -> None:
        gates.wait()

    ends: list[celery_pecker.signals.RunEnded] = []
    celery_pecker.signals.run_ended.connect(ends.append)
    try:
        one = hand(app)
        names = [one.prepare(asks), one.prepare(ignores)]
        one.run(*names, left=0.1)
        over = SYSTEM.monotonic() + 0.1
        eventually(lambda: over < SYSTEM.monotonic(), 30.0, "the deadline is over")
        gates.go.set()
        one.ended()
    finally:
        celery_pecker.signals.run_ended.disconnect(ends.append)
    assert one.counted == {"started": 2, "overrun": 2}
    failed = [fields for kind, fields in one.told if kind == "task-failed"]
    assert ["DeadlineExceeded" in fields["exception"] for fields in failed] == [True]
    assert sorted((end.name, end.state) for end in ends) == [
        ("asks", "overrun"),
        ("ignores", "overrun"),
    ]


def test_what_comes_back_after_its_deadline_has_failed(
    app: Celery, hand: Make, gates: Gates
) -> None:
    """As a run in a pool does, by the guard that is around all tasks of a worker."""

    @app.task(name="ignores", shared=False)
    def ignores() -> None:
        gates.wait()

    settings = Settings(dsn="postgresql://nobody@nowhere/never_asked", app="proj")
    stands = guard.install(app, pool_kind="prefork", settings=settings)
    one = hand(app)
    one.run(one.prepare(ignores), left=0.1)
    over = SYSTEM.monotonic() + 0.1
    eventually(lambda: over < SYSTEM.monotonic(), 30.0, "the deadline is over")
    gates.go.set()
    one.ended()
    stands.close()
    assert one.kinds[-1] == "task-failed"
    assert "DeadlineExceeded" in one.told[-1][1]["exception"]
    assert one.counted == {"started": 1, "overrun": 1}


def test_a_slot_without_deadline_runs_and_has_none(app: Celery, hand: Make) -> None:
    """A crontab entry without a timeout, say."""
    left: list[float | None] = []

    @app.task(name="free", shared=False)
    def free() -> None:
        left.append(deadline.remaining())

    one = hand(app)
    one.run(one.prepare(free), left=None)
    one.ended()
    assert left == [None]


def test_a_runner_that_stops_takes_nothing_and_ends_what_it_has(
    app: Celery, hand: Make, gates: Gates
) -> None:
    """What goes, ends; what waits is missed, and said to be."""

    @app.task(name="long", shared=False)
    def long() -> None:
        gates.wait()

    one = hand(app, threads=1)
    names = [one.prepare(long, name=f"{n}") for n in range(3)]
    one.run(names[0])
    gates.arrived()
    one.run(names[1])
    one.runner.stop()
    with pytest.raises(BrokerUnavailable, match="this worker stops"):
        one.runner.ensure()
    with pytest.raises(NotStarted, match="this worker stops"):
        one.run(names[2])
    assert not one.runner.join(0.0)
    gates.go.set()
    assert one.runner.join(30.0)
    assert one.counted == {"started": 1, "succeeded": 1, "missed": 1}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"options": {"countdown": 3}}, "has 'countdown'"),
        ({"options": {"link": "x"}}, "has 'link'"),
        ({"options": {"soft_time_limit": 1}}, r"\['pecker'\]\['timeout'\]"),
        ({"args": (object(),)}, "cannot be written as json"),
    ],
)
def test_what_a_local_run_cannot_keep_is_refused(
    app: Celery, hand: Make, given: dict[str, Any], why: str
) -> None:
    """At the start, by the name of the entry."""

    @app.task(name="any", shared=False)
    def any_(*_: object) -> None: ...

    with pytest.raises(Misconfigured, match=r"beat_schedule\['entry'\].*" + why):
        hand(app).prepare(any_, name="entry", **given)


def test_a_task_that_is_not_registered_here_is_refused(app: Celery, hand: Make) -> None:
    """Nobody else would run it either."""

    class Elsewhere:
        name = "elsewhere"

    with pytest.raises(Misconfigured, match="knows no task 'elsewhere'"):
        hand(app).prepare(Elsewhere)


GREEN = """
from gevent import monkey
monkey.patch_all()
import threading
from celery import Celery
from celery_pecker.kernel.clock import SYSTEM, pause
from tests.integration.local.hand import Hand
app = Celery("proj", broker="redis://127.0.0.1:1/0")
ended = []
@app.task(name="waits")
def waits():
    try:
        pause(30.0)
    finally:
        ended.append(type(threading.current_thread()).__name__)
hand = Hand(app, pool_kind="gevent")
names = [hand.prepare(waits, name=f"{number}") for number in range(2)]
began = SYSTEM.monotonic()
hand.run(*names, left=0.3)
hand.ended()
assert 0.3 <= SYSTEM.monotonic() - began < 20.0
assert hand.counted == {"started": 2, "overrun": 2}, hand.counted
assert "DeadlineExceeded" in hand.told[-1][1]["exception"]
hand.runner.stop()
assert hand.runner.join(30.0)
"""


def test_on_gevent_a_run_that_waits_is_ended_at_its_deadline() -> None:
    """Its threads are greenlets, and the hub interrupts them."""
    subprocess.run([sys.executable, "-c", GREEN], check=True, cwd=ROOT, timeout=60)

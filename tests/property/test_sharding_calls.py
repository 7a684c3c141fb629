"""Processors that raise anywhere and are killed anywhere, on the real ledger.

Each call of the processor does one of: work on item after item, collect all and work on
them then, raise before it asks for one. It raises at an item, or outside of any, or its
process is killed, or it returns what it worked on. The oracle notes what was worked on
and confirmed. In the end each item is done or failed, and none is done that was not
worked on; a job that returns values has each item that is done in one value.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from celery_pecker.kernel.clock import new_tag
from celery_sharding.codec import decode, encode_items
from celery_sharding.ledger import Ledger, at
from celery_sharding.ledger.submissions import NewJob
from celery_sharding.model import Options, Planned
from celery_sharding.policies import Isolate, Retry
from celery_sharding.processor import Processor
from celery_sharding.runner import Shard, work
from celery_sharding.runner.holding import Holding
from celery_sharding.runner.shard_worker import executor_of
from tests.profiles import examples

TASK = "property.calls"
SIZES = (5, 3)
OPEN = "select count(*) from pecker_shards where job = %s and status in (100, 201, 202)"


class Killed(BaseException):
    """The process is no more: nothing of ours may run after it."""


class Plan:
    """What the next calls do, in order; when it is used up all goes well."""

    def __init__(self, acts: list[tuple[str, str, int]], form: str) -> None:
        self.acts = [*acts]
        self.form = form
        """What says that an item ended well: ok, value, or nothing."""
        self.worked: set[int] = set()

    def __call__(self, shard: Shard) -> list[int] | None:
        """Process a shard."""
        way, end, place = self.acts.pop(0) if self.acts else ("loop", "return", 0)
        mine: list[int] = []
        if way == "raise":
            raise RuntimeError(way)
        items: Any = list(shard) if way == "collect" else shard
        for item in items:
            if len(mine) == place and end in {"item", "kill"}:
                raise Killed if end == "kill" else ValueError(item)
            self.worked.add(item)
            mine.append(item)
            if self.form == "ok":
                shard.ok(item)
        if end == "outside":
            raise RuntimeError(end)
        return mine if self.form == "value" else None


@pytest.fixture
def app(dsn: str) -> Iterator[Celery]:
    """Give an app that has no broker to speak of."""
    app = Celery("calls", broker="memory://", set_as_current=False)
    app.conf.update(pecker_dsn=dsn, task_default_queue=new_tag())
    yield app
    at(app).close()
    app.close()


def planned(app: Celery, ledger: Ledger, plan: Plan, options: Options) -> int:
    """Return a job whose items are 0, 1, 2 and so on."""
    app.tasks.pop(TASK, None)
    declared: Any = app.task
    task = declared(plan.__call__, name=TASK, shared=False)
    task.processor = Processor(name=TASK, process=plan, options=options)
    new = NewJob(
        task_id=new_tag(),
        task=TASK,
        args=(),
        kwargs={},
        continuation={},
        options=options,
        key=None,
    )
    job = ledger.submissions.submit(new).job
    turn = ledger.plans.begin(new.task_id, "p:1:x", 15.0)
    assert turn is not None
    shards, first = [], 0
    for count in SIZES:
        body = encode_items([*range(first, first + count)])
        shards.append(Planned(layer=0, count=count, body=body))
        first += count
    ledger.plans.write(turn, shards)
    return job


def run(app: Celery, ledger: Ledger, job: int, ask: Callable[..., Any]) -> None:
    """Run the job to its last item, by one process after the other."""
    for _ in range(100):
        if ask(OPEN, job) == [(0,)]:
            return
        ((seq,),) = ask(
            "select seq from pecker_tickets where job = %s and ticket = 1", job
        )
        try:
            work(app, job, 1, seq)
        except Killed:
            ledger.tickets.end_holds_of(executor_of(app).prefix(os.getpid()))
    message = "the job does not end"
    raise AssertionError(message)


acts = st.tuples(
    st.sampled_from(["loop", "loop", "collect", "raise"]),
    st.sampled_from(["return", "item", "item", "outside", "kill"]),
    st.integers(0, 5),
)


@example(
    calls=[("loop", "item", 4), ("raise", "return", 0)],
    form="value",
    how=(None, 0, False),
)
@example(
    calls=[("loop", "kill", 3), ("loop", "item", 1), ("raise", "return", 0)],
    form="value",
    how=(None, 0, True),
)
@given(  # how: the size of a batch, retries, and whether each cursor is written
    calls=st.lists(acts, max_size=6),
    form=st.sampled_from(["ok", "value", "nothing"]),
    how=st.tuples(
        st.sampled_from([None, None, 1, 3]), st.integers(0, 2), st.booleans()
    ),
)
@settings(
    max_examples=examples(40),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
    ],
)
def test_nothing_undone_is_done(
    app: Celery,
    monkeypatch: pytest.MonkeyPatch,
    calls: list[tuple[str, str, int]],
    form: str,
    how: tuple[int | None, int, bool],
) -> None:
    """Whatever is raised where, whoever is killed."""
    batch, retries, flushed = how
    monkeypatch.setattr(Holding, "due", 0.0 if flushed else 1e12)
    ledger, plan = at(app), Plan(calls, form)
    policy = Retry(retries, backoff=0.0) if retries else Isolate()

    def ask(query: str, *params: object) -> list[tuple[Any, ...]]:
        connection = ledger.database._connected()
        return connection.execute(query.encode(), params).fetchall()

    options = Options(batch=batch, on_error=policy, item_timeout=None)
    job = planned(app, ledger, plan, options)
    run(app, ledger, job, ask)
    ((done, failed),) = ask(
        "select sum(done)::int, sum(failed)::int from pecker_shards where job = %s", job
    )
    assert done + failed == sum(SIZES)
    assert done <= len(plan.worked)
    bodies = ask("select at, body from pecker_results where job = %s", job)
    values = Counter(
        item
        for place, body in bodies
        for value in ([decode(body)] if place == -1 else decode(body))
        for item in (value if form == "value" else [value])
    )
    if form != "nothing":
        assert {*values} <= plan.worked
        assert set(values.values()) <= {1}, "an item is in two values"
        assert len(values) == done, "an item that is done is in no value"

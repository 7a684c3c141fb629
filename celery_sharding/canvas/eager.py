"""A job that runs in the caller: no database, no message, one shard after the other.

``app.conf.task_always_eager``, ``.apply()`` and a plain call of the task. It is the
same code of the user's that runs, on items that went through JSON as in a worker.
Waiting is left out: what is to be retried later is retried at once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NoReturn

from celery.result import EagerResult
from celery.states import SUCCESS

from celery_pecker.kernel.clock import SYSTEM, monotonic, new_tag
from celery_sharding.canvas import inline
from celery_sharding.canvas.sending import Called, check, key_of
from celery_sharding.codec import decode, encode
from celery_sharding.errors import JobDeadlineExceeded, TooManyFailed, WrongStage
from celery_sharding.ledger import at
from celery_sharding.ledger.submissions import names_items
from celery_sharding.model import (
    Code,
    Failure,
    ItemError,
    Job,
    LayerProgress,
    Options,
    Outcome,
    Planned,
    Progress,
    Stage,
    Step,
)
from celery_sharding.model import Shard as Record
from celery_sharding.plan import cut, from_stored
from celery_sharding.plan.arguments import join, split
from celery_sharding.policies import policy_of
from celery_sharding.runner import StepList, Stop, Work, run_shard
from celery_sharding.sources import items_of

WORKER = "eager"
COUNTED = ("total", "done", "failed")
"""What is counted of items."""


@dataclass(slots=True)
class ItemOutcomes:
    """How a job in this process is to run; its results, failures and counts.

    They are kept as the ledger would.
    """

    options: Options
    layers: list[Counter[str]] = field(default_factory=list)
    """Items of each, as `COUNTED`, and its `shards`."""
    kept: list[tuple[int, bytes, bool]] = field(default_factory=list)
    """Encoded results: whose shard's, and whether many or what a processor returned."""
    failures: dict[tuple[int, int], Failure] = field(default_factory=dict)
    began: float = field(default_factory=monotonic)
    retries: int = 0
    whole: int = 0
    """Shards that failed as a whole although none of their items did."""

    def begin(self, planned: Sequence[Planned]) -> None:
        """Set the totals of each layer from the planned shards."""
        layers = max((one.layer for one in planned), default=-1) + 1
        self.layers = [Counter() for _ in range(layers)]
        for one in planned:
            self.layers[one.layer].update(total=one.count, shards=1)

    def take(self, record: Record, steps: Iterable[Step]) -> None:
        """Keep what came of a shard."""
        done, failed = record.done, record.failed
        layer = self.layers[record.layer]
        for step in steps:
            if step.forget:
                self.kept = [one for one in self.kept if one[0] != record.shard]
            if step.results is not None:
                self.kept.append((record.shard, step.results, True))
            if step.result is not None:
                self.kept.append((record.shard, step.result, False))
            for failure in step.failures:
                self.failures[failure.origin, failure.place] = failure
            for place in step.mended:
                self.failures.pop(place, None)
            if step.count is not None:
                layer["total"] += step.count - record.count
            layer["done"] += step.done - done
            layer["failed"] += step.failed - failed
            done, failed = step.done, step.failed
            self.whole += step.status is Code.FAILED and not failed

    def retry_shards(self, record: Record, steps: Iterable[Step]) -> Iterator[Record]:
        """Yield the shards in which failed items are retried."""
        for step in steps:
            if step.retry is not None:
                self.retries += 1
                yield Record(
                    shard=sum(one["shards"] for one in self.layers) + self.retries,
                    layer=record.layer,
                    origin=record.origin,
                    hi=len(step.retry[0]),
                    attempt=record.attempt + 1,
                    picks=[*step.retry[0]],
                )

    def check_failed(self) -> None:
        """Raise TooManyFailed where more items failed than the job bears."""
        counts = self.counts()
        allowed = policy_of(self.options).allowed(counts["total"])
        failed = counts["failed"] + self.whole
        if allowed is not None and failed > allowed:
            first = next(iter(self.failures.values()))
            raise TooManyFailed(
                f"{failed} of {counts['total']} items failed, more than {allowed}; the"
                f" first: {first.type}: {first.message}"
            )

    def counts(self) -> dict[str, Any]:
        """Return what a job without Post returns."""
        return {name: sum(one[name] for one in self.layers) for name in COUNTED}

    def results(self) -> Iterator[Any]:
        """Yield the values passed to `ok` and those that processors returned."""
        for _, body, many in self.kept:
            yield from decode(body) if many else (decode(body),)

    def errors(self) -> Iterator[ItemError]:
        """Yield the items that failed, one by one."""
        now = SYSTEM.now()
        for _, one in sorted(self.failures.items()):
            yield ItemError(
                item=None if one.item is None else decode(one.item),
                type=one.type,
                message=one.message,
                traceback=one.traceback,
                code=Code(one.code),
                attempt=one.attempt,
                shard=one.shard,
                layer=one.layer,
                place=one.place,
                worker=WORKER,
                at=now,
            )

    def progress(self) -> Progress:
        """Return how far the job is."""
        counts = self.counts()
        ended = counts["done"] + counts["failed"]
        layers = tuple(
            LayerProgress(
                layer=layer,
                total=one["total"],
                done=one["done"],
                failed=one["failed"],
                shards=one["shards"],
                open=0 if one["done"] + one["failed"] >= one["total"] else 1,
            )
            for layer, one in enumerate(self.layers)
        )
        over = ended >= counts["total"]
        elapsed = monotonic() - self.began
        return Progress(
            stage=Stage.ENDED if over else Stage.SHARDING,
            outcome=Outcome.SUCCEEDED if over else None,
            paused=False,
            layer=sum(1 for one in layers if not one.open),
            layers=layers,
            rate=ended / elapsed if elapsed > 0 else 0.0,
            elapsed=elapsed,
            **counts,
        )


class EagerShardedResult(EagerResult):  # type: ignore[type-arg]  # generic since Celery 5.7
    """What a job that ran in the caller came to.

    What can be done to a job in a ledger raises WrongStage, as for any that has ended.
    """

    outcomes: ItemOutcomes

    @property
    def progress(self) -> Progress:
        """How far it came."""
        well = self.state == SUCCESS
        return replace(
            self.outcomes.progress(),
            stage=Stage.ENDED,
            outcome=Outcome.SUCCEEDED if well else Outcome.FAILED,
        )

    def errors(self) -> Iterator[ItemError]:
        """Yield the items that failed, one by one."""
        return self.outcomes.errors()

    def results(self) -> Iterator[Any]:
        """Yield the values passed to `ok` and those that processors returned."""
        return self.outcomes.results()

    def _over(self, *_: object, **__: object) -> NoReturn:
        raise WrongStage(
            f"the job {self.id} ran in the caller: it has ended, and nothing of it is"
            " stored"
        )

    pause = resume = cancel = retry_failed = rerun = set = shards = _over


_kept: ContextVar[ItemOutcomes | None] = ContextVar("kept", default=None)


@contextmanager
def kept(options: Options) -> Iterator[ItemOutcomes]:
    """Run the jobs inside with these options, and keep their outcomes."""
    mine = ItemOutcomes(options)
    token = _kept.set(mine)
    try:
        yield mine
    finally:
        _kept.reset(token)


def as_result(result: Any, mine: ItemOutcomes) -> EagerShardedResult:
    """Return Celery's result, with what the job came to."""
    made = EagerShardedResult(
        result.id,
        result._result,  # noqa: SLF001  # it has no name of its own
        result.state,
        traceback=result.traceback,
        name=result.name,
    )
    made.outcomes = mine
    return made


def carried(
    task: Called, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return arguments that JSON can carry; raise what is wrong with them."""
    check(task.processor, args, kwargs)
    key_of(task.processor, args, kwargs)
    if task.processor.pre_process is not None or not inline.holds(args[0]):
        return args
    items, *rest = args
    return (from_stored(decode(inline.encode(items, limit=inf).body)), *rest)


def run(task: Called, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return what the job returns, or raise what it fails with."""
    mine = _kept.get() or ItemOutcomes(task.options_of(kwargs))
    token = _kept.set(None)  # jobs that this one calls are others
    try:
        return _Eager(task, args, kwargs, mine).run()
    finally:
        _kept.reset(token)


class _Eager:
    """One job, from its call to its value."""

    def __init__(
        self,
        task: Called,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        mine: ItemOutcomes,
    ) -> None:
        app = task.app
        self._conf = app.conf
        self._processor = task.processor
        self._options = mine.options
        args = tuple(_with_items(app, one) for one in carried(task, args, kwargs))
        plain, named, sources = split(args, kwargs)
        copies = decode(encode([plain, named], what=f"an argument of {task.name}"))
        copied, kwargs = join(copies[0], copies[1], sources)
        self._args = args if task.processor.pre_process is None else copied
        self._job = Job(
            id=task.request.id or new_tag(),
            task=task.name,
            args=self._args,
            kwargs=kwargs,
            headers=task.request.headers or {},
        )
        self._outcomes = mine
        self._notified = 0

    def run(self) -> Any:
        """Plan, run all shards, post."""
        processor, job, outcomes = self._processor, self._job, self._outcomes
        data = (
            self._args[0]
            if processor.pre_process is None
            else processor.pre_process(job, *self._args, **job.kwargs)
        )
        planned = [*cut(data, self._options, 1, conf=self._conf)]
        outcomes.begin(planned)
        limit = self._options.deadline
        work = Work(
            job=job,
            options=self._options,
            layers=len(outcomes.layers),
            until=inf if limit is None else monotonic() + limit,
        )
        for number, one in enumerate(planned):
            self._run_shard(number, one, work)
            outcomes.check_failed()
        if processor.post_process is None:
            value: Any = outcomes.counts()
        else:
            value = processor.post_process(job, outcomes.results(), outcomes.errors())
        return decode(encode(value, what=f"what Post of {job.task} returned"))

    def _run_shard(self, number: int, one: Planned, work: Work) -> None:
        outcomes = self._outcomes
        stored: Any = None if one.body is None else decode(one.body)
        items = items_of(one.reference, self._conf, stored)
        rest = [Record(shard=number, layer=one.layer, origin=number, hi=len(items))]
        while rest:
            record = rest.pop(0)
            own = [items[record.place(index)] for index in range(record.count)]
            writer = StepList()
            stop = run_shard(self._processor, record, own, work=work, writer=writer)
            outcomes.take(record, writer.steps)
            rest += outcomes.retry_shards(record, writer.steps)
            if stop is Stop.OVER:
                raise JobDeadlineExceeded(
                    f"the job took longer than its deadline of"
                    f" {self._options.deadline} s"
                )
            self._notify()

    def _notify(self) -> None:
        every, notify = self._options.notify_every, self._processor.notify
        if every is None or notify is None:
            return
        progress = self._outcomes.progress()
        due = int(progress.fraction / every + 1e-9)
        while self._notified < due:
            self._notified += 1
            threshold = min(round(self._notified * every, 9), 1.0)
            notify(self._job, replace(progress, threshold=threshold))


def _with_items(app: Any, argument: Any) -> Any:
    """Return an argument as the caller gave it; a ledger is asked only for items."""
    if names_items(argument):
        return at(app, role="caller").submissions.with_items(argument)
    return argument

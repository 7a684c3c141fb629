"""One shard, from its cursor to its end or until it is to stop.

And what its processor sees of it:

    for row in shard:
        shard.ok(save(row))
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from celery_sharding.model import Code, Job, Step
from celery_sharding.model import Shard as Record
from celery_sharding.processor import Processor
from celery_sharding.runner import shard_run as shard_run_module
from celery_sharding.runner.limits import call_each
from celery_sharding.runner.result_buffer import Known
from celery_sharding.runner.shard_run import NOTHING, ShardRun
from celery_sharding.runner.step_writer import StepWriter, Stop, Work
from celery_sharding.runner.window import WHOLE


class Shard:
    """A part of a layer, as its processor sees it.

    Iterating gives the items that have not ended yet. An item has ended, and well,
    when the next is asked for, or the processor returns. What the processor raises
    meanwhile is the failure of the item in hand: it is recorded, and the processor is
    called once more for those after it.

    ``list(shard)`` asks for all of them: they end together when the processor returns.

    With ``batch=`` each call is given that many items; they end together when it
    returns. If it raises, the next call has half as many, until the item that
    fails is alone.

    Iteration may end early: the job was paused or cancelled, or the worker stops. The
    rest is run later, perhaps elsewhere; see `stop`.
    """

    __slots__ = ("_keep", "_shard_run")

    def __init__(self, shard_run: ShardRun) -> None:
        self._shard_run = shard_run
        # Called for each item: one call less is 3 % of what an item costs.
        self._keep = shard_run.buffer.keep

    def __iter__(self) -> Iterator[Any]:
        """Yield the items that have not ended yet."""
        return self._shard_run.each()

    def __length_hint__(self) -> int:
        """Return how many are left: `list` asks, between `iter` and the first item.

        So do ``sorted(shard)`` and ``[*shard]``. A loop does not, and code that asks
        before there is an iterator is about to loop.
        """
        return self._shard_run.may_collect()

    def __repr__(self) -> str:
        return f"<Shard {self.number} of {self.job.task}[{self.job.id}]>"

    def ok(self, value: Any) -> None:
        """Keep a result of the item in hand: PostProcess is given it.

        It counts if the item ends well. Anything that JSON can hold.
        """
        self._keep((self._shard_run.at - 1, value))

    def fail(self, error: BaseException | str) -> None:
        """Fail the current item for that reason; the loop goes on.

        Raising says the same, but ends this call of the processor.
        """
        self._shard_run.fail(error)

    def retry(self, error: BaseException | str, after: float = 0.0) -> None:
        """Fail the current item, and retry it whatever `on_error` says.

        In a shard of its own, or with others that failed; not before that many seconds.
        """
        self._shard_run.retry(error, after)

    def each(self, function: Callable[[Any], Any]) -> None:
        """Call the function with each item that has not ended yet.

        What it returns is a result of the item unless it is None; what it raises, its
        failure: the loop goes on.
        """
        call_each(function, self, self.ok, self._shard_run.raised_by_item)

    @property
    def job(self) -> Job:
        """The job: its id, task, arguments."""
        return self._shard_run.work.job

    @property
    def number(self) -> int:
        """Which shard of the job this is, from 0."""
        return self._shard_run.record.shard

    @property
    def layer(self) -> int:
        """Which layer it is of, from 0."""
        return self._shard_run.record.layer

    @property
    def layers(self) -> int:
        """How many layers the job has."""
        return self._shard_run.work.layers

    @property
    def count(self) -> int:
        """Its items, ended ones included."""
        return self._shard_run.count

    @property
    def cursor(self) -> int:
        """How many of them have ended."""
        return self._shard_run.cursor

    @property
    def attempt(self) -> int:
        """The how-manieth attempt at these items this is, from 1."""
        return self._shard_run.record.attempt + 1

    @property
    def item_id(self) -> str:
        """A name of the item in hand, the same in each attempt at it."""
        return f"{self.job.id}-{self._shard_run.record.origin}-{self._shard_run.place}"

    @property
    def stop(self) -> Stop | None:
        """Why no further item is given; None while there may be one."""
        return self._shard_run.stop


logger = logging.getLogger(__name__)

IDLE = "the processor returned without asking for an item: {left} are left"
RUNS = 10
"""How often items are rerun for the sake of their value, at most."""
TORN = (
    "its processor returns values, and the value of items that ended well went with a"
    " call that did not return"
)
KILLS = "{deaths} processes died over {what}, one after the other"


def run_shard(
    processor: Processor,
    record: Record,
    items: Sequence[Any],
    *,
    work: Work,
    writer: StepWriter,
    known: Known = NOTHING,
) -> Stop:
    """Run a claimed shard; what has come of it goes to the writer.

    ``items``: its own, in its order; ended ones included. Returns why it
    stopped: END when nothing of it is left, also where it failed.
    """
    shard_run = ShardRun(record, items, work=work, writer=writer, known=known)
    return Running(processor, shard_run).run()


def fail_shard(
    shard_run: ShardRun, error: BaseException | str, *, returns: bool | None = None
) -> Stop:
    """Fail the shard as a whole, without a call.

    ``returns``: whether its processor returns values, as far as it is known.
    """
    if returns and shard_run.is_torn():
        shard_run.retry_all()
    return shard_run.writer.write(_failed(shard_run, error, Code.FAILED)) or Stop.END


def _failed(shard_run: ShardRun, error: BaseException | str, code: Code) -> Step:
    """Return the step that ends a shard which failed as a whole.

    Where items are retried, so are those that it left undone.
    """
    retried = code is not Code.DIED and shard_run.stop is not Stop.TIMED_OUT
    if retried and shard_run.put_off():
        logger.warning(
            "sharding: shard %s of job %s failed, and is retried: %r",
            shard_run.record.shard,
            shard_run.work.job.id,
            error,
        )
        return shard_run.last_step(Code.SUCCEEDED, None)
    return shard_run.fail_whole(error, code)


class Running:
    """Calls a processor as often as its shard needs."""

    def __init__(self, processor: Processor, shard_run: ShardRun) -> None:
        self._processor = processor
        self._shard_run = shard_run
        self._view = Shard(shard_run)
        self._whole: tuple[BaseException | str, Code] | None = None
        """Why the shard fails as a whole."""
        self._value: Any = None
        self._room = shard_run.batch or 0
        """With a batch: how many items the next call gets."""

    def run(self) -> Stop:
        """Call until nothing is left, or no item may be begun."""
        shard_run = self._shard_run
        self._record_failed_process()
        shard_run.finish()  # if only its end was not written
        while self._whole is None and shard_run.begin_next(self._room):
            try:
                value, error = shard_run.limits.attempt(
                    self._processor.process, self._view
                )
            except BaseException as end:
                self._killed(end)
                raise
            if error is None:
                self._returned(value)
            else:
                self._raised(error)
        return self._close()

    def _record_failed_process(self) -> None:
        """Record what killed the processes before this one, if it is known."""
        shard_run = self._shard_run
        guilty = shard_run.window.guilty
        if guilty is None:
            return
        deaths = shard_run.record.deaths
        if guilty == WHOLE:
            self._whole = (KILLS.format(deaths=deaths, what="this shard"), Code.DIED)
            return
        shard_run.fail_item(guilty, KILLS.format(deaths=deaths, what="this item"))

    def _returned(self, value: Any) -> None:
        shard_run = self._shard_run
        took_items = shard_run.took_items
        shard_run.end_call()
        if value is not None or shard_run.confirmed.left:
            self._processor.note_return(value=True)
        elif took_items:
            self._processor.note_return(value=False)
        if shard_run.batch is not None:
            self._room = min(self._room * 2, shard_run.batch)
        if not took_items and shard_run.stop is None:
            self._whole = (IDLE.format(left=shard_run.remaining), Code.FAILED)
        elif shard_run.stop is Stop.END:
            self._value = value
        elif value is not None and took_items:
            # of a part of the items: it counts beside those of the other parts
            shard_run.buffer.keep((shard_run.at - 1, value))

    def _killed(self, end: BaseException) -> None:
        """Write what has come of the items, as the process ends in one of them.

        Not if that was in the middle of code of ours: then they are rerun from the last
        that was written, as after any death.
        """
        trace, ours = end.__traceback__, end.__cause__ is not None
        while trace is not None and not ours:
            ours = trace.tb_frame.f_code.co_filename == shard_run_module.__file__
            trace = trace.tb_next
        if not ours:
            self._shard_run.interrupt(Stop.KILLED, end)
            self._close()

    def _raised(self, error: BaseException) -> None:
        shard_run, limits = self._shard_run, self._shard_run.limits
        struck = limits.struck(error)
        over = limits.over() if struck else None
        if over is not None:
            shard_run.interrupt(over, error)
        elif shard_run.batch is not None and shard_run.took_items:
            self._batch_raised(error, struck)
        elif shard_run.in_hand is not None:
            shard_run.end_failed(error, Code.TIMED_OUT if struck else Code.FAILED)
        elif struck and shard_run.stop is None and shard_run.between_items:
            pass  # between two items: the next call goes on
        else:
            code = Code.TIMED_OUT if struck else Code.FAILED
            ends = shard_run.stop in (None, Stop.END)
            # Where no call has returned, those before may have lost a value, too.
            further = ends and self._processor.returns is None
            shard_run.take_back(error, code, further=further)
            if ends:
                self._whole = (error, code)
            else:
                logger.warning(
                    "sharding: %r raised when it was to stop, and what it has not"
                    " confirmed is run later: %r",
                    self._view,
                    error,
                )

    def _batch_raised(self, error: BaseException, struck: bool) -> None:
        shard_run = self._shard_run
        if shard_run.in_call > 1:
            self._room = shard_run.in_call // 2
            shard_run.undo_call()
        else:
            shard_run.end_failed(error, Code.TIMED_OUT if struck else Code.FAILED)

    def _value_lost(self, stop: Stop) -> bool:
        """Return whether the value of items that ended well went with their call.

        A call that raises returns nothing, nor does one whose process is killed. If the
        processor returns values, those items are rerun, all in one call.
        """
        shard_run, returns = self._shard_run, self._processor.returns
        ends = self._whole is not None or stop is Stop.END
        if not ends or not shard_run.is_torn():
            return False
        if returns is None and self._whole is None:
            returns = self._asked()
        if returns is None:
            # Not known. What an earlier process had is better done twice than lost.
            # It is, where the processor raised, outside of an item and in time.
            raised = self._whole is not None and self._whole[1] is Code.FAILED
            returns = shard_run.is_torn() and shard_run.inherited and raised
        return returns

    def _asked(self) -> bool | None:
        """Return whether the processor returns a value, by a call with no item left.

        None: it raised, outside of an item, and so what is not confirmed is undone.
        """
        shard_run = self._shard_run
        shard_run.begin_call()
        value, error = shard_run.limits.attempt(self._processor.process, self._view)
        if error is not None:
            undone = shard_run.take_back(error, Code.FAILED, further=True)
            if undone or (
                shard_run.inherited and shard_run.record.cursor < shard_run.count
            ):
                self._whole = (error, Code.FAILED)
            return None
        returns = value is not None or shard_run.confirmed.left
        shard_run.confirmed.drop_left()
        return returns

    def _close(self) -> Stop:
        """Write the last step; return why the shard stopped."""
        shard_run = self._shard_run
        shard_run.limits.lift()
        stop = shard_run.stop or Stop.END
        if stop is Stop.LOST:
            return stop
        if stop is Stop.TIMED_OUT:
            limit = shard_run.work.options.shard_deadline
            late = f"it took longer than its shard_deadline of {limit} s"
            self._whole = (late, Code.TIMED_OUT)
        if self._value_lost(stop):
            runs = shard_run.policy.attempts() + RUNS
            if shard_run.record.attempt < runs and shard_run.retry_all():
                self._value = None
            else:
                self._whole = self._whole or (TORN, Code.FAILED)
        if self._whole is not None:
            step = _failed(shard_run, *self._whole)
            if shard_run.policy.ends_job:
                stop = Stop.FAILED
            return shard_run.writer.write(step) or stop
        status = STATUS.get(stop, Code.WAITING)
        return shard_run.writer.write(shard_run.last_step(status, self._value)) or stop


STATUS = {
    Stop.END: Code.SUCCEEDED,
    Stop.FAILED: Code.FAILED,
    Stop.KILLED: Code.RUNNING,
}
"""How a shard ends; else it is given back as it is. That of a process which is killed
is freed with its ticket, or by the process that sees its death."""

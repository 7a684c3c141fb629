"""One shard, from its cursor to its end or until it is to stop."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from celery_sharding.model import Code, Step
from celery_sharding.model import Shard as Record
from celery_sharding.policies import FailFast
from celery_sharding.processor import Processor
from celery_sharding.runner import failures
from celery_sharding.runner.course import NOTHING, Course
from celery_sharding.runner.result_buffer import Known
from celery_sharding.runner.shard import Shard
from celery_sharding.runner.step_writer import StepWriter, Stop, Work
from celery_sharding.window import WHOLE

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
    course = Course(record, items, work=work, writer=writer, known=known)
    return Running(processor, course).run()


def fail_shard(
    course: Course, error: BaseException | str, *, returns: bool | None = None
) -> Stop:
    """Fail the shard as a whole, without a call.

    ``returns``: whether its processor returns values, as far as it is known.
    """
    if returns and course.torn:
        course.retry_all()
    return course.writer.write(_failed(course, error, Code.FAILED)) or Stop.END


def _failed(course: Course, error: BaseException | str, code: Code) -> Step:
    """Return the step that ends a shard which failed as a whole.

    Where items are retried, so are those that it left undone.
    """
    retried = code is not Code.DIED and course.stop is not Stop.TIMED_OUT
    if retried and course.put_off():
        logger.warning(
            "sharding: shard %s of job %s failed, and is retried: %r",
            course.record.shard,
            course.work.job.id,
            error,
        )
        return course.last_step(Code.SUCCEEDED, None)
    course.buffer.fail_whole(failures.of_shard(course.record, error, code))
    return course.last_step(code, None)


class Running:
    """Calls a processor as often as its shard needs."""

    def __init__(self, processor: Processor, course: Course) -> None:
        self._processor = processor
        self._course = course
        self._view = Shard(course)
        self._whole: tuple[BaseException | str, Code] | None = None
        """Why the shard fails as a whole."""
        self._value: Any = None
        self._room = course.batch or 0
        """With a batch: how many items the next call gets."""

    def run(self) -> Stop:
        """Call until nothing is left, or no item may be begun."""
        course = self._course
        self._accuse()
        if course.stop is None and course.cursor >= course.count:
            course.stop = Stop.END  # only its end was not written
        while course.stop is None and self._whole is None:
            course.begin_call()
            if course.batch is not None and not self._open_batch():
                break
            began, intact = course.cursor, not course.torn
            value, error = course.limits.attempt(self._processor.process, self._view)
            if error is None:
                self._returned(value, began, intact=intact)
            else:
                self._raised(error, began)
        return self._close()

    def _accuse(self) -> None:
        """Record what killed the processes before this one, if it is known."""
        course = self._course
        guilty = course.window.guilty
        if guilty is None:
            return
        deaths = course.record.deaths
        if guilty == WHOLE:
            self._whole = (KILLS.format(deaths=deaths, what="this shard"), Code.DIED)
            return
        course.at = guilty + 1
        course.fail(KILLS.format(deaths=deaths, what="this item"), Code.DIED)
        course.settle()

    def _open_batch(self) -> bool:
        """Return whether there is a batch to begin; `end` is where it ends."""
        course = self._course
        course.look()
        if course.stop is not None:
            return False
        course.end = course.batch_end(self._room)
        return True

    def _returned(self, value: Any, began: int, *, intact: bool) -> None:
        course = self._course
        took_items = course.at > began
        course.settle()
        course.buffer.call_returned(course.cursor, whole=intact)
        if value is not None or course.left:
            self._processor.returns = True
        elif took_items and self._processor.returns is None:
            self._processor.returns = False
        if course.batch is not None:
            self._room = min(self._room * 2, course.batch)
        if course.stop is None and course.at >= course.count:
            course.stop = Stop.END
        if not took_items and course.stop is None:
            left = course.count - course.cursor
            self._whole = (IDLE.format(left=left), Code.FAILED)
        elif course.stop is Stop.END:
            self._value = value
        elif value is not None and took_items:
            # of a part of the items: it counts beside those of the other parts
            course.ok(value)

    def _raised(self, error: Exception, began: int) -> None:
        course, limits = self._course, self._course.limits
        struck = limits.struck(error)
        over = limits.over() if struck else None
        if over is not None:
            self._interrupted(over, error)
        elif course.batch is not None and course.at > began:
            self._batch_raised(error, struck)
        elif course.in_hand is not None:
            course.buffer.drop_results(course.at - 1)
            course.fail(error, Code.TIMED_OUT if struck else Code.FAILED)
            course.settle()
            if course.stop is None and course.at >= course.count:
                course.stop = Stop.END
        elif struck and course.stop is None and began < course.at == course.cursor:
            pass  # between two items: the next call goes on
        else:
            code = Code.TIMED_OUT if struck else Code.FAILED
            ends = course.stop in (None, Stop.END)
            # Where no call has returned, those before may have lost a value, too.
            further = ends and self._processor.returns is None
            course.take_back(error, code, further=further)
            if ends:
                self._whole = (error, code)
            else:
                logger.warning(
                    "sharding: %r raised when it was to stop, and what it has not"
                    " confirmed is run later: %r",
                    self._view,
                    error,
                )

    def _interrupted(self, over: Stop, error: Exception) -> None:
        """Handle the end of the shard's or the job's time, in an item or outside."""
        course = self._course
        if course.in_hand is None:
            course.take_back(error, Code.TIMED_OUT)
        course.buffer.drop_results(course.cursor)
        course.failing.clear()
        course.at = course.cursor
        course.stop = over

    def _batch_raised(self, error: Exception, struck: bool) -> None:
        course = self._course
        size = course.end - course.cursor
        course.buffer.drop_results(course.cursor)
        course.failing.clear()
        if size > 1:
            self._room = max(1, size // 2)
            course.at = course.cursor
            return
        course.fail(error, Code.TIMED_OUT if struck else Code.FAILED)
        course.settle()
        if course.stop is None and course.at >= course.count:
            course.stop = Stop.END

    def _value_lost(self, stop: Stop) -> bool:
        """Return whether the value of items that ended well went with their call.

        A call that raises returns nothing, nor does one whose process is killed. If the
        processor returns values, those items are rerun, all in one call.
        """
        course, returns = self._course, self._processor.returns
        ends = self._whole is not None or stop is Stop.END
        if not ends or not course.torn:
            return False
        if returns is None and self._whole is None:
            returns = self._asked()
        if returns is None:
            # Nobody knows. What an earlier process had is better done twice than lost.
            torn = course.buffer.torn(course.cursor)
            returns = torn and course.inherited and self._failed_whole()
        return returns

    def _failed_whole(self) -> bool:
        """Return whether the processor raised, outside of an item and in time."""
        return self._whole is not None and self._whole[1] is Code.FAILED

    def _asked(self) -> bool | None:
        """Return whether the processor returns a value, by a call with no item left.

        None: it raised, outside of an item, and so what is not confirmed is undone.
        """
        course = self._course
        course.begin_call()
        value, error = course.limits.attempt(self._processor.process, self._view)
        if error is not None:
            undone = course.take_back(error, Code.FAILED, further=True)
            if undone or (course.inherited and course.record.cursor < course.count):
                self._whole = (error, Code.FAILED)
            return None
        returns = value is not None or course.left
        course.drop_left()
        return returns

    def _close(self) -> Stop:
        """Write the last step; return why the shard stopped."""
        course = self._course
        course.limits.lift()
        stop = course.stop or Stop.END
        if stop is Stop.LOST:
            return stop
        if stop is Stop.TIMED_OUT:
            limit = course.work.options.shard_deadline
            late = f"it took longer than its shard_deadline of {limit} s"
            self._whole = (late, Code.TIMED_OUT)
        if self._value_lost(stop):
            runs = course.policy.attempts() + RUNS
            if course.record.attempt < runs and course.retry_all():
                self._value = None
            else:
                self._whole = self._whole or (TORN, Code.FAILED)
        if self._whole is not None:
            step = _failed(course, *self._whole)
            if isinstance(course.policy, FailFast):
                stop = Stop.FAILED
            return course.writer.write(step) or stop
        status = STATUS.get(stop, Code.WAITING)
        return course.writer.write(course.last_step(status, self._value)) or stop


STATUS = {
    Stop.END: Code.SUCCEEDED,
    Stop.FAILED: Code.FAILED,
}
"""How a shard ends; else it is given back as it is."""

"""The slow lane: Celery's own `apply_entry`, one message after the other.

Everything that watches or changes the sending of a message sees what it expects:
signals, Sentry, OpenTelemetry, a task's own `apply_async`, any transport. On Redis
kombu collects the messages in `Producer.batch()` and sends them in one round trip (from
5.7 on; before, each at once); on RabbitMQ they are confirmed at the end.

`Scheduler.apply_entry` swallows exceptions, so it runs on a look-alike of the
scheduler (same class but for one method, same attributes) that keeps them.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from celery.beat import ScheduleEntry, Scheduler
from kombu.exceptions import EncodeError

from celery_pecker.brokers.publisher.bulk_lanes import Pushed
from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.publisher.lanes import Dispatch
from celery_pecker.brokers.publisher.message_template import for_slot
from celery_pecker.kernel import user_code
from celery_pecker.kernel.errors import BrokerUnavailable

BATCH = 1000
# kombu sends a full buffer in the middle, and then it is not known whose message
# failed; 1 LPUSH and some PEXPIRE a message never fill this one.
_NEVER_FULL = 1_000_000

Work = Sequence[tuple[ScheduleEntry, Dispatch]]


class SlowLane:
    """Sends entries as Celery's beat does."""

    def __init__(
        self,
        app: Any,
        scheduler: Scheduler,
        broker: BrokerConnection,
        suspects: set[str],
    ) -> None:
        self._broker = broker
        self._failures: list[BaseException] = []
        self._scheduler = _recording_scheduler(scheduler, self._failures)
        self._producer_type: Any = type(
            "Watched", (_RecordingProducer, app.amqp.Producer), {}
        )
        self._suspects = suspects

    def send(self, work: Work) -> Pushed[str]:
        """Return what became of each message; a broken connection ends it.

        A message that the broker refuses may take with it what is sent together with
        it: on RabbitMQ it closes the channel (its exchange is gone, it expires later
        than RabbitMQ can count), on Redis its batch fails. So each entry among them
        goes last the next time, alone, until it has arrived.
        """
        outcome = Pushed[str]()
        one_batch = self._confirmed if self._broker.confirms else self._batched
        calm = [w for w in work if w[1].name not in self._suspects]
        wary = [w for w in work if w[1].name in self._suspects]
        batches = [calm[start : start + BATCH] for start in range(0, len(calm), BATCH)]
        for batch in (*batches, *([one] for one in wary)):
            try:
                self._broker.in_time()
                one_batch(batch, outcome)
            except BrokerUnavailable as error:
                outcome.broken = error
            except self._broker.broken_by as error:
                outcome.broken = error
            if outcome.broken is not None:
                self._broker.refused(outcome.broken.__cause__ or outcome.broken)
                self._broker.drop()
                break
        return outcome

    def _batched(self, work: Work, outcome: Pushed[str]) -> None:
        """Send all in one round trip where the transport can, else each at once."""
        producer = self._producer_type(self._broker)
        together = getattr(producer, "supports_batch_publish", False)
        gathered: set[str] = set()
        names = {dispatch.name for _, dispatch in work}
        sending = False
        done = gathered if together else outcome.sent
        try:
            with producer.batch(max_size=_NEVER_FULL) if together else nullcontext():
                for entry, dispatch in work:
                    self._apply(entry, dispatch, producer, outcome, done)
                # what leaves this block in order is sent by its end
                sending = True
        except self._broker.broken_by as error:
            cause = error.__cause__ or error
            if not self._broker.transport.concerns_message(cause):
                outcome.uncertain |= sending or not together
                raise
            self._set_apart(work, outcome, cause)
            return
        self._suspects -= names
        outcome.sent |= gathered

    def _set_apart(
        self, work: Work, outcome: Pushed[str], error: BaseException
    ) -> None:
        """Take in that the broker refused one of these: if it is alone, it is known."""
        if len(work) == 1:
            outcome.refused[work[0][1].task_id] = str(error)
        else:
            self._suspects |= {dispatch.name for _, dispatch in work}
            outcome.uncertain = True

    def _confirmed(self, work: Work, outcome: Pushed[str]) -> None:
        """Send all; RabbitMQ has confirmed, refused, or lost each of them."""
        broker = self._broker
        confirms = broker.confirms
        if confirms is None:
            raise BrokerUnavailable
        confirms.begin_batch()
        producer = self._producer_type(broker)
        names = {dispatch.name for _, dispatch in work}
        sent: set[str] = set()
        lost: frozenset[str] = frozenset()
        try:
            for entry, dispatch in work:
                confirms.expect_next(dispatch.task_id)
                self._apply(entry, dispatch, producer, outcome, sent)
            confirms.wait(broker.timeout)
            if confirms.open:
                raise TimeoutError(
                    f"RabbitMQ did not confirm {len(confirms.open)} messages"
                )
            self._suspects -= names
        except broker.refused_by as error:
            lost = confirms.open
            confirms.start()
            self._set_apart(work, outcome, error)
        except broker.broken_by:
            outcome.uncertain = True
            raise
        finally:
            outcome.refused |= confirms.refused
            outcome.sent |= sent - lost - confirms.open - confirms.refused.keys()

    def _apply(
        self,
        entry: ScheduleEntry,
        dispatch: Dispatch,
        producer: Any,
        outcome: Pushed[str],
        done: set[str],
    ) -> None:
        """Celery has sent the entry, or it is refused; a broken connection raises."""
        self._failures.clear()
        producer.failure = None
        try:
            slot = for_slot(
                entry,
                task_id=dispatch.task_id,
                header=dict(dispatch.header),
                expires=dispatch.expires,
            )
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            outcome.refused[dispatch.task_id] = f"its options are odd: {error!r}"
            return
        self._scheduler.apply_entry(slot, producer=producer)
        if producer.failure is not None:
            raise producer.failure
        if self._failures:
            outcome.refused[dispatch.task_id] = _why(self._failures[-1])
        else:
            done.add(dispatch.task_id)


def _why(error: BaseException) -> str:
    """Return why Celery did not send a message."""
    cause = error.__cause__ or error.__context__ or error
    if isinstance(cause, EncodeError):
        return f"its arguments cannot be encoded: {cause}"
    return str(error)


class Undeclarable(Exception):
    """The broker would not declare a queue or an exchange of the entry's."""


class _RecordingProducer:
    """Laid over the app's producer: declares aside, keeps what breaks a connection."""

    def __init__(self, broker: BrokerConnection) -> None:
        self._pecker_broker = broker
        self.failure: BaseException | None = None
        super().__init__(broker.channel, auto_declare=False)  # type: ignore[call-arg]

    def maybe_declare(
        self, entity: Any, retry: bool = False, **_policy: object
    ) -> None:
        """Declare the entity; a refusal does not close the channel of messages."""
        refusal = self._pecker_broker.declare([entity])
        if refusal is not None:
            raise Undeclarable(refusal)

    def _publish(self, *args: Any, **kwargs: Any) -> Any:
        """Publish what is built: here the broker is met, and nothing else."""
        broker = self._pecker_broker
        try:
            return super()._publish(*args, **kwargs)  # type: ignore[misc]
        except (*broker.failed_by, *broker.transport.ends_batch) as error:
            if not broker.transport.concerns_message(error):
                self.failure = error
            raise


def _recording_scheduler(
    scheduler: Scheduler, failures: list[BaseException]
) -> Scheduler:
    """Return an object with the scheduler's class and attributes that keeps failures.

    `vars` of both are one dictionary: what either changes, both have.
    """
    own = type(scheduler)

    def apply_async(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            with user_code.no_exit("the entry's code"):
                return own.apply_async(self, *args, **kwargs)
        except BaseException as error:
            failures.append(error)
            raise

    twin = type(own.__name__, (own,), {"apply_async": apply_async})
    look_alike: Scheduler = object.__new__(twin)
    look_alike.__dict__ = scheduler.__dict__
    return look_alike

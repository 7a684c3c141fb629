"""RabbitMQ: what is moved is published, confirmed, then acknowledged.

Nothing waits for an answer: messages go out over a channel of its own, and are
acknowledged as their confirmations come in with all else that the loop reads.
"""

import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import amqp
from celery.worker.consumer.tasks import Tasks
from kombu import Exchange, Queue

from celery_pecker.kernel.clock import monotonic
from throttle.worker.brokers.broker import Broker, Held, Parking, Request

SOURCE = "throttle_source"
"""Header of a parked message: exchange and routing key that it came by."""
COPIED = ("x-queue-type", "x-max-priority")
"""Arguments of a source queue that its parking queues share."""
LAST = 1.0
"""Seconds that the last confirmations are waited for."""
RETRY_INTERVAL = 60.0
"""Seconds until a parking queue that was refused is asked for once more."""


def _prefetch_is_shared(consumer: Any) -> bool:
    """Return what Celery learned when it began to consume; before 5.7 it keeps it."""
    known = getattr(consumer, "qos_global", None)
    step: Any = Tasks
    return bool(step.qos_global(None, consumer) if known is None else known)


@dataclass(slots=True)
class Sent:
    """A message on its way to a parking queue."""

    held: Held
    parking: Parking
    returned: bool = False
    """The queue is not there: the confirmation will say nothing else."""


class AmqpBroker(Broker):
    """Holds as long as RabbitMQ lets it, moves by confirmed publishes."""

    def _is_elastic(self) -> bool:
        # Prefetch by consumer is fixed when the consumer starts: quorum queues, and
        # RabbitMQ from 4.0 on.
        return _prefetch_is_shared(self._consumer)

    def _prepare(self) -> None:
        keep_frames_whole(self._consumer.connection.connection, self._channel)
        self._way: Any = None
        """The channel that messages are published by."""
        self._number = 0
        self._sent: dict[int, Sent] = {}
        self._declared: set[str] = set()
        self._refused: dict[str, float] = {}

    def _return(self, message: Any) -> None:
        message.reject(requeue=True)

    def park(self, database: str, held: Sequence[Held]) -> None:
        """Send these to the parking queue; report which arrived."""
        for one in held:
            parking = self.parking_of(database, self.queue_of(one.request))
            if not self._there(parking):
                self._callbacks.kept(one)
                continue
            try:
                self._publish(one, parking)
            except self._errors as error:
                self._once.warning("park", "a message stays held: %s", error)
                self._callbacks.kept(one)

    def _publish(self, held: Held, parking: Parking) -> None:
        message = held.request.message
        info = message.delivery_info
        headers = {**message.headers, SOURCE: [info["exchange"], info["routing_key"]]}
        headers.pop("compression", None)  # kombu has undone it
        properties = {**message.properties, "application_headers": headers}
        way = self._open()
        self._number += 1
        self._sent[self._number] = Sent(held, parking)
        # Not `basic_publish`, which may be the one that waits for the confirmation
        way._basic_publish(  # noqa: SLF001
            amqp.Message(message.body, **properties),
            routing_key=parking.name,
            mandatory=True,
        )

    # Confirmations

    def _confirmed(self, number: int, multiple: bool) -> None:
        for sent in self._settled(number, multiple=multiple):
            if sent.returned:
                self._declared.discard(sent.parking.name)
                self._callbacks.kept(sent.held)
                continue
            sent.held.request.acknowledge()
            self._callbacks.parked(sent.held)

    def _refused_by_broker(self, number: int, multiple: bool) -> None:
        for sent in self._settled(number, multiple=multiple):
            self._callbacks.kept(sent.held)

    def _settled(self, number: int, *, multiple: bool) -> list[Sent]:
        numbers = [one for one in self._sent if one <= number] if multiple else [number]
        return [self._sent.pop(one) for one in numbers if one in self._sent]

    def _returned(
        self, error: Exception, exchange: str, key: str, message: Any
    ) -> None:
        # Before its confirmation. The oldest one of its task that is on its way there.
        task = (message.headers or {}).get("id")
        for sent in self._sent.values():
            if (
                not sent.returned
                and sent.parking.name == key
                and sent.held.request.id == task
            ):
                sent.returned = True
                return

    # Queues

    def queue_of(self, request: Request) -> str:
        """Return the queue that the message came from, or was parked from."""
        tag = request.message.delivery_info.get("consumer_tag")
        for queue, mine in self._tasks._active_tags.items():  # noqa: SLF001
            if mine == tag:
                return str(queue)
        return super().queue_of(request)

    def _bound(self, exchange: str, key: str) -> list[str]:
        return []

    def _there(self, parking: Parking) -> bool:
        """Declare the parking queue; return whether it exists."""
        if parking.name in self._declared:
            return True
        if (
            monotonic() - self._refused.get(parking.name, -RETRY_INTERVAL)
            < RETRY_INTERVAL
        ):
            return False
        try:
            self._declare(parking)
        except self._errors as error:
            self._refused[parking.name] = monotonic()
            self._once.warning(
                parking.name, "the parking queue %s is refused: %s", parking.name, error
            )
            return False
        self._declared.add(parking.name)
        return True

    def _declare(self, parking: Parking) -> None:
        way = self._open()
        # Gone from the consumer if it was cancelled
        source = next(
            (queue for queue in self._tasks.queues if queue.name == parking.queue), None
        )
        arguments = (source and source.queue_arguments) or {}
        shared = {key: arguments[key] for key in COPIED if key in arguments}
        if source and source.max_priority:
            shared["x-max-priority"] = source.max_priority
        queue = Queue(
            parking.name,
            Exchange(""),
            parking.name,
            durable=True,
            queue_arguments=shared,
        )
        try:
            queue(way).declare()
        except amqp.PreconditionFailed:  # it is there, as its owner wants it
            self._shut()
        except self._errors:
            self._shut()
            raise

    def _open(self) -> Any:
        if self._way is None or not self._way.is_open:
            # What was on its way over a channel that is closed is still held by us
            left, self._sent, self._number = list(self._sent.values()), {}, 0
            self._way = self._consumer.connection.channel()
            self._way.confirm_select()
            self._way.events["basic_ack"].add(self._confirmed)
            self._way.events["basic_nack"].add(self._refused_by_broker)
            self._way.events["basic_return"].add(self._returned)
            for sent in left:
                self._callbacks.kept(sent.held)
        return self._way

    def _shut(self) -> None:
        # amqp reopens a channel that RabbitMQ closed, but without confirmations
        way, self._way = self._way, None
        with suppress(*self._errors):
            way.close()

    def _exists(self, parking: Parking) -> bool:
        return self._there(parking)

    def _source(self, message: Any) -> dict[str, Any]:
        headers = message.properties.get("application_headers") or {}
        exchange, key = headers.pop(SOURCE, ("", message.delivery_info["routing_key"]))
        return {**message.delivery_info, "exchange": exchange, "routing_key": key}

    def stop(self) -> None:
        """Consume nothing any more; wait for most of what was on its way.

        What is not confirmed within a second is delivered twice.
        """
        super().stop()
        until = monotonic() + LAST
        with suppress(*self._errors):
            while self._sent and (left := until - monotonic()) > 0:
                self._consumer.connection.drain_events(timeout=left)

    # The channel's

    def _cancel(self, queue: str, tag: str) -> None:
        # Without waiting: what is on its way comes to us, and nothing is delivered
        # in the middle of another callback.
        self._channel.basic_cancel(tag, nowait=True)

    def _consume(self, queue: str, tag: str, callback: Any) -> None:
        self._channel.basic_consume(
            queue,
            consumer_tag=tag,
            callback=callback,
            nowait=True,
            on_cancel=self._cancelled,
        )

    def _cancelled(self, tag: str) -> None:
        # The queue was deleted. It is remade when it is needed.
        parking = self._attended.pop(tag, None)
        if parking is not None:
            self._declared.discard(parking.name)


# Celery's handlers of SIGINT, SIGTERM and SIGQUIT write to the broker themselves: a
# cold shutdown cancels the consumers. py-amqp's writer holds a lock that is not re-
# entrant. A handler that runs while this thread is in the writer waits for that lock
# for ever, and the worker never ends.
#
# So with reading: a handler that runs between the first octet of a frame and its last
# waits for an answer, and takes the rest of that frame for the next one. From then on
# no frame is understood, and each answer is waited for in vain: five seconds each on
# Celery 5.7.
WRITING = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


class Deferral:
    """Run handlers of signals that come inside the block when it has ended.

    On other threads than the main one, which runs all handlers, it does nothing.
    """

    def __init__(self) -> None:
        self._blocks = 0
        self._came: list[int] = []

    def watch(self) -> None:
        """Stand before the handlers that there are, and before those that they set."""
        for number in WRITING if _on_main_thread() else ():
            before = signal.getsignal(number)
            ours = isinstance(before, partial) and before.func == self._handle
            if callable(before) and not ours:
                signal.signal(number, partial(self._handle, before))

    def _handle(self, before: Callable[..., object], number: int, frame: Any) -> None:
        if self._blocks:
            self._came.append(number)
            return
        try:
            before(number, frame)
        finally:  # a cold shutdown begins by setting others
            self.watch()

    def __enter__(self) -> None:
        self._blocks += _on_main_thread()

    def __exit__(self, *_: object) -> None:
        self._blocks -= _on_main_thread()
        while self._came and not self._blocks and _on_main_thread():
            signal.raise_signal(self._came.pop(0))


deferral = Deferral()


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def keep_frames_whole(connection: Any, channel: Any) -> None:
    """Have py-amqp read and write each frame to its end before a handler runs.

    What a frame brings to the channel is dispatched with handlers running again: on a
    solo pool that is a whole task.
    """
    transport, reading = connection.transport, ExitStack()
    read_frame, write_frame = transport.read_frame, connection.frame_writer
    take, dispatch = connection.on_inbound_frame, channel.dispatch_method

    def read_whole(*args: Any, **options: Any) -> Any:
        _await_frame(transport)
        reading.enter_context(deferral)
        try:
            return read_frame(*args, **options)
        except BaseException:
            reading.close()
            raise

    def take_whole(frame: Any) -> Any:
        try:
            return take(frame)
        finally:
            reading.close()

    def dispatch_released(*args: Any) -> Any:
        reading.close()
        return dispatch(*args)

    def write_whole(*args: Any) -> Any:
        with deferral:
            return write_frame(*args)

    transport.read_frame, connection.frame_writer = read_whole, write_whole
    connection.on_inbound_frame = take_whole
    channel.dispatch_method = dispatch_released
    deferral.watch()


def _await_frame(transport: Any) -> None:
    """Wait, as the read that follows would, until it has something to read.

    Raises:
        TimeoutError: Nothing came in the socket's time.
    """
    sock = transport.sock
    buffered = transport._read_buffer or getattr(sock, "pending", int)()  # noqa: SLF001
    if sock is not None and not buffered:
        # The class's own, as those of TLS refuse to look without taking
        with suppress(BlockingIOError, ConnectionError):  # the read meets it again
            socket.socket.recv(sock, 1, socket.MSG_PEEK)

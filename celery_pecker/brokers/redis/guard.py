"""A worker lives through a restart of Redis, and so does what it holds.

Celery's worker on Redis holds messages: those that it runs with a late
acknowledgement, and those that it fetched ahead. kombu keeps them in the hash
`unacked` under their delivery tag. When the connection breaks, Celery 5.7 closes the
channel twice; the second time kombu tries to give the held messages back over a
connection that has no address any more, raises an AttributeError that counts as no
connection error, and the worker exits.

The guard takes the held messages over before the channel is closed, and settles each
one over the next connection, by its tag:

* not started: given back to its queue, in its old order, exactly once;
* running, or in the hands of a pool that cannot return it: kept. No other worker gets
  it from us, and when it ends (or starts, with an early acknowledgement) its
  acknowledgement goes over the new connection;
* acknowledged or rejected while Redis was away: that is done now;
* taken out of the queue, but not yet in `unacked` when Redis died: put back;
* not there any more (Redis came back without its data) or fetched by another worker
  since (the visibility timeout ran out): left alone.

What is left: a message that Redis handed out in the very answer that never arrived is
lost (kombu fetches with BRPOP). A replica that takes over without the last writes may
hand out again what was running. A task longer than the visibility timeout is handed
out again, as always on Redis. A worker that ends while Redis is away leaves its
messages to the visibility timeout. Channels other than the one that tasks come from
(a consumer step of the user's) are not guarded.

Nothing is patched for the whole process: the guard hangs on one consumer and on the
channel it consumes from, and ends with them.

On a broken connection Celery empties its own lists of what waits, and asks the pool to
drop what no process has accepted. Only prefork can; threads, greenlets and solo go on
with all they were given.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from importlib.resources import files
from itertools import islice
from typing import Any

from celery.concurrency.prefork import TaskPool as Prefork
from kombu.transport import redis as transport
from kombu.utils.json import dumps
from redis.exceptions import ResponseError

from celery_pecker.kernel.clock import SYSTEM


class Disposition(StrEnum):
    """What becomes of a held message over the next connection."""

    OPEN = "open"
    """Not decided: the pool has not been asked yet."""
    KEPT = "kept"
    """The pool has it; its own acknowledgement will decide."""
    DONE = "done"
    """Acknowledged or rejected: forgotten by Redis."""
    BACK = "back"
    """Not started: first in its queue again."""
    LAST = "last"
    """Rejected by a run that asks for another one: last in its queue."""


SETTLED_BY_US = frozenset({Disposition.DONE, Disposition.BACK, Disposition.LAST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A message of a lost connection."""

    tag: str
    message: Any
    lost_at: float
    """Seconds since 1970, as kombu stamps deliveries: a later stamp is another's."""
    disposition: Disposition = Disposition.OPEN
    request: Any = None
    """Celery's request, if the message was handed to the pool."""
    recorded: bool = True
    """False if the connection broke between the fetch and the record in `unacked`."""


def sent_jobs(pool: Any) -> list[Any]:
    """Return jobs on their way to a process: written, or begun, not yet accepted.

    Celery drops these too, but the process runs what arrives. To be asked before the
    pool is flushed.
    """
    return [
        job
        for job in _jobs(pool).values()
        if not job._accepted and job._write_to is not None  # noqa: SLF001
    ]


def put_back(pool: Any, jobs: list[Any]) -> None:
    """Return to the pool those of the jobs that a live process will run.

    Without this their acceptance and their result are thrown away, a message that is
    running would count as not started, and its process as idle.
    """
    if not jobs:
        return
    billiard = pool._pool  # noqa: SLF001
    for job in jobs:
        process = job._write_to  # noqa: SLF001
        if not job.ready() and process._is_alive():  # noqa: SLF001
            billiard._cache.setdefault(job._job, job)  # noqa: SLF001
            billiard._busy_workers.add(process.inqW_fd)  # noqa: SLF001


def pool_has(pool: Any, request: Any) -> bool:
    """Return whether the pool runs the request or will run it."""
    if request._already_cancelled or request._apply_result is None:  # noqa: SLF001
        # Terminated because the connection broke; or it never came to the pool.
        return False
    if not isinstance(pool, Prefork):
        return True
    job = request._apply_result()  # noqa: SLF001 — a weak reference
    return job is not None and job._job in _jobs(pool)  # noqa: SLF001


def _jobs(pool: Any) -> dict[int, Any]:
    if not isinstance(pool, Prefork):
        return {}
    billiard: Any = getattr(pool, "_pool", None)
    return billiard._cache if billiard is not None else {}  # noqa: SLF001


logger = logging.getLogger("celery_pecker.worker")

BATCH = 100
SCRIPT = files(__package__).joinpath("settle.lua").read_text(encoding="utf-8")

# A queue is pushed to on the left and popped from on the right.
PUSH = {Disposition.BACK: "RPUSH", Disposition.LAST: "LPUSH", Disposition.DONE: ""}


def settle(channel: Any, messages: Sequence[Held]) -> Iterator[tuple[Held, bool]]:
    """Settle each message with a decided disposition over `channel`, exactly once.

    Yields it with whether there was anything to settle, batch by batch, so that what
    was done is known if the connection breaks on the way. A message whose queue is
    unknown to Redis is left where it is, and not among them.
    """
    known: dict[tuple[str, str], list[str]] = {}
    calls = iter(
        (held, keys)
        for held in messages
        if (keys := _keys(channel, held, known)) is not None
    )
    if not messages:
        return
    client = channel._create_client()  # noqa: SLF001 — as kombu makes its own
    script = client.register_script(SCRIPT)
    while batch := list(islice(calls, BATCH)):
        with client.pipeline(transaction=False) as pipe:
            for held, keys in batch:
                script(keys=keys, args=_arguments(held), client=pipe)
            answers = pipe.execute()
        yield from zip(
            (held for held, _ in batch),
            (answer == 1 for answer in answers),
            strict=True,
        )


def _keys(
    channel: Any, held: Held, known: dict[tuple[str, str], list[str]]
) -> list[str] | None:
    queues: list[str] = []
    if held.disposition is not Disposition.DONE:
        info = held.message.delivery_info
        route = (info["exchange"], info["routing_key"])
        if route not in known:
            known[route] = channel._lookup(*route)  # noqa: SLF001 — kombu's own way back
        if not known[route]:
            return None
        raw = held.message._raw  # noqa: SLF001 — what was sent, as it was sent
        priority = channel._get_message_priority(raw, reverse=False)  # noqa: SLF001
        queues = [channel._q_for_pri(queue, priority) for queue in known[route]]  # noqa: SLF001
    # kombu's prefixing client knows scripts with one key only and prefixes that.
    prefix = channel.global_keyprefix
    others = [channel.unacked_key, *queues]
    return [channel.unacked_index_key, *(f"{prefix}{key}" for key in others)]


def _arguments(held: Held) -> list[str]:
    payload = ""
    if held.disposition is not Disposition.DONE:
        raw = held.message._raw  # noqa: SLF001 — see above
        raw.setdefault("headers", {})["redelivered"] = True
        raw["properties"].setdefault("delivery_info", {})["redelivered"] = True
        payload = dumps(raw)
    recorded = "1" if held.recorded else "0"
    return [held.tag, repr(held.lost_at), recorded, PUSH[held.disposition], payload]


def keep_client(channel: Any) -> None:
    """Let a channel of kombu's Redis transport use one client as long as its pool.

    kombu makes a client for each call that it does not send over the connection it
    reads from: two for a message, one to record it and one to acknowledge it. redis-py
    fills a table of some 170 commands for each: a fourth of what the main process of a
    worker spends on a task that does nothing. A client keeps nothing but that table and
    its pool, so that one serves them all.
    """
    make = channel._create_client  # noqa: SLF001 - what kombu calls for each
    kept: dict[Any, Any] = {}

    def create(asynchronous: bool = False) -> Any:
        if asynchronous:  # of these kombu keeps what it needs
            return make(asynchronous=True)
        pool = channel.pool
        client = kept.get(pool)
        if client is None:
            kept.clear()
            client = kept[pool] = make()
        return client

    channel._create_client = create  # noqa: SLF001 - as above


class RedisGuard:
    """Holds what a worker had when its connection to Redis broke, and settles it.

    All of it runs where Celery acknowledges: in the thread of the worker's loop.
    """

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._qos: Any = None
        """kombu's record of the messages of the living connection, if there is one."""
        self._handed: dict[str, Any] = {}
        """Requests given to the worker's pool and not acknowledged, by delivery tag."""
        self._held: dict[str, Held] = {}
        """Messages of lost connections, oldest first."""

    def watch(self) -> None:
        """Follow this worker's consumer from connection to connection.

        The consumer lives as long as the worker, so there is nothing to undo.
        """
        consumer = self._worker.consumer
        consumer.on_task_request = partial(self._hand, consumer.on_task_request)
        consumer.on_connection_error_after_connected = partial(
            self._lose, consumer.on_connection_error_after_connected
        )
        consumer.on_close = partial(self._sort, consumer.on_close)
        consumer.on_ready = partial(self._resume, consumer.on_ready)

    # The consumer's moments, in the order of a loss

    def _hand(self, process: Any, request: Any) -> None:
        self._handed[request.message.delivery_tag] = request
        process(request)

    def _lose(self, go_on: Any, error: Exception) -> None:
        # Before Celery closes the connection: with nothing left to give back, closing
        # a dead channel is harmless, and closing one that only this worker lost (the
        # server is well) does not hand out again what still runs here.
        qos, self._qos = self._qos, None
        if qos is not None:
            qos._flush()  # noqa: SLF001 — what was acknowledged is not held
            for tag, message in qos._delivered.items():  # noqa: SLF001
                self._hold(tag, message)
            qos._delivered.clear()  # noqa: SLF001
        go_on(error)

    def _sort(self, go_on: Any) -> None:
        # Around Celery's own clearing of buckets, timers, semaphore and pool: before
        # it, a message may still be started; after it, the pool knows what it has.
        pool = self._worker.pool
        sent = sent_jobs(pool)
        go_on()
        put_back(pool, sent)
        for tag, held in self._held.items():
            if held.disposition not in SETTLED_BY_US:
                keep = held.request is not None and pool_has(pool, held.request)
                disposition = Disposition.KEPT if keep else Disposition.BACK
                self._held[tag] = replace(held, disposition=disposition)
                if not keep:
                    self._handed.pop(tag, None)

    def _resume(self, go_on: Any) -> None:
        # Before the first message of the new connection is read.
        go_on()
        channel = self._worker.consumer.task_consumer.channel
        if not isinstance(channel.qos, transport.QoS):
            return  # ack_emulation is off: Redis records nothing that could be settled
        keep_client(channel)
        qos: Any = channel.qos
        qos.append = partial(self._append, qos, qos.append)
        qos._quick_ack = partial(self._let_go, qos._quick_ack)  # noqa: SLF001
        qos.ack = partial(self._ack, qos, qos.ack)
        qos.reject = partial(self._reject, qos, qos.reject)
        qos.restore_unacked_once = partial(self._end, qos, qos.restore_unacked_once)
        self._qos = qos
        if self._held:
            self._report(self._settle())

    # The channel's calls

    def _append(self, qos: Any, append: Any, message: Any, tag: str) -> None:
        try:
            append(message, tag)
        except qos.channel.connection_errors:
            # Fetched, and perhaps not recorded: we alone know of it.
            self._hold(tag, message, recorded=False)
            raise

    def _ack(self, qos: Any, ack: Any, tag: str) -> None:
        if self._held:
            self._conclude(qos, partial(ack, tag), tag, Disposition.DONE)
            return
        # As for nearly all messages: nothing to look up, nothing to settle
        try:
            ack(tag)
        except qos.channel.connection_errors as error:
            self._conclude(qos, partial(_fail, error), tag, Disposition.DONE)

    def _reject(self, qos: Any, reject: Any, tag: str, requeue: bool = False) -> None:
        disposition = Disposition.LAST if requeue else Disposition.DONE
        self._conclude(qos, partial(reject, tag, requeue=requeue), tag, disposition)

    def _let_go(self, forget: Any, tag: str) -> None:
        # Acknowledged, or moved to another queue
        self._handed.pop(tag, None)
        forget(tag)

    def _end(self, qos: Any, restore: Any, stderr: Any = None) -> None:
        # The channel is closed. In good order, the worker ends: what it leaves undone
        # goes back to the queues, also what came over earlier connections.
        if qos is self._qos:
            self._qos = None
            left = {
                tag: held.message
                for tag, held in self._held.items()
                if held.disposition not in SETTLED_BY_US
            }
            qos._delivered.update(left)  # noqa: SLF001
        restore(stderr)

    # What follows from them

    def _hold(self, tag: str, message: Any, *, recorded: bool = True) -> None:
        if tag not in self._held:
            self._held[tag] = Held(
                tag=tag,
                message=message,
                lost_at=SYSTEM.now().timestamp(),
                request=self._handed.get(tag),
                recorded=recorded,
            )

    def _conclude(
        self, qos: Any, send: Any, tag: str, disposition: Disposition
    ) -> None:
        self._handed.pop(tag, None)
        away: Exception | None = None
        if tag not in self._held:
            try:
                send()
            except qos.channel.connection_errors as error:
                # Redis is away and the loop has not noticed. Celery would log this,
                # forget it, and run the finished task again an hour later.
                self._hold(tag, qos._delivered.get(tag))  # noqa: SLF001
                qos._quick_ack(tag)  # noqa: SLF001
                away = error
        if tag in self._held:
            self._held[tag] = replace(self._held[tag], disposition=disposition)
        if self._held and self._qos is not None and away is None:
            # Also when this one went through: an earlier one may have failed for a
            # moment only, with no loss of the connection to follow.
            try:
                self._settle()
            except self._qos.channel.connection_errors as error:
                away = error
        if away is not None:
            logger.info("pecker: an acknowledgement waits for Redis: %s", away)

    def _settle(self) -> Counter[str]:
        """Settle the messages whose disposition is decided; count what was done."""
        counts: Counter[str] = Counter()
        due = [
            held for held in self._held.values() if held.disposition in SETTLED_BY_US
        ]
        # The oldest is given back last, so that it is the first in its queue.
        due.reverse()
        try:
            for held, outcome in settle(self._qos.channel, due):
                self._held.pop(held.tag, None)
                counts[held.disposition if outcome else "gone"] += 1
        except ResponseError as error:
            # Out of memory, read only, forbidden: they stay in `unacked`. Exiting
            # because of it, as Celery would, does not help.
            logger.warning("pecker: Redis refused to settle held messages: %s", error)
        return counts

    def _report(self, counts: Counter[str]) -> None:
        kept = sum(held.disposition is Disposition.KEPT for held in self._held.values())
        logger.info(
            "pecker: reconnected to Redis; of the messages held when the connection "
            "broke %d went back to their queues, %d are acknowledged, %d still run "
            "here, %d are no longer ours, %d wait",
            counts[Disposition.BACK] + counts[Disposition.LAST],
            counts[Disposition.DONE],
            kept,
            counts["gone"],
            len(self._held) - kept,
        )


def _fail(error: Exception) -> None:
    """Raise what has been raised: it is not tried twice."""
    raise error

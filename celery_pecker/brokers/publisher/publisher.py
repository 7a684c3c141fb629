"""The seam to Celery: many task messages to the broker in one go. See the package."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from celery.beat import ScheduleEntry, Scheduler

from celery_pecker.brokers.publisher.bulk_lanes import FastLane, Pushed
from celery_pecker.brokers.publisher.connection import BrokerConnection
from celery_pecker.brokers.publisher.lanes import (
    Dispatch,
    LaneRefused,
    NoTemplate,
    SignalReceivers,
    Unbuildable,
    entry_reason,
    names_in,
)
from celery_pecker.brokers.publisher.message_template import (
    UNREADABLE,
    Route,
    build_template,
)
from celery_pecker.brokers.publisher.slow_lane import SlowLane
from celery_pecker.brokers.publisher.transport import Transport
from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.kernel.errors import (
    BrokerUnavailable,
    PublishRefused,
    PublishUncertain,
)
from celery_pecker.kernel.lease import TrustWindow

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    """An entry, and its message if it could be built."""

    entry: ScheduleEntry
    why_slow: str | None = None
    """What will keep it slow; None while it is fast or not built yet."""
    unbuildable: bool = False
    """Whether it cannot be sent by the slow lane either."""
    message: Any = None
    send: object = None
    """The task's `apply_async` when the message was built."""

    def reset(self) -> None:
        """Have the message built anew."""
        self.message = self.why_slow = None
        self.unbuildable = False


class Publisher:
    """Puts the messages of due entries on the broker.

    Not for several threads at once, but for `close`, which may come from another.
    """

    def __init__(self, app: Any, scheduler: Scheduler, *, timeout: float) -> None:
        self._app = app
        self._scheduler = scheduler
        self._broker = BrokerConnection(app, timeout=timeout)
        self._onlooker = SignalReceivers(app, scheduler)
        self._suspects: set[str] = set()
        """Names of which one makes the broker refuse those sent with it."""
        self._slow = SlowLane(app, scheduler, self._broker, self._suspects)
        self._lane: FastLane | None = None
        self._transport = Transport
        self._known: dict[str, _Known] = {}
        self._routes: dict[object, Route] = {}

    def prepare(self, entry: ScheduleEntry) -> str | None:
        """Build the entry's message, so that only its slot has to be filled in.

        Idempotent: an entry that is equal to the one known by its name costs a
        comparison. Return why Celery cannot build it; None: it can, or was not asked.

        Raises:
            BrokerUnavailable: no connection; the entry is known all the same, and is
                built when it is first published.
        """
        name = str(entry.name)
        known = self._known.get(name)
        if known is None or not known.entry.editable_fields_equal(entry):
            known = self._known[name] = _Known(entry)
        self.ensure()
        if self._onlooker.reason() is None:
            self._build(known)
        return known.why_slow if known.unbuildable else None

    def forget(self, name: str) -> None:
        """Forget an entry."""
        self._known.pop(name, None)

    def ensure(self) -> None:
        """Connect; costs microseconds if there is a connection.

        Raises:
            BrokerUnavailable: within `timeout` for each of the broker's answers.
        """
        self._broker.ensure()
        transport = type(self._broker.transport)
        if transport is not self._transport:
            # Another kind of broker, by a failover list: other bytes.
            self._transport = transport
            lane = transport.lane
            self._lane = self._broker.lane(lane, self._suspects) if lane else None
            for known in self._known.values():
                known.reset()

    def publish(
        self, batch: Sequence[Dispatch], token: str, *, within: float = float("inf")
    ) -> None:
        """Put all of the batch on the broker: on Redis's lists, or confirmed.

        The token names this batch, and only this: what is tried again of a batch, all
        of it or a part, is tried with its token. After `within` seconds nothing of it
        is sent any more, however long the process stood still meanwhile.

        Raises:
            BrokerUnavailable: nothing of it was sent; it may be tried again.
            PublishUncertain: `done` are the names known to have arrived. Of the
                others some may have; if `retry_safe`, the same call again is exact.
                Also raised for entries that Celery or the broker refuses (they cannot
                be serialised, their queue is declared otherwise): those did not
                arrive and will not, and the text names them. If that is all that
                went wrong, it is PublishRefused.
            KeyError: an entry that was never prepared; nothing was sent.
        """
        if not batch:
            return
        trust = TrustWindow(opened=SYSTEM.monotonic(), seconds=within)
        self._broker.begin_batch(trust)
        entries = [self._known[dispatch.name] for dispatch in batch]
        self.ensure()
        lane = self._lane
        fast, slow = self._sort(list(zip(entries, batch, strict=True)), token)
        if fast and lane is not None:
            try:
                lane.push(fast, token, SYSTEM.now())
            except LaneRefused as error:
                logger.warning("pecker: sending without scripts: %s", error)
                slow = [(k.entry, one) for k, one in zip(entries, batch, strict=True)]
                fast = []
        if slow:
            outcome = self._slow.send(slow)
            self._judge(outcome, batch, [d for _, d in fast])
        self._broker.note_reply()

    def close(self) -> None:
        """Close the sockets at once; a publish under way fails."""
        self._broker.drop()

    def abandon(self) -> None:
        """Let go of the sockets of the process that this one was forked from."""
        self._broker.abandon()

    def _sort(
        self, work: list[tuple[_Known, Dispatch]], token: str
    ) -> tuple[list[tuple[Any, Dispatch]], list[tuple[ScheduleEntry, Dispatch]]]:
        """Part what goes fast from what goes slow; the queues of the fast are there."""
        fast: list[tuple[Any, Dispatch]] = []
        slow: list[tuple[ScheduleEntry, Dispatch]] = []
        watched = self._onlooker.reason() is not None
        shut: dict[int, bool] = {}
        lane = self._lane
        why_refused = lane is not None and lane.why_refused() is not None
        tasks = self._app.tasks  # a cached property that takes a lock each time
        for known, dispatch in work:
            message = lane.tried(token, dispatch.task_id) if lane is not None else None
            tried = message is not None
            if not (tried or watched or why_refused or dispatch.name in self._suspects):
                message = self._message(known, tasks)
            if message is not None:
                route = message.route
                refused = shut.get(id(route))
                if refused is None:
                    # None: the queues that the route needs are there.
                    why = self._broker.declare_queues(route.declare)
                    refused = shut[id(route)] = why is not None
                if tried or not refused:
                    fast.append((message, dispatch))
                    continue
            slow.append((known.entry, dispatch))
        return fast, slow

    def _message(self, known: _Known, tasks: Mapping[str, Any]) -> Any:
        """Return the entry's message, built now if need be, or None."""
        if known.send is not _sender(known.entry, tasks):
            known.reset()
        if known.message is None and known.why_slow is None:
            self._build(known)
        return known.message

    def _build(self, known: _Known) -> None:
        if known.message is not None or known.why_slow is not None:
            return
        known.send = _sender(known.entry, self._app.tasks)
        lane = self._lane
        if lane is None:
            known.why_slow = (
                f"transport {self._app.connection_for_write().transport_cls}"
            )
            return
        known.why_slow = entry_reason(self._app, known.entry)
        if known.why_slow is not None:
            return
        try:
            template = build_template(
                self._app, self._scheduler, known.entry, self._broker
            )
            route = template.route
            place = (
                *(route.exchange, route.routing_key, route.mandatory, route.immediate),
                *map(id, route.declare),
            )
            shared = self._routes.setdefault(place, route)
            message: Any = lane.build(replace(template, route=shared))
            # What one entry's options break must break here, not in a batch of all.
            lane.check_message(message, SYSTEM.now())
            known.message = message
        except (NoTemplate, Unbuildable) as error:
            known.why_slow = str(error)
            known.unbuildable = isinstance(error, Unbuildable)
        except UNREADABLE as error:
            known.why_slow = f"cannot be encoded: {error}"

    def _judge(
        self, outcome: Pushed[str], batch: Sequence[Dispatch], fast: Sequence[Dispatch]
    ) -> None:
        """Return or raise the outcome of a batch whose fast part has arrived."""
        if outcome.broken is None and not outcome.refused and not outcome.uncertain:
            return
        arrived = outcome.sent.union(dispatch.task_id for dispatch in fast)
        why = [f"{outcome.broken}"] if outcome.broken is not None else []
        names = {dispatch.task_id: dispatch.name for dispatch in batch}
        refused = {names.get(i, i): text for i, text in outcome.refused.items()}
        why += [f"{name}: {text}" for name, text in refused.items()]
        msg = "; ".join(why) or "the broker refused one of them"
        lane = self._lane
        if not outcome.uncertain and outcome.broken is None:
            raise PublishRefused(msg, done=names_in(batch, arrived), refused=refused)
        clean = not outcome.uncertain and not outcome.refused and not outcome.sent
        if clean and not fast:
            raise BrokerUnavailable(msg) from outcome.broken
        raise PublishUncertain(
            msg,
            retry_safe=clean and lane is not None and lane.exact,
            done=names_in(batch, arrived),
            refused=refused,
        ) from outcome.broken


def _sender(entry: ScheduleEntry, tasks: Mapping[str, Any]) -> object:
    """Return what sends the entry's task: a library may have replaced it."""
    task = tasks.get(str(entry.task))
    return None if task is None else type(task).apply_async

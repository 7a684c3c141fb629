"""The paths of the intake, its token and its port.

    POST /v1/tasks   record one task, or a list of them; answered once committed
    GET  /health     can tasks be recorded? no token
    GET  /outboxes   which outboxes of the app can be reached? no token
    GET  /live       does this process answer? no token

An error is ``{"error": "…"}``.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tornado.ioloop import PeriodicCallback
from tornado.web import Application

from celery_pecker.kernel.errors import Misconfigured, NotRecorded, PeckerError
from celery_pecker.outbox.app import outboxes
from celery_pecker.outbox.parallel_queries import ParallelQueries
from celery_pecker.surfaces.intake.request import (
    Malformed,
    NotAllowed,
    TaskOrder,
    read,
    read_key,
)
from celery_pecker.surfaces.service import page
from celery_pecker.surfaces.service.listener import LARGEST, Listener, Port
from celery_pecker.surfaces.service.threads import InFlight, LastAnswer, Threads

if TYPE_CHECKING:
    from celery_pecker.kernel.settings import Settings
    from celery_pecker.outbox import Outbox


KEPT = 86_400.0
"""Seconds for which a key is known."""


class OtherBody(PeckerError):
    """This Idempotency-Key was used for a request with another body."""


class _Repeated(Exception):
    """The key is known: what the block wrote is rolled back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What became of a request."""

    ids: list[str]
    repeated: bool
    """Recorded by an earlier request under the same key."""


class Intake:
    """Record requests in an outbox; safe for threads."""

    def __init__(self, outbox: "Outbox") -> None:
        self._outbox = outbox

    def record(
        self, orders: Sequence[TaskOrder], key: str | None, body: bytes
    ) -> Recorded:
        """Return the ids of the tasks once they are committed.

        Raises:
            OtherBody: the key is that of another request.
            NotRecorded: Celery cannot build a message; nothing was written.
            DatabaseUnavailable: it is not known whether it was recorded; the same
                request under the same key may be sent once more.

        """
        digest = hashlib.sha256(body).digest()
        if key is not None and (known := self._known(key, digest)):
            return known
        try:
            ids = self._write(orders, key, digest)
        except _Repeated:
            known = self._known(str(key), digest)
            if known is None:
                raise PeckerError(
                    "the first request of this key was not recorded after all"
                ) from None
            return known
        return Recorded(ids=ids, repeated=False)

    def prune(self) -> None:
        """Forget keys that are older than a day."""
        with self._outbox.transaction() as database:
            database.run("prune_intake_keys", now=None, seconds=KEPT)

    def check(self) -> None:
        """Raise DatabaseUnavailable or SchemaOutdated if nothing can be recorded."""
        with self._outbox.transaction() as database:
            database.run("read_intake_key", key="")

    def _write(
        self, orders: Sequence[TaskOrder], key: str | None, digest: bytes
    ) -> list[str]:
        with self._outbox.transaction() as database:
            ids = [self._one(order) for order in orders]
            if key is not None:
                row = {"key": key, "digest": digest, "task_ids": ids}
                if not database.run("keep_intake_key", now=None, **row):
                    raise _Repeated
        return ids

    def _one(self, order: TaskOrder) -> str:
        signature: Any = self._outbox.app.signature(
            order.task, args=order.args, kwargs=order.kwargs
        )
        result = self._outbox.send(signature, **order.options)
        return str(result.id)

    def _known(self, key: str, digest: bytes) -> Recorded | None:
        with self._outbox.transaction() as database:
            rows = database.run("read_intake_key", key=key)
        if not rows:
            return None
        [(before, ids)] = rows
        if bytes(before) != digest:
            raise OtherBody
        return Recorded(ids=list(ids), repeated=True)


WAIT = 5.0
"""Seconds that a request may wait for a thread."""
RETRY_AFTER = "1"
"""Seconds after which a request that was not answered may be sent once more."""
PRUNE_INTERVAL = 60.0
HEALTH_INTERVAL = 1.0
"""Seconds for which an answer of `/health` and `/outboxes` holds, for all who ask."""
TASKLESS = (
    "pecker_intake_tasks is not set: the names of the tasks that requests may record,"
    " for instance ['billing.*']"
)


class IntakeService:
    """The intake at its port; for one event loop.

    ``token``: the secret that services show. Raises Misconfigured without one, or
    without tasks that may be recorded.
    """

    def __init__(self, outbox: "Outbox", listener: Listener, token: str) -> None:
        settings = outbox.settings
        if not token:
            raise Misconfigured(
                "the intake needs a token: the secret that services show"
            )
        if not settings.intake_tasks:
            raise Misconfigured(TASKLESS)
        self.settings: Settings = settings
        self.token = token
        self.intake = Intake(outbox)
        self.threads = Threads(wait=WAIT)
        each = ParallelQueries(
            {one.name: Intake(one).check for one in outboxes(outbox.app)}
        )
        self.health = LastAnswer(
            partial(self.threads.run, self.intake.check), interval=HEALTH_INTERVAL
        )
        self.outboxes = LastAnswer(
            partial(self.threads.run, each.ask), interval=HEALTH_INTERVAL
        )
        self.in_flight = InFlight()
        self._listener = listener
        listener.check()

    async def open(self) -> str:
        """Listen from now on; return the URL. Raises Misconfigured."""
        options = {"service": self}
        app = Application(
            [
                ("/v1/tasks", Tasks, options),
                ("/health", Health, options),
                ("/outboxes", Outboxes, options),
                ("/live", Live, options),
            ],
            default_handler_class=Nothing,
            default_handler_args=options,
            log_function=lambda _: None,
        )
        largest = max(LARGEST, self.settings.outbox_message_bytes)
        self._port = Port(app, self._listener, self.in_flight, largest=largest)
        self._pruning = PeriodicCallback(self._prune, PRUNE_INTERVAL * 1000)
        self._pruning.start()
        return self._port.url

    async def close(self) -> None:
        """Take no more requests; let those in flight end, if they do in time."""
        self._pruning.stop()
        await self._port.close()
        self.threads.close()

    async def _prune(self) -> None:
        try:
            await self.threads.run(self.intake.prune)
        except PeckerError:
            return  # next minute


class IntakeHandler(page.JsonHandler):
    """One answer of this service."""

    service: IntakeService

    def initialize(self, service: IntakeService) -> None:
        """Take what the pages stand on."""
        self.service = service
        self.begin(in_flight=service.in_flight, token=service.token)


class Tasks(IntakeHandler):
    """Record the tasks of a request."""

    async def post(self) -> None:
        """Answer 201 once they are committed; 200 if they were before."""
        service, body = self.service, self.received
        try:
            key = read_key(self.request.headers.get("Idempotency-Key"))
            orders = read(body, service.settings.intake_tasks)
            done = await service.threads.run(service.intake.record, orders, key, body)
        except NotAllowed as error:
            self.reply(HTTPStatus.FORBIDDEN, {"error": str(error)})
        except OtherBody as error:
            self.reply(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error)})
        except (Malformed, NotRecorded) as error:
            self.reply(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except PeckerError as error:
            self.set_header("Retry-After", RETRY_AFTER)
            self.reply(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})
        else:
            status = HTTPStatus.OK if done.repeated else HTTPStatus.CREATED
            self.reply(status, {"ids": done.ids, "repeated": done.repeated})


class Nothing(IntakeHandler):
    """Any other path."""

    async def get(self) -> None:
        """Answer with the list of pages."""
        self.reply(HTTPStatus.NOT_FOUND, {"error": "here are /v1/tasks and /health"})

    post = put = delete = get


class Health(page.OpenPage, IntakeHandler):
    """For load balancers and alarms."""

    async def get(self) -> None:
        """Return whether tasks can be recorded."""
        try:
            await self.service.health.get()
        except PeckerError:
            self.reply(HTTPStatus.SERVICE_UNAVAILABLE, {"database": "away"})
        else:
            self.reply(HTTPStatus.OK, {"database": "answers"})


class Outboxes(page.OpenPage, IntakeHandler):
    """Each outbox of the app, whichever this intake records in."""

    async def get(self) -> None:
        """Answer which of them can be reached; one that hangs delays no other."""
        try:
            answers = await self.service.outboxes.get()
        except PeckerError as error:
            self.reply(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})
            return
        states = {
            name: "away" if isinstance(one, PeckerError) else "answers"
            for name, one in answers.items()
        }
        self.reply(HTTPStatus.OK, {"outboxes": states})


class Live(page.OpenPage, IntakeHandler):
    """Liveness probe: whether the process should be restarted."""

    async def get(self) -> None:
        """Answer: the event loop turns."""
        self.reply(HTTPStatus.OK, {"live": True})

"""The answers, one class for each path. ``app`` has their paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from math import isfinite
from typing import Any

from celery_pecker.surfaces.service import page
from throttle.errors import ThrottleError
from throttle.quota import IDLE
from throttle.service.state import ServiceState
from throttle.store import fields, wire
from throttle.units import ADJUSTED, ADJUSTED_FOR

LONGEST_WORD = 3_600.0
"""Seconds for which the second signal may lower a limit, or a watcher be elected."""


class GateHandler(page.JsonHandler):
    """One answer of this service."""

    state: ServiceState

    def initialize(self, state: ServiceState) -> None:
        """Take what the pages stand on."""
        self.state = state
        token = str(state.settings.service_token)
        self.begin(in_flight=state.in_flight, token=token)

    made: Callable[..., Awaitable[Mapping[str, object]]]
    """Make the document of an answer, from the names in the path."""

    async def answer(self, *names: str) -> None:
        """Answer what is made; what that raises is an error of its own kind."""
        try:
            document = await self.made(*names)
        except fields.Malformed as error:
            self.reply(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except Unknown as error:
            self.reply(HTTPStatus.NOT_FOUND, {"error": str(error)})
        except ThrottleError as error:
            self.reply(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})
        else:
            self.reply(HTTPStatus.OK, document)

    def body(self) -> Mapping[str, Any]:
        """Return the document that came."""
        return fields.document(self.received)


class Unknown(ThrottleError):
    """There is no such database."""


class GetHandler(GateHandler):
    """One answer to GET."""

    get = GateHandler.answer


class PostHandler(GateHandler):
    """One answer to POST."""

    post = GateHandler.answer


class Nothing(GateHandler):
    """Any other path."""

    async def get(self) -> None:
        """Answer with the list of pages."""
        self.reply(HTTPStatus.NOT_FOUND, {"error": "there are /v1/… and /health"})

    post = put = delete = get


class Exchange(PostHandler):
    """A report, as processes send it ten times a second."""

    async def made(self) -> Mapping[str, object]:
        """Hand it to the store, and the answer back."""
        report = wire.report_in(self.body())
        lane, store = self.state.lane, self.state.store
        return wire.answer_out(await lane.run(store.exchange, report))


class Databases(GetHandler):
    """All that is known."""

    async def made(self) -> Mapping[str, object]:
        """Show every database that has a limit or traffic."""
        views = await self.state.last_look.get()
        names = sorted({*views, *self.state.settings.limits})
        return {
            "databases": {
                name: self.state.shown(name, views.get(name)) for name in names
            }
        }


class OneDatabase(GetHandler):
    """What is known of one."""

    async def made(self, name: str) -> Mapping[str, object]:
        """Show it, if it has a limit or traffic. Tornado has unquoted the name."""
        view = (await self.state.last_look.get()).get(name)
        if view is None and name not in self.state.settings.limits:
            message = f"{name!r} has neither a limit nor traffic"
            raise Unknown(message)
        return self.state.shown(name, view)


class Admit(PostHandler):
    """May so many tasks be sent to a database now?"""

    async def made(self) -> Mapping[str, object]:
        """Answer from the last look; while the store is away by the policy."""
        body = self.body()
        name = body.get("database")
        cycles = self.state.cycles.get(name) if isinstance(name, str) else None
        if cycles is None:
            allowed = ", ".join(sorted(self.state.cycles)) or "none"
            message = f"{name!r} has no limit; those that have: {allowed}"
            raise Unknown(message)
        cost = fields.number("cost", body.get("cost", 1), most=IDLE)
        traffic, factor = await self.state.traffic(cycles.limit.database)
        admission = cycles.admit(cost, self.state.clock(), traffic, factor)
        left = admission.remaining
        return {
            "admitted": admission.admitted,
            "remaining": left if isfinite(left) else None,
            "retry_after": admission.retry_after,
            "known": traffic is not None,
        }


class Elect(PostHandler):
    """Elects the watcher of a database."""

    async def made(self) -> Mapping[str, object]:
        """Ask the store."""
        body = self.body()
        elected = await self.state.lane.run(
            self.state.store.elect,
            fields.database("database", body.get("database")),
            fields.text("holder", body.get("holder")),
            fields.number("seconds", body.get("seconds"), most=LONGEST_WORD),
        )
        return {"elected": elected}


class Lower(PostHandler):
    """What the second signal says of a database."""

    async def made(self, name: str) -> Mapping[str, object]:
        """Hand it to the store."""
        body = self.body()
        await self.state.lane.run(
            self.state.store.lower,
            fields.database("database", name),
            fields.number("factor", body.get("factor"), most=1.0),
            fields.text("why", body.get("why"), empty=True),
            fields.number("seconds", body.get("seconds"), most=LONGEST_WORD),
        )
        return {}


class Adjust(PostHandler):
    """A limit that a person sets; with a token of its own, if the service has one."""

    def initialize(self, state: ServiceState) -> None:
        """Require that one."""
        super().initialize(state)
        self.token = state.settings.control_token or self.token

    async def made(self, name: str) -> Mapping[str, object]:
        """Hand it to the store."""
        body = self.body()
        await self.state.lane.run(
            self.state.store.adjust,
            fields.database("database", name),
            fields.number("factor", body.get("factor"), most=ADJUSTED),
            fields.text("why", body.get("why"), empty=True),
            fields.number("seconds", body.get("seconds"), most=ADJUSTED_FOR),
        )
        return {}


class Health(page.OpenPage, GateHandler):
    """For load balancers and alarms: no token, no figures."""

    async def get(self) -> None:
        """Return whether the store behind answers."""
        try:
            await self.state.last_look.get()
        except ThrottleError:
            self.reply(HTTPStatus.SERVICE_UNAVAILABLE, {"store": "away"})
        else:
            self.reply(HTTPStatus.OK, {"store": "answers"})


class Live(Health):
    """Liveness probe: whether the process should be restarted."""

    async def get(self) -> None:
        """Answer: the loop turns."""
        self.reply(HTTPStatus.OK, {"lives": True})

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

    async def answer(self, make: Callable[[], Awaitable[Mapping[str, object]]]) -> None:
        """Answer what `make` makes; what it raises is an error of its own kind."""
        try:
            document = await make()
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


class Nothing(GateHandler):
    """Any other path."""

    async def get(self) -> None:
        """Answer with the list of pages."""
        self.reply(HTTPStatus.NOT_FOUND, {"error": "there are /v1/… and /health"})

    post = put = delete = get


class Exchange(GateHandler):
    """A report, as processes send it ten times a second."""

    async def post(self) -> None:
        """Hand it to the store, and the answer back."""

        async def make() -> Mapping[str, object]:
            report = wire.report_in(self.body())
            lane, store = self.state.lane, self.state.store
            return wire.answer_out(await lane.run(store.exchange, report))

        await self.answer(make)


class Databases(GateHandler):
    """All that is known."""

    async def get(self) -> None:
        """Show every database that has a limit or traffic."""

        async def make() -> Mapping[str, object]:
            views = await self.state.last_look.get()
            names = sorted({*views, *self.state.settings.limits})
            return {
                "databases": {
                    name: self.state.shown(name, views.get(name)) for name in names
                }
            }

        await self.answer(make)


class OneDatabase(GateHandler):
    """What is known of one."""

    async def get(self, name: str) -> None:
        """Show it, if it has a limit or traffic. Tornado has unquoted the name."""

        async def make() -> Mapping[str, object]:
            view = (await self.state.last_look.get()).get(name)
            if view is None and name not in self.state.settings.limits:
                message = f"{name!r} has neither a limit nor traffic"
                raise Unknown(message)
            return self.state.shown(name, view)

        await self.answer(make)


class Admit(GateHandler):
    """May so many tasks be sent to a database now?"""

    async def post(self) -> None:
        """Answer from the last look; while the store is away by the policy."""

        async def make() -> Mapping[str, object]:
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

        await self.answer(make)


class Elect(GateHandler):
    """Elects the watcher of a database."""

    async def post(self) -> None:
        """Ask the store."""

        async def make() -> Mapping[str, object]:
            body = self.body()
            elected = await self.state.lane.run(
                self.state.store.elect,
                fields.database("database", body.get("database")),
                fields.text("holder", body.get("holder")),
                fields.number("seconds", body.get("seconds"), most=LONGEST_WORD),
            )
            return {"elected": elected}

        await self.answer(make)


class Lower(GateHandler):
    """What the second signal says of a database."""

    async def post(self, name: str) -> None:
        """Hand it to the store."""

        async def make() -> Mapping[str, object]:
            body = self.body()
            await self.state.lane.run(
                self.state.store.lower,
                fields.database("database", name),
                fields.number("factor", body.get("factor"), most=1.0),
                fields.text("why", body.get("why"), empty=True),
                fields.number("seconds", body.get("seconds"), most=LONGEST_WORD),
            )
            return {}

        await self.answer(make)


class Adjust(GateHandler):
    """A limit that a person sets; with a token of its own, if the service has one."""

    def initialize(self, state: ServiceState) -> None:
        """Require that one."""
        super().initialize(state)
        self.token = state.settings.control_token or self.token

    async def post(self, name: str) -> None:
        """Hand it to the store."""

        async def make() -> Mapping[str, object]:
            body = self.body()
            await self.state.lane.run(
                self.state.store.adjust,
                fields.database("database", name),
                fields.number("factor", body.get("factor"), most=ADJUSTED),
                fields.text("why", body.get("why"), empty=True),
                fields.number("seconds", body.get("seconds"), most=ADJUSTED_FOR),
            )
            return {}

        await self.answer(make)


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

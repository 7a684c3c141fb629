"""How Flower serves a page, its data and its actions.

Flower's own class does the rest: access, the prefix of addresses, the page of an
error.
"""

import json
import logging
import os
from base64 import b64decode
from collections.abc import Callable, Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlencode

from flower.utils import strtobool
from flower.views import BaseHandler
from tornado.web import HTTPError, RequestHandler, authenticated

from celery_pecker.kernel.audit import DELAY, recorded
from celery_pecker.kernel.errors import (
    BrokerUnavailable,
    DatabaseUnavailable,
    InvalidField,
    Misconfigured,
    PeckerError,
    SchemaOutdated,
)
from celery_pecker.surfaces.flower import waiting
from celery_pecker.surfaces.flower.loader import OURS
from celery_pecker.surfaces.flower.pages import (
    HOSTS,
    PLACE,
    READ_ONLY,
    Asked,
    Page,
    Query,
    Refused,
    Source,
    Unreadable,
    registered,
    shown,
)
from celery_pecker.surfaces.flower.reader import Reader, TooManyWaiting
from celery_pecker.surfaces.flower.rendering import described
from celery_pecker.surfaces.flower.schedules import SCHEDULES
from celery_pecker.surfaces.flower.static_files import version_of
from celery_pecker.surfaces.flower.waiting import UNDO

LOCAL = ("localhost", "ip6-localhost")
FOREIGN = (
    "This Flower has no authentication, and {name!r} is none of its names: say"
    " install(hosts=[...]) in flowerconfig.py, or set --basic_auth or --auth."
)


class OwnOrigin(BaseHandler):
    """A handler that answers to Flower's own pages only."""

    def set_default_headers(self) -> None:
        """Let no page of another site read these, whatever Flower lets be read."""
        super().set_default_headers()
        for name in ("Origin", "Headers", "Methods"):
            self.clear_header(f"Access-Control-Allow-{name}")

    def prepare(self) -> Any:
        """Refuse a name that another site may have given to this address.

        A page of that site would be of the same origin then. Where Flower asks for a
        password the browser has none under that name.
        """
        options, name = self.application.options, self.request.host_name
        known = (*LOCAL, *self.settings.get(HOSTS, ()))
        if not (options.basic_auth or options.auth or name in known or is_ip(name)):
            raise HTTPError(403, FOREIGN.format(name=name))
        return super().prepare()


def is_ip(name: str) -> bool:
    """Return whether a host is named by its address, which no other site can claim."""
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


logger = logging.getLogger(__name__)

AWAY = (
    DatabaseUnavailable,
    BrokerUnavailable,
    SchemaOutdated,
    Misconfigured,
    Unreadable,
)
"""Errors that have to be mended before a page can be shown."""
LARGEST = 65_536
"""Bytes of an action, at most."""
LONGEST = 200
"""Characters of a user's name, at most."""
NO_STORE = ("Cache-Control", "no-store")
SIGN_IN = 401
SIGNED_OUT = "Signed out: reload the page to sign in."
POLICY = (
    "Content-Security-Policy",
    "script-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'self'",
)
"""Of a page: no script but files of this Flower, whatever a name holds; and no frame in
a stranger's page, where a click of a signed-in user would pause a schedule."""


class View(OwnOrigin):
    """What all views of a page know."""

    def initialize(self, page: Page) -> None:
        """Keep which page it is."""
        self.page = page

    @property
    def reader(self) -> Reader:
        """The app's questions; one for all views of a Flower."""
        if "pecker_reader" not in self.settings:
            self.settings["pecker_reader"] = Reader(self.capp)
        reader: Reader = self.settings["pecker_reader"]
        return reader

    @property
    def query(self) -> Query:
        """What stands in the address, as it was written.

        Flower's ``get_argument`` strips and escapes, Tornado's drops control
        characters: another name might be found then.
        """
        try:
            return {
                key: values[-1].decode()
                for key, values in self.request.query_arguments.items()
            }
        except UnicodeDecodeError as error:
            raise HTTPError(400, reason="the address is not UTF-8") from error

    @property
    def user(self) -> str:
        """The user, as far as Flower knows."""
        if isinstance(self.current_user, str):
            return self.current_user[:LONGEST]
        if self.application.options.basic_auth:
            # Flower has compared it by now, so it can be read.
            header = self.request.headers.get("Authorization", "")
            encoded = header.partition(" ")[2]
            return b64decode(encoded).decode().partition(":")[0][:LONGEST]
        return f"flower:{self.request.remote_ip}"

    @property
    def refusal(self) -> str:
        """Why nothing can be done here; empty if it can.

        As for Flower's own buttons: without authentication only by the setting.
        """
        options = self.application.options
        if self.settings.get(READ_ONLY) or getattr(options, "read_only", False):
            return "This Flower is read-only."
        setting = os.environ.get("FLOWER_UNAUTHENTICATED_API") or "false"
        if options.basic_auth or options.auth or strtobool(setting):
            return ""
        return (
            "Flower has no authentication: set --basic_auth or --auth,"
            " or FLOWER_UNAUTHENTICATED_API=true where every user may."
        )

    @property
    def missing(self) -> str:
        """What was asked for and is not there, and where to look."""
        asked = " and ".join(f"{key} {self.query[key]!r}" for key in sorted(self.query))
        there = self.reverse_url(self.page.tab)
        return f"{self.page.title}: none with {asked or 'no name'}; all are in {there}."

    async def read(self) -> dict[str, Any] | None:
        """Return what the page shows; what is due by then is done, if it may be here.

        It was asked of a Flower that has ended since.
        """
        try:
            data = await self.reader.read(self.page, self.query)
        except InvalidField as error:
            raise HTTPError(400, str(error)) from error
        if data and not self.refusal and waiting.due(data):
            self.reader.carry_out(self.page, self.query)
        return data


class PageView(View):
    """The page, with its first data."""

    @authenticated
    async def get(self) -> None:
        """Show it; where nothing can be read, say why."""
        self.set_header(*NO_STORE)
        self.set_header(*POLICY)
        try:
            data = await self.read()
        except AWAY as error:
            self.set_status(503)
            self.show("unavailable.html", message=str(error), others=self.others)
            return
        if data is None:
            raise HTTPError(404, self.missing)
        self.show(self.page.template, data=data)

    @property
    def others(self) -> list[str]:
        """The other databases that the page may be of."""
        if self.page.places is None:
            return []
        try:
            places = [*self.page.places(self.capp)]
        except PeckerError:
            return []
        return [place for place in places if place != self.query.get(PLACE, places[0])]

    def show(self, template: str, **values: Any) -> None:
        """Render a template of ours inside Flower's frame."""
        self.render(
            f"{OURS}{template}",
            page=self.page,
            static=self.static,
            embedded=embedded,
            described=described,
            refusal=self.refusal,
            token=self.xsrf_token.decode(),
            zone=str(self.capp.timezone or "UTC"),
            **values,
        )

    def static(self, name: str) -> str:
        """Return the address of a file of the page or the frame, with its version."""
        mine = self.page.folder / "static" / name
        page = self.page if mine.exists() else SCHEDULES
        version = version_of(page.folder / "static" / name)
        return f"{self.reverse_url(page.files, name)}?v={version}"


class ScriptView(View):
    """What the page's own script asks for: whatever happens, the answer is JSON."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer in JSON. A password is asked for by the page, not by its script."""
        error = (kwargs.get("exc_info") or (None, None))[1]
        reason = getattr(error, "log_message", None) or self._reason
        error = SIGNED_OUT if status_code == SIGN_IN else reason
        answer(self, status_code, error=error)


class DataView(ScriptView):
    """What the page shows, alone."""

    async def get(self) -> None:
        """Answer with JSON, also where nothing can be read.

        A user who was signed out gets an error, not the login: each such answer
        would begin a login of its own, and the one that goes on in another tab fails.
        """
        self.set_header(*NO_STORE)
        if not self.current_user:
            answer(self, SIGN_IN, error=SIGNED_OUT)
            return
        try:
            data = await self.read()
        except AWAY as error:
            answer(self, 503, error=str(error))
            return
        if data is None:
            answer(self, 404, error=self.missing)
            return
        answer(self, 200, **data)


class OriginView(ScriptView):
    """Which of our pages show where a task of Celery's comes from."""

    async def get(self) -> None:
        """Answer with their titles and addresses; a page that cannot be read has none.

        The page of a task in Flower asks, each time it is opened.
        """
        self.set_header(*NO_STORE)
        if not self.current_user:
            answer(self, SIGN_IN, error=SIGNED_OUT)
            return
        task = self.application.events.state.tasks.get(self.query.get("id", ""))
        places = []
        for page in registered() if task else ():
            if page.finds is None or not shown(page.name, self.capp):
                continue
            for one in await self.reader.find(page, task.uuid, task.name or ""):
                url = f"{self.reverse_url(page.tornado)}?{urlencode(one.query)}"
                places.append({"title": page.title, "url": url, "text": one.text})
        answer(self, 200, places=places)


class ActView(ScriptView):
    """What can be done on the page."""

    def check_xsrf_cookie(self) -> None:
        """Ask for page and token of our own in any case, also where Flower would not.

        Flower asks for neither without authentication, and older ones never do.
        """
        super().check_xsrf_cookie()
        if self.request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
            raise HTTPError(403, "Only Flower's own pages may do this.")
        RequestHandler.check_xsrf_cookie(self)

    @authenticated
    async def post(self) -> None:
        """Do it: ``{"act": "pause", "name": "…"}``.

        Instead of a name there may be `names`, or ``"every": true`` for all rows that
        the address leaves.
        """
        self.check_xsrf_cookie()  # an older Flower's settings do not
        self.set_header(*NO_STORE)
        if self.refusal:
            answer(self, 403, error=self.refusal)
            return
        asked, later = self.asked()
        form = self.page.forms.get(asked.act)
        writes = form is None or form.writes
        try:
            reply = await self.reader.act(
                self.page, asked.query, self.does(asked, writes, later), writes=writes
            )
        except TooManyWaiting as error:
            answer(self, 503, error=f"Not done: {error}")
        except InvalidField as error:
            answer(self, 422, error=str(error), field=error.field)
        except AWAY as error:
            answer(self, 503, error=f"It is not known whether it was done: {error}")
        except Refused as error:
            answer(self, error.status, error=str(error), **error.more)
        except PeckerError as error:
            unknown = isinstance(error, LookupError)
            answer(self, 404 if unknown else 409, error=str(error))
        else:
            if writes:
                what = (asked.act, asked.subject)
                logger.info("pecker: %s asked: %s %r", asked.by, *what)
            if later:
                self.reader.carry_out(self.page, asked.query, after=DELAY)
            answer(self, 200, **reply)

    def does(
        self, asked: Asked, writes: bool, later: bool
    ) -> Callable[[Source], dict[str, Any]]:
        """Return what does it, has it done later, or takes such an act back."""
        if asked.act == UNDO:
            return partial(waiting.undo, asked=asked)
        page = self.page
        if later:
            return partial(waiting.ask, page=page, asked=asked)

        def call(source: Source) -> dict[str, Any]:
            if not writes:
                return page.do(source, asked)
            told = (page.act_name(asked.act), asked.subject)
            with recorded(source.settings, *told, by=asked.by, surface="Flower"):
                return page.do(source, asked)

        return call

    def asked(self) -> tuple[Asked, bool]:
        """Return what is to be done, and whether it is to wait; or refuse."""
        if len(self.request.body) > LARGEST:
            raise HTTPError(413, f"Send at most {LARGEST} bytes.")
        try:
            body = json.loads(self.request.body)
            act, fields, every = body["act"], body.get("fields", {}), body.get("every")
            later = body.get("later") is True
            names = None if every is True else body.get("names") or [body["name"]]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            names = act = fields = [None]
            later = False
        acts = [*self.page.does, *self.page.forms]
        known = isinstance(act, str) and act in (*acts, UNDO)
        # A form is of one row.
        if not known or not are_texts([""] if names is None else names):
            allowed = ", ".join(acts) or "nothing"
            raise HTTPError(400, f"Send JSON with 'name' and 'act', one of: {allowed}.")
        if not isinstance(fields, dict) or not are_texts([*fields.values()]):
            raise HTTPError(400, "Send 'fields' as an object of texts.")
        if later and act not in self.page.waiting:
            allowed = ", ".join(sorted(self.page.waiting)) or "none of this page"
            raise HTTPError(400, f"{act} cannot wait; allowed are: {allowed}.")
        return Asked(act, names, self.query, self.user, fields), later


def are_texts(values: object) -> bool:
    """Return whether it is a list of texts."""
    return isinstance(values, list) and all(isinstance(one, str) for one in values)


def answer(view: View, status: int, **fields: Any) -> None:
    """Finish with a JSON object."""
    view.set_status(status)
    view.set_header("Content-Type", "application/json; charset=UTF-8")
    view.finish(json.dumps(fields, separators=(",", ":")))


def embedded(data: Mapping[str, Any]) -> str:
    """Return JSON that may stand inside <script>: no name can end it."""
    text = json.dumps(data, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text

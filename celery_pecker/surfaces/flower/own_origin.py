"""Keep what pages show from other sites."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from flower.views import BaseHandler
from tornado.web import HTTPError

from celery_pecker.surfaces.flower.pages import HOSTS

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

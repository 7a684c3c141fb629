"""Say whether two connection strings name one database, without asking a server. Pure.

What libpq would take from the environment or from its defaults is filled in; names are
not resolved. Two names of one server count as two: the caller then does less, not more.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

LOOPBACK = "localhost"
LOCAL = {"", LOOPBACK, "127.0.0.1", "::1"}
PORT = "5432"

Params = Mapping[str, object]
"""As `psycopg.conninfo.conninfo_to_dict` returns them."""


def same(one: Params, other: Params, environ: Mapping[str, str]) -> bool:
    """Return whether the database is the same, and one of the hosts at least.

    Args:
        one: a connection string, parsed.
        other: the other one.
        environ: variables of the process, such as PGHOST.
    """
    services = {_text(params, "service") for params in (one, other)}
    if services != {""}:
        return len(services) == 1
    return _name(one, environ) == _name(other, environ) and bool(
        _hosts(one, environ) & _hosts(other, environ)
    )


def _text(params: Params, key: str) -> str:
    value = params.get(key)
    return "" if value is None else str(value)


def _name(params: Params, environ: Mapping[str, str]) -> str:
    user = _text(params, "user") or environ.get("PGUSER", "")
    return _text(params, "dbname") or environ.get("PGDATABASE", "") or user


def _hosts(params: Params, environ: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return hosts with their ports; each way to this machine counts as one."""
    named = _text(params, "host") or _text(params, "hostaddr")
    names = (named or environ.get("PGHOST", "")).split(",")
    ports = (_text(params, "port") or environ.get("PGPORT", "")).split(",")
    if len(ports) == 1:
        ports = ports * len(names)
    pairs = zip_longest(names, ports, fillvalue="")
    return {(_host(name.strip()), port.strip() or PORT) for name, port in pairs}


def _host(name: str) -> str:
    local = name.lower() in LOCAL or name.startswith(("/", "@"))
    return LOOPBACK if local else name.lower()

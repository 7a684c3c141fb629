"""Each host of a DSN that names several, asked by itself."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
from psycopg import conninfo, errors
from psycopg.abc import ConnDict

from celery_pecker.kernel import hosts
from celery_pecker.kernel.errors import Misconfigured
from celery_pecker.kernel.hosts import BoundedConnection, parameters_of
from celery_pecker.surfaces.findings.model import Finding, fail, ok, warn
from celery_pecker.surfaces.findings.project import Project

WITHIN = 2.0
"""Seconds for the answer of a host."""


def examine(project: Project) -> Iterator[Finding]:
    """Yield what is found of each host; nothing where there is one."""
    try:
        params = parameters_of(project.settings.dsn)
    except Misconfigured:  # `postgres` says so
        return
    # A standby answers, too.
    params["target_session_attrs"] = "any"
    try:
        places = hosts.attempts(params)
    except psycopg.Error:  # no name is known: what asks for the server says so
        return
    if len(places) > 1:
        with ThreadPoolExecutor(len(places)) as threads:
            yield from threads.map(_examine, places)


def _examine(place: ConnDict) -> Finding:
    check = f"host {hosts.described(place)}"
    try:
        BoundedConnection.within(conninfo.make_conninfo("", **place), WITHIN).close()
    except errors.ConnectionTimeout:
        return fail(
            check,
            f"did not answer within {WITHIN:g} s",
            "mend it, or take it out of pecker_dsn: until then each new process waits"
            " for it, and one connection a minute of each process",
        )
    except psycopg.Error as error:
        return warn(
            check,
            " ".join(str(error).split()) or type(error).__name__,
            "mend it, or take it out of pecker_dsn",
        )
    return ok(check, "answers")

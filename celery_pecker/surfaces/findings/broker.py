"""The broker and its workers, asked in bounded time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from celery import Celery
from redis.exceptions import ResponseError

from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.engine.model import Entry, RunMode
from celery_pecker.surfaces.findings.model import Finding, fail, ok, warn
from celery_pecker.surfaces.findings.project import Project
from celery_pecker.surfaces.findings.timeouts import bounded

LOOK = 1.0
"""Seconds for the answers of workers."""
CONNECT = 3.0
"""Seconds on top for the broker."""
VISIBILITY = 3_600
"""Seconds: kombu's default for Redis."""
COOPERATIVE = {"thread": "threads", "eventlet": "eventlet"}
"""Pools that cannot end a run that does not look; as in Celery's module names."""


def examine(project: Project) -> Iterator[Finding]:
    """Yield what is found."""
    app = project.app
    entries = [*project.declared.values()]
    where = _named(app)
    reply = bounded(CONNECT, _ask, app)
    if reply is None:
        yield fail(
            "broker",
            f"{where} gave no answer within {CONNECT:g} s, or refused",
            "see that broker_url is reached from here",
        )
        return
    kind, info = reply
    yield ok("broker", f"{where}: {kind} {info.get('version', '')}".strip())
    if kind == "redis":
        yield writes(info.get("writes"))
        yield scripts(info.get("scripts"))
        yield eviction(info)
        options = app.conf.broker_transport_options or {}
        yield visibility(
            float(options.get("visibility_timeout", VISIBILITY)),
            longest(entries),
            late=bool(app.conf.task_acks_late),
        )
    stats = bounded(CONNECT + LOOK, _stats, app)
    yield from pools(stats or {}, entries)


def _named(app: Celery) -> str:
    uri: str = app.connection_for_write().as_uri()  # hides the password
    return uri


def _ask(app: Celery) -> tuple[str, Mapping[str, Any]]:
    """Return what kind the broker is, and what it says of itself."""
    with app.connection_for_write(connect_timeout=CONNECT) as connection:
        connection.ensure_connection(max_retries=1, timeout=round(CONNECT))
        kind: str = connection.transport.driver_type
        if kind == "redis":
            channel: Any = connection.default_channel
            facts = dict(channel.client.info())
            facts["version"] = facts.get("redis_version", "")
            facts["writes"] = _refusal(channel.client, "LPUSHX", "pecker:none", "")
            facts["scripts"] = _refusal(channel.client, "EVAL", "return 1", 0)
            return kind, facts
        properties = getattr(connection.connection, "server_properties", None) or {}
        return str(properties.get("product", kind)), properties


def _refusal(client: Any, *command: object) -> str | None:
    """Return what Redis says against a command that changes nothing."""
    try:
        client.execute_command(*command)
    except ResponseError as error:
        return str(error)
    return None


def writes(refusal: str | None) -> Finding:
    """Judge whether Redis takes messages. Pure."""
    if refusal is None:
        return ok("redis writes", "taken")
    return fail(
        "redis writes",
        f"refused: {refusal}",
        "let broker_url name the primary, and its user write; see that Redis is not"
        " full, and can save",
    )


def scripts(refusal: str | None) -> Finding:
    """Judge whether many messages go in one step. Pure."""
    if refusal is None:
        return ok("redis scripts", "allowed")
    return warn(
        "redis scripts",
        f"refused: {refusal}; messages are sent one by one, and a reply that is lost"
        " leaves slots in doubt",
        "grant +eval and +evalsha to the user of broker_url",
    )


def _stats(app: Celery) -> dict[str, Any]:
    with app.connection_for_write(connect_timeout=CONNECT) as connection:
        inspect = app.control.inspect(timeout=LOOK, connection=connection)
        return inspect.stats() or {}


def eviction(info: Mapping[str, Any]) -> Finding:
    """Judge what Redis drops when it is full. Pure."""
    policy = str(info.get("maxmemory_policy", "unknown"))
    most = int(info.get("maxmemory", 0))
    if policy == "noeviction":
        return ok("redis eviction", "noeviction")
    if not most:
        return ok("redis eviction", f"{policy}, but maxmemory is not set")
    if policy.startswith("volatile"):
        return warn(
            "redis eviction",
            f"{policy}: queues stay, but the marks that keep a retried push from"
            " adding twice may go",
            "set maxmemory-policy to noeviction for a broker",
        )
    return fail(
        "redis eviction",
        f"{policy}: a full Redis drops whole queues",
        "set maxmemory-policy to noeviction for a broker",
    )


def longest(entries: Sequence[Entry]) -> float:
    """Return the longest timeout of entries that are published, in seconds. Pure."""
    timeouts = [
        entry.policy.timeout_us or 0
        for entry in entries
        if entry.policy.run is RunMode.DISPATCH
    ]
    return max(timeouts, default=0) / SECOND


def visibility(seconds: float, longest_timeout: float, *, late: bool) -> Finding:
    """Judge after how long Redis gives a message to another worker. Pure."""
    text = f"{seconds:g} s; the longest timeout is {longest_timeout:g} s"
    if seconds > longest_timeout:
        return ok("redis visibility", text)
    advice = "raise broker_transport_options['visibility_timeout'] above it"
    if late:
        return fail(
            "redis visibility",
            text + ", and messages are acknowledged late: a run that takes long is"
            " delivered again while it goes on",
            advice,
        )
    return warn(
        "redis visibility", text + ": a message that waits is delivered twice", advice
    )


def pools(stats: Mapping[str, Any], entries: Sequence[Entry]) -> Iterator[Finding]:
    """Judge whether workers' pools can end runs at their deadline. Pure."""
    if not stats:
        yield warn(
            "workers",
            f"none answered within {LOOK:g} s",
            "start workers, or see whether they have remote control on",
        )
        return
    timed = [entry.name for entry in entries if entry.policy.timeout_us is not None]
    for host, reply in sorted(stats.items()):
        pool = str((reply.get("pool") or {}).get("implementation", "unknown"))
        module = pool.partition(":")[0].rpartition(".")[2]
        if timed and module in COOPERATIVE:
            yield warn(
                f"pool of {host}",
                f"{COOPERATIVE[module]}: a run ends at its deadline only where it"
                f" looks ({len(timed)} entries have a timeout)",
                "use prefork, gevent or solo, or install the clients of"
                " celery_pecker.deadline and call deadline.check() in long loops",
            )
        else:
            yield ok(f"pool of {host}", module)

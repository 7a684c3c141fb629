"""The broker and its workers, asked in bounded time."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from celery import Celery
from redis.exceptions import ResponseError

from celery_pecker.kernel.declared import suggestion
from celery_pecker.kernel.lease import SECOND
from celery_pecker.schedules.engine.model import Entry, RunMode
from celery_pecker.surfaces.findings.model import Finding, fail, ok, warn
from celery_pecker.surfaces.findings.project import Project, Scheduled, named
from celery_pecker.surfaces.findings.timeouts import bounded
from celery_pecker.surfaces.views.outbox import Takers

LOOK = 1.0
"""Seconds for the answers of workers."""
CONNECT = 3.0
"""Seconds on top for the broker."""
VISIBILITY = 3_600
"""Seconds: kombu's default for Redis."""
RUNS_LOCAL = "celery_pecker_outbox"
"""In the figures of a worker that runs what was recorded with `outbox="local"`."""
CELERYS = "celery."
"""Begins the names of Celery's own tasks, which no worker lists."""
COOPERATIVE = {"thread": "threads", "eventlet": "eventlet"}
"""Pools that cannot end a run that does not look; as in Celery's module names."""


class Replies(NamedTuple):
    """What a broker and its workers answered."""

    kind: str
    info: Mapping[str, Any]
    stats: Mapping[str, Any]
    """Of each worker."""
    queues: Mapping[str, Sequence[Mapping[str, Any]]]
    """That each worker takes messages from."""
    tasks: Mapping[str, Sequence[str]]
    """That each worker knows."""


def ask(app: Celery) -> Replies | None:
    """Return what they answer; None: the broker gives none."""
    reply = bounded(CONNECT, _ask, app)
    if reply is None:
        return None
    return Replies(*reply, *_replies(app, "stats", "active_queues", "registered"))


def _replies(app: Celery, *names: str) -> list[dict[str, Any]]:
    """Return what workers answer to each of these questions, asked at once."""
    with ThreadPoolExecutor(len(names)) as threads:
        return [*threads.map(partial(replies_of, app), names)]


def examine(project: Project) -> Iterator[Finding]:
    """Yield what is found."""
    yield from judged(project, ask(project.app))


def judged(project: Project, replies: Replies | None) -> Iterator[Finding]:
    """Judge what broker and workers answered."""
    app = project.app
    entries = [*project.declared.values()]
    where = _named(app)
    if replies is None:
        yield fail(
            "broker",
            f"{where} gave no answer within {CONNECT:g} s, or refused",
            "see that broker_url is reached from here",
        )
        return
    info = replies.info
    yield ok("broker", f"{where}: {replies.kind} {info.get('version', '')}".strip())
    if replies.kind == "redis":
        yield writes(info.get("writes"))
        yield scripts(info.get("scripts"))
        yield eviction(info)
        options = app.conf.broker_transport_options or {}
        yield visibility(
            float(options.get("visibility_timeout", VISIBILITY)),
            longest(entries),
            late=bool(app.conf.task_acks_late),
        )
    yield from pools(replies.stats, entries)
    scheduled = project.scheduled
    yield from untaken(replies.queues, scheduled)
    yield from unknown(replies.tasks, scheduled)


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


def replies_of(app: Celery, name: str, **arguments: Any) -> dict[str, Any]:
    """Return what each worker answers to one question; empty: none answers."""
    return bounded(CONNECT + LOOK, _broadcast, app, name, arguments) or {}


def _broadcast(app: Celery, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    with app.connection_for_write(connect_timeout=CONNECT) as connection:
        replies = app.control.broadcast(
            name, arguments, reply=True, timeout=LOOK, connection=connection
        )
        return {worker: said for one in replies or () for worker, said in one.items()}


def names_of(replies: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the tasks that workers know, by name."""
    return {task.partition(" ")[0] for of in replies.values() for task in of}


def known_tasks(app: Celery) -> set[str]:
    """Return the tasks that workers which answer know; none where none answers."""
    return names_of(replies_of(app, "registered"))


def takers(app: Celery) -> Takers | None:
    """Return what the workers that answer take; None: none answers."""
    stats, queues = _replies(app, "stats", "active_queues")
    taken = frozenset(str(queue.get("name")) for of in queues.values() for queue in of)
    local = any(RUNS_LOCAL in of for of in stats.values())
    return Takers(taken, local) if stats or queues else None


def untaken(
    replies: Mapping[str, Sequence[Mapping[str, Any]]], entries: Sequence[Scheduled]
) -> Iterator[Finding]:
    """Judge whether a worker takes each queue that entries are sent to. Pure."""
    taken = {str(queue.get("name")) for of in replies.values() for queue in of}
    waiting: dict[str, list[str]] = {}
    for one in entries:
        if taken and one.queue not in taken:
            waiting.setdefault(one.queue, []).append(one.name)
    for queue, names in waiting.items():
        yield fail(
            f"queue {queue}",
            f"no worker takes the queue {queue!r}: {named(names)}"
            f" {'waits' if len(names) == 1 else 'wait'} in it",
            f"start a worker for it: celery -A proj worker -Q {queue}",
            act="take",
            about=queue,
        )


def unknown(
    replies: Mapping[str, Sequence[str]], entries: Sequence[Scheduled]
) -> Iterator[Finding]:
    """Judge whether a worker knows each task that is scheduled. Pure."""
    known = names_of(replies)
    of_task: dict[str, list[str]] = {}
    for one in entries:
        if known and one.task not in known and not one.task.startswith(CELERYS):
            of_task.setdefault(one.task, []).append(one.name)
    for task, names in of_task.items():
        yield fail(
            f"task {task}",
            f"no worker knows the task {task!r} of {named(names)}"
            f"{suggestion(task, known)}",
            "start workers with the code that has it, or name the task that it is now",
            act="pause" if len(names) == 1 else "",
            about=names[0] if len(names) == 1 else "",
        )


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

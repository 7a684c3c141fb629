"""PostgreSQL, asked over two connections."""

from collections.abc import Generator, Iterator

from celery_pecker.kernel import migrations
from celery_pecker.kernel.clock import SYSTEM, to_us
from celery_pecker.kernel.database import Database
from celery_pecker.kernel.errors import DatabaseUnavailable, Misconfigured, PeckerError
from celery_pecker.kernel.lease import SECOND, SKEW
from celery_pecker.kernel.sql import render, tables
from celery_pecker.schedules.declarations.beat_schedule import other_scheduler
from celery_pecker.schedules.overview.slot_verdicts import alive, differing
from celery_pecker.surfaces.findings import judge, symptoms
from celery_pecker.surfaces.findings.model import Finding, fail, ok, warn
from celery_pecker.surfaces.findings.pace import undelivered
from celery_pecker.surfaces.findings.project import Project
from celery_pecker.surfaces.views.phrases import span

ALL = ("delete", "insert", "select", "update")
DELIVERED_WITHIN = 60.0
"""Seconds."""
NEEDED = {
    **dict.fromkeys(tables(), ALL),
    "pecker_migrations": ("select",),
    "pecker_outbox_turn": ("select", "update"),
    "pecker_owner": ("insert", "select", "update"),
}
"""The rights of a scheduler: docs/how-to/rights-and-migrations.md."""


SILENT_US = 6 * SECOND
"""A scheduler shows life every five seconds."""
CELERYS = "celery.backend_cleanup"
"""The entry that Celery adds to each app: it alone asks for no scheduler."""


def examine(project: Project) -> Iterator[Finding]:
    """Yield what is found; ends at the first question that gets no answer."""
    settings, database = project.settings, project.database
    try:
        vacuums = yield from _server(project)
        # Before the tables, which suffer from these.
        yield from judge.locks(project.overview.locks())
        held = database.run("examine_snapshots", now=None)
        yield judge.snapshots([judge.XminHolder(*row) for row in held], vacuums=vacuums)
        yield from _schema(database, settings.app)
        yield from _schedulers(project)
        yield from symptoms.examine(project)
        yield from _outboxes(project)
    except DatabaseUnavailable as error:
        yield fail("database", str(error), "see that pecker_dsn is reached from here")
    except PeckerError as error:
        yield fail("database", str(error), "mend pecker_dsn, or the rights of its role")


def _server(project: Project) -> Generator[Finding, None, bool]:
    """Yield what is found of the server; return whether it vacuums by itself."""
    settings, database = project.settings, project.database
    other = Database.of(settings, role="cli")
    try:
        first = database.run("examine_server", now=None)[0]
        second = other.run("examine_server", now=None)[0]
        before = to_us(SYSTEM.now())
        third = database.run("examine_server", now=None)[0]
        after = to_us(SYSTEM.now())
    finally:
        other.close()
    server = judge.Server(*third[2:])
    yield from judge.server(server)
    yield judge.pooler([first[1], second[1], third[1]])
    yield judge.clock(
        (before + after) // 2 - third[0],
        (after - before) // 2,
        round(SKEW * SECOND),
    )
    return bool(server.vacuums)


def _schema(database: Database, app: str) -> Iterator[Finding]:
    try:
        migrations.check(database)
    except Misconfigured as error:
        yield fail("schema", str(error), "celery -A proj pecker migrate")
        return
    yield ok("schema", f"{database.schema!r} is at step {migrations.LATEST}")
    needed = [(name, right) for name, rights in NEEDED.items() for right in rights]
    rows = database.run(
        "examine_rights",
        schema=database.schema,
        tables=[name for name, _ in needed],
        privileges=[right for _, right in needed],
    )
    lacking = [(role, name, right) for role, name, right in rows]
    yield judge.rights(lacking, needed)
    if not any(
        name == "pecker_owner" and right == "select" for _, name, right in lacking
    ):
        owners = database.run("examine_owner")
        yield judge.owner(owners[0][0] if owners else None, app)
    for row in database.run(
        "examine_tables",
        tasks=render("{schema}.pecker_tasks", database.schema),
        fences=render("{schema}.pecker_fences", database.schema),
    ):
        yield judge.table(judge.Table(*row))


def _outboxes(project: Project) -> Iterator[Finding]:
    for name, summary in project.summaries().items():
        check = f"outbox {name}"
        if isinstance(summary, PeckerError):
            yield fail(check, str(summary), "see that its DSN is reached from here")
        elif (why := undelivered(summary, DELIVERED_WITHIN)) is not None:
            yield fail(
                check,
                f"{summary.depth} due{why}; {summary.rate:.1f} sent per second",
                "relays log what keeps them from sending (celery_pecker.outbox);"
                " `pecker outbox` shows which tasks wait",
            )
        else:
            yield ok(check, f"{summary.depth} due, none for longer than a minute")


def _schedulers(project: Project) -> Iterator[Finding]:
    replicas = project.overview.replicas()
    if both := differing(replicas):
        yield fail(
            "declarations",
            f"schedulers declare {len(both)} entries differently, and send them by each"
            f" of their schedules: {', '.join(map(repr, both[:5]))}",
            "let a schedule be the same in each process (no hash() of text, no random"
            " number), and all schedulers run the same code",
        )
    if named := other_scheduler(project.app):
        yield warn(
            "beat_scheduler",
            f"{named}: what that stores is not run by -S pecker, nor by workers",
            "import it: celery -A proj pecker import --schedules; or run it by celery"
            " -A proj beat -S pecker_bridge",
        )
    living = alive(replicas)
    if not living:
        stored = project.overview.totals().unclaimed
        scheduled = stored or {*project.declared} - {CELERYS}
        yield (fail if scheduled else warn)(
            "schedulers",
            "none is alive" + (": nothing that is scheduled runs" if scheduled else ""),
            "start one: celery -A proj beat -S pecker, or a worker with"
            " pecker_worker = {'scheduler'}",
        )
        return
    totals = project.totals
    silent_us = totals.now_us - max(one.seen_us for one in living)
    if totals.overdue and silent_us > SILENT_US:
        yield fail(
            "schedulers",
            f"none has shown life for {span(silent_us)}, and entries are overdue",
            "see whether they run, and reach the database from where they are",
            since_us=totals.now_us - silent_us,
        )
        return
    text = ", ".join(f"{one.kind} on {one.host} ({one.version})" for one in living)
    if len({one.version for one in living}) > 1:
        yield warn(
            "schedulers",
            f"of several versions: {text}",
            "fine while a deploy rolls; restart the older ones otherwise",
        )
    elif len(living) == 1:
        yield warn(
            "schedulers", f"only one: {text}", "run a second one on another host"
        )
    else:
        yield ok("schedulers", text)

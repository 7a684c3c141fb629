"""What is found of PostgreSQL, judged. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from celery_pecker.kernel.lease import SECOND
from celery_pecker.kernel.schema_check import OLDEST
from celery_pecker.schedules.overview.model import LockingSession
from celery_pecker.surfaces.findings.model import Finding, fail, ok, warn
from celery_pecker.surfaces.views.phrases import duration

OFFSET_SEEN_US = SECOND // 2
HELD_US = 60 * SECOND
HELD_LONG_US = 3_600 * SECOND
DEAD = 50_000
"""Dead rows from which on a claim walks visibly farther; autovacuum begins at 5,000."""
UPDATED = 1_000
"""Updates from which on the share of HOT ones says something."""
HOT = 0.9
SNAPSHOTS = "docs/how-to/long-transactions.md"


@dataclass(frozen=True, slots=True)
class Server:
    """What PostgreSQL says of itself."""

    version: str
    number: int
    isolation: str
    standby: bool
    vacuums: bool


@dataclass(frozen=True, slots=True)
class XminHolder:
    """Something that keeps old row versions alive."""

    what: str
    who: str
    versions: int | None
    since_us: int | None
    key: str = ""
    """Of a session what no other has."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that every slot writes to."""

    name: str
    live: int
    dead: int
    updated: int
    hot: int
    options: str
    indexes: int


def server(facts: Server) -> Iterator[Finding]:
    """Judge version, role and isolation."""
    if facts.number >= OLDEST:
        yield ok("server version", f"PostgreSQL {facts.version}")
    else:
        yield fail(
            "server version",
            f"PostgreSQL {facts.version}; 14 and newer are allowed",
            "upgrade the server, or give pecker_dsn another one",
        )
    if facts.isolation == "read committed":
        yield ok("isolation", facts.isolation)
    else:
        yield fail(
            "isolation",
            f"{facts.isolation!r}; 'read committed' is needed, in which a lost race"
            " is an empty answer",
            "alter role … set default_transaction_isolation to 'read committed'",
        )
    if facts.standby:
        yield fail(
            "primary",
            "this server is a standby, which cannot be written to",
            "name the primary in pecker_dsn, or all hosts with"
            " target_session_attrs=read-write",
        )


def pooler(processes: Sequence[int]) -> Finding:
    """Judge the server's processes behind connections A, B, and A again."""
    first, second, third = processes
    if first == second or first != third:
        return ok(
            "pooler",
            "transaction or statement pooling: fine for schedulers; take the"
            " migrations over a direct connection",
        )
    return ok("pooler", "each connection has a server process of its own")


def clock(offset_us: int, error_us: int, skew_us: int) -> Finding:
    """Judge how far the host's clock is from the database's."""
    text = (
        f"this host's clock is {offset_us / 1000:+.1f} ms from the database's"
        f" (± {error_us / 1000:.1f} ms)"
    )
    away = abs(offset_us) - error_us
    if away > skew_us:
        return fail(
            "clock",
            text + "; Celery compares 'expires' with the clocks of workers",
            "let NTP set the clocks of all hosts",
        )
    if away > OFFSET_SEEN_US:
        return warn("clock", text, "let NTP set the clocks of all hosts")
    return ok("clock", text)


def locks(sessions: Sequence[LockingSession]) -> Iterator[Finding]:
    """Judge what keeps claims from rows."""
    for one in sessions:
        yield fail(
            f"locks of {one.pid}",
            f"claims pass over rows that are held for {duration(one.age)} by"
            f" {one.words}",
            one.end,
            since_us=one.since_us,
            act="end",
            about=one.key,
        )


def snapshots(holders: Sequence[XminHolder], vacuums: bool) -> Finding:
    """Judge what keeps dead rows from being cleaned up."""
    worst = next(
        (one for one in holders if one.since_us is None or one.since_us > HELD_US), None
    )
    if not vacuums:
        return fail(
            "held snapshots",
            "autovacuum or track_counts is off: dead rows are never cleaned up",
            "set both to on",
        )
    if worst is None:
        return ok("held snapshots", "none older than a minute")
    since = "" if worst.since_us is None else f" for {worst.since_us / SECOND:.0f} s"
    text = f"{worst.what} ({worst.who}) holds back the clean-up of dead rows{since}"
    judged = (
        fail if worst.since_us is not None and worst.since_us > HELD_LONG_US else warn
    )
    return judged(
        "held snapshots",
        text,
        f"end it, or see that it ends: {SNAPSHOTS}",
        act="end" if worst.key else "",
        about=worst.key,
    )


def table(facts: Table) -> Finding:
    """Judge dead rows, HOT updates and what keeps them so."""
    check = f"table {facts.name}"
    share = facts.hot / facts.updated if facts.updated else 1.0
    text = f"{facts.live} rows, {facts.dead} dead, {share:.1%} of the updates were HOT"
    if "autovacuum_enabled=false" in facts.options:
        return fail(
            check,
            text + "; autovacuum is off for it",
            f"alter table {facts.name} reset (autovacuum_enabled)",
        )
    if facts.indexes > 1:
        return warn(
            check,
            text + f"; it has {facts.indexes} indexes, where one is ours",
            "drop the others: an index on a column that slots change ends HOT updates",
        )
    if "fillfactor=35" not in facts.options:
        return warn(
            check,
            text + "; its fillfactor was changed",
            f"alter table {facts.name} set (fillfactor = 35)",
        )
    if facts.dead > max(DEAD, 5 * facts.live):
        return warn(
            check,
            text,
            "something holds back the clean-up, or autovacuum does not come:"
            f" {SNAPSHOTS}",
        )
    if facts.updated > UPDATED and share < HOT:
        return warn(
            check,
            text + ": there is no room beside the rows",
            f"end what holds snapshots (above), and the share recovers: {SNAPSHOTS}",
        )
    return ok(check, text)


def rights(
    lacking: Sequence[tuple[str, str, str]], needed: Collection[tuple[str, str]]
) -> Finding:
    """Judge what the role may not do of what is needed: (role, table, right)."""
    if not lacking:
        return ok("rights", "the role may do what a scheduler does")
    role = lacking[0][0]
    changes = {(name, right) for name, right in needed if right != "select"}
    if {(name, right) for _, name, right in lacking} == changes:
        return ok("rights", f"the role {role!r} may read all, and changes nothing")
    of: dict[str, list[str]] = {}
    for _, name, right in lacking:
        of.setdefault(name, []).append(right)
    alike: dict[str, list[str]] = {}
    for name, lacks in of.items():
        alike.setdefault(", ".join(lacks), []).append(name)
    named = "; ".join(
        f"{lacks} on {', '.join(names)}" for lacks, names in alike.items()
    )
    return fail(
        "rights",
        f"the role {role!r} lacks {named}",
        "grant them, or what its kind of process needs:"
        " docs/how-to/rights-and-migrations.md",
    )


def owner(recorded: str | None, app: str) -> Finding:
    """Judge whose schema it is."""
    if recorded is None:
        return ok("owner", f"no app's yet; the first scheduler makes it {app!r}'s")
    if recorded == app:
        return ok("owner", f"app {app!r}")
    return fail(
        "owner",
        f"the schema belongs to app {recorded!r}, this app is {app!r}",
        "give each app a schema of its own (pecker_schema), or set pecker_app",
    )

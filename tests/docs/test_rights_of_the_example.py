"""Acts of the example project, each process with the rights that the page gives it."""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from rich.console import Console

from celery_pecker.kernel.migrations import migrate
from example_project.airports import play as airports
from example_project.airports.story import failures as airports_failures
from example_project.billing import play as billing
from example_project.billing.story import failures as billing_failures
from example_project.customers import play as customers
from example_project.customers.story import failures as customers_failures
from example_project.demo.__main__ import on_stage, options
from example_project.demo.scene import Scene
from example_project.demo.servers import GivenRedis, Servers
from example_project.demo.stage import Stage, started
from example_project.groomer import play as groomer
from example_project.groomer.hosts import Hosts
from example_project.groomer.story import failures as groomer_failures
from example_project.pace import DEMO_DROPS_AFTER
from example_project.processes import ProcessContainer
from example_project.rush import play as rush
from example_project.rush.story import failures as rush_failures
from tests.docs.pages import steps
from tests.docs.test_code_blocks import remove
from tests.docs.test_rights import ALL, NAMES, PAGE

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]
SCHEMA = re.compile(r"\bpecker(?=\.| to\b)")
ROLES = {
    "beat": "pecker_scheduler",
    "scheduler": "pecker_scheduler",
    "worker": "pecker_worker",
    "observe": "pecker_observe",
    "flower": "pecker_reader",
}
"""The role of a process by a word of its command or name; of others, `pecker_web`."""
BOTH = "pecker_scheduler_worker"
"""The login of a worker that is a scheduler too: a member of both."""


class Owner:
    """The owner of an act's tables, with the roles of the page for its processes."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.roles = dict(ROLES)
        self.made: list[str] = []
        self.entered: set[str] = set()
        self.reads: dict[str, str] = {}
        """What a statement of the act's own reads of our tables, by role."""
        self._password = secrets.token_hex(16)
        self._suffix = secrets.token_hex(6)

    def migrate(self, dsn: str, *, schema: str) -> None:
        """Make the tables, and the roles of the page, which may log in."""
        migrate(dsn, schema=schema)
        said = [
            one.text for one in steps(PAGE.read_text()) if "create role" in one.text
        ]
        text = NAMES.sub(
            lambda name: self._of(name[0]), SCHEMA.sub(schema, "\n".join(said))
        )
        self.made += map(self._of, ALL)
        roles = ", ".join(map(self._of, ALL))
        # On the tables of the act's own service, which it makes after this.
        text += f"alter default privileges grant all on tables to {roles};"
        text += f"alter default privileges grant all on sequences to {roles};"
        for name, table in self.reads.items():
            text += f"grant select on {schema}.{table} to {self._of(name)};"
        for name in ALL:
            text += f"alter role {self._of(name)} login password '{self._password}';"
        self.made.append(self._of(BOTH))
        both = ", ".join(map(self._of, (ROLES["beat"], ROLES["worker"])))
        text += f"create role {self._of(BOTH)} login password '{self._password}'"
        text += f" in role {both};"
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(text.encode())

    def started(
        self, kept: ExitStack, name: str, command: Sequence[str], env: Mapping[str, str]
    ) -> ProcessContainer:
        """Start a process that logs in as the role of its kind."""
        words = (self.roles[word] for word in command if word in self.roles)
        role = next(words, "pecker_web")
        process = started(kept, name, command, self.environment(role, env))
        kept.callback(look, process)
        return process

    def enter(self, monkeypatch: pytest.MonkeyPatch, act: ModuleType) -> None:
        """Have an act migrate and start its processes here."""
        monkeypatch.setattr(act, "migrate", self.migrate)
        monkeypatch.setattr(act, "started", self.started)

    def environment(self, role: str, env: Mapping[str, str]) -> dict[str, str]:
        """Return an act's environment for a process that logs in as a role."""
        return {
            name: self.dsn_of(role) if name.endswith("_DSN") else value
            for name, value in env.items()
        }

    def enters(self, name: str) -> str:
        """Return the address of a process of the story, by its name."""
        words = re.split(r"\W", name)[::-1]  # the last one says most: worker-local
        return self.dsn_of(
            next(
                (self.roles[word] for word in words if word in self.roles), "pecker_web"
            )
        )

    def end(self) -> None:
        """Remove the roles."""
        for role in self.made:
            remove(role, self.dsn)

    def dsn_of(self, role: str) -> str:
        """Return the address, entered as a role of the page."""
        self.entered.add(role)
        return make_conninfo(self.dsn, user=self._of(role), password=self._password)

    def _of(self, name: str) -> str:
        return f"{name}_{self._suffix}"


def look(process: ProcessContainer) -> None:
    """Fail where a process was refused something."""
    read(process.name, process.logs().decode(errors="replace"))


def read(name: str, said: str) -> None:
    """Fail where a process of this name was refused something."""
    lines = [line for line in said.splitlines() if "permission denied" in line]
    assert not lines, f"{name}: {lines}"


def enter_as_web(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, environ: str, *modules: str
) -> None:
    """Let an act's own process call as a web process does."""

    def update(env: Mapping[str, str]) -> None:
        for name, value in owner.environment("pecker_web", env).items():
            monkeypatch.setenv(name, value)

    monkeypatch.setattr(environ, SimpleNamespace(update=update))
    # They read the environment as they are imported, and are no other test's.
    for module in modules:
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
        monkeypatch.delitem(sys.modules, module)


def servers(owner: Owner, redis_url: str) -> Any:
    """Return the servers of an act; their Redis is not stopped."""
    postgres = SimpleNamespace(dsn=owner.dsn)
    return SimpleNamespace(postgres=postgres, redis=GivenRedis(redis_url))


@pytest.fixture
def owner(empty_dsn: str) -> Iterator[Owner]:
    """Give the owner of a database without tables; the roles end with the test."""
    made = Owner(empty_dsn)
    yield made
    made.end()


def test_the_story_is_played_under_the_documented_rights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Schedulers are killed and frozen, and people look at it in Flower."""
    given = options(
        ["--short", "--calm", "--calls", "20", "--picture", f"{tmp_path}/p"]
    )
    scene = Scene(calls=given.calls, drops_after=DEMO_DROPS_AFTER)
    with ExitStack() as kept:
        base = kept.enter_context(Servers())
        owner = Owner(base.postgres.dsn)
        kept.callback(owner.end)
        owner.roles["local"] = BOTH
        owner.reads["pecker_worker"] = "pecker_replicas"  # its `record_run`
        monkeypatch.setattr("example_project.demo.stage.migrate", owner.migrate)
        stage = kept.enter_context(
            Stage(base, calls=given.calls, seed=given.seed, enters=owner.enters)
        )
        chronicle = on_stage(given, scene, base, stage)
        for name, said in stage.logs().items():
            read(name, said)
    assert chronicle.failures == []
    assert owner.entered == {*ROLES.values(), BOTH, "pecker_web"} - {"pecker_observe"}


def test_the_rush_hour_runs_under_the_documented_rights(
    owner: Owner, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scheduler and two workers, whose tasks are held by the gate."""
    owner.enter(monkeypatch, rush)
    place = rush.Place(dsn=owner.dsn, redis=redis_url, meetings=20, period=2.0)
    seen = rush.play(place, gate=True, tell=print)
    assert rush_failures([seen], 20) == []
    assert owner.entered == {"pecker_scheduler", "pecker_worker"}


def test_the_customers_are_served_under_the_documented_rights(
    owner: Owner, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two schedulers that call, a worker, and a process that edits schedules."""
    owner.enter(monkeypatch, customers)
    act = "example_project.customers"
    enter_as_web(owner, monkeypatch, f"{act}.play.environ", f"{act}.app")
    seen = customers.play(servers(owner, redis_url), print)
    assert customers_failures(seen) == []
    assert owner.entered == {"pecker_scheduler", "pecker_worker", "pecker_web"}


def test_the_bills_are_delivered_under_the_documented_rights(
    owner: Owner, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two schedulers that are relays, a worker, and callers that record tasks."""
    owner.enter(monkeypatch, billing)
    stand = servers(owner, redis_url)
    seen = billing.play(stand, Console(quiet=True), print)
    assert billing_failures(seen) == []
    assert owner.entered == {"pecker_scheduler", "pecker_worker", "pecker_web"}


def test_the_airports_are_imported_under_the_documented_rights(
    owner: Owner, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers that are schedulers too, and a process that calls the job."""
    owner.enter(monkeypatch, airports)
    owner.roles["worker"] = BOTH
    act = "example_project.airports"
    modules = f"{act}.app", f"{act}.tasks"
    enter_as_web(owner, monkeypatch, f"{act}.play.environ", *modules)
    place = airports.Place(dsn=owner.dsn, redis=redis_url)
    seen = airports.play(place, Console(quiet=True), print)
    assert airports_failures(seen) == []
    assert owner.entered == {BOTH, "pecker_web"}


def test_the_groomer_runs_under_the_documented_rights(
    owner: Owner, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is a scheduler too, hosts of observers, and the service."""
    owner.enter(monkeypatch, groomer)
    monkeypatch.setattr(f"{Hosts.__module__}.started", owner.started)
    owner.roles["worker"] = BOTH
    monkeypatch.setattr(groomer, "CALLS", 20)
    with ExitStack() as kept:

        def hosts(_connection: Any, _dsn: str, schema: str) -> Hosts:
            dsn = owner.dsn_of("pecker_web")
            own = make_conninfo(dsn, options=f"-c search_path={schema}")
            connection = kept.enter_context(psycopg.connect(own, autocommit=True))
            return Hosts(connection, dsn, schema)

        monkeypatch.setattr(groomer, "Hosts", hosts)
        seen = groomer.play(servers(owner, redis_url), Console(quiet=True), print)
    assert groomer_failures(seen) == []
    assert owner.entered == {BOTH, "pecker_observe", "pecker_web"}

"""Two hundred calls on three media servers, one of which freezes and wakes up.

An observer watches each server; of their three hosts one is killed and one drained.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from rich.console import Console

from celery_pecker.kernel.clock import SYSTEM, new_id
from celery_pecker.kernel.migrations import migrate
from celery_pecker.testing import eventually, free_port
from example_project.demo.bars import Bars
from example_project.demo.interrupts import undisturbed
from example_project.demo.servers import Servers
from example_project.demo.stage import await_word, started
from example_project.groomer import media, peers, queries, service, wire
from example_project.groomer.hosts import HOSTS, Hosts
from example_project.groomer.lives import Watched
from example_project.groomer.queries import Current
from example_project.pace import LOST_AFTER
from example_project.processes import ProcessContainer

CALLS = 200
SERVERS = 3
EACH = 3
"""Peers of a call that come at once; one more comes later."""
FREEZE = 8.0
"""Seconds for which a media server stands still."""
KILL = 2.0
"""Seconds from there on until a host of observers is killed."""
SETTLE = 2.5
"""Seconds for which its wake-up is watched, at least."""
LATER = 12.0
"""Seconds until the last peer comes: before, in and after the freeze."""
INTERVAL = 0.2
"""Seconds between two looks."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """What was seen of the act. Splits are the peers' own account."""

    calls: int = CALLS
    peers: int = 0
    frozen: tuple[float, float] = (0.0, 0.0)
    """From when until when, in seconds since the peers began to come."""
    lasted: float = 0.0
    splits: list[tuple[int, float, float]] = field(default_factory=list)
    """The call, and from when until when its peers were in two sessions."""
    still_split: int = 0
    out: int = 0
    """Peers that are in no session at the end."""
    switched: int = 0
    invited: int = 0
    twice: int = 0
    """Peers and sessions with more than one invitation that arrived."""
    unsent: int = 0
    swept: int = 0
    orphans: int = 0
    refused: int = 0
    """Offers by which the woken server would have pulled peers back."""
    pulled: int = 0
    """Those of them that reached their peer."""
    reports: int = 0
    unbelieved: int = 0
    watched: Watched = field(default_factory=Watched)

    def percentile(self, part: float) -> float:
        """Return the length of a split that this part of them does not exceed."""
        lengths = sorted(end - begin for _, begin, end in self.splits)
        return lengths[min(len(lengths) - 1, int(part * len(lengths)))]


def play(servers: Servers, console: Console, tell: Callable[[str], None]) -> Seen:
    """Play the act and return what was seen; tables and keys are its own."""
    schema = f"groomer_{new_id().hex[:8]}"
    with ExitStack() as kept:
        folder = kept.enter_context(TemporaryDirectory(prefix="groomer-"))
        dsn = servers.postgres.dsn
        migrate(dsn, schema=schema)
        own = make_conninfo(dsn, options=f"-c search_path={schema}")
        connection = kept.enter_context(psycopg.connect(own, autocommit=True))
        kept.callback(
            connection.execute,
            sql.SQL("drop schema {} cascade").format(sql.Identifier(schema)),
        )
        connection.execute(queries.query("schema"))
        gateway = free_port()
        env = {
            "GROOMER_DSN": dsn,
            "GROOMER_REDIS_URL": servers.redis.url,
            "GROOMER_KEY_PREFIX": f"{servers.redis.key_prefix}{schema}:",
            "GROOMER_SCHEMA": schema,
            "GROOMER_GATEWAY": str(gateway),
            "GROOMER_HEARTBEATS": folder,
        }
        act = _Act(connection, gateway, Hosts(connection, dsn, schema), tell)
        act.start(kept, env)
        with Bars(console) as bars:
            act.freeze(bars)
        return act.account()


class _Act:
    """The processes of the act, and what is done to them."""

    def __init__(
        self,
        connection: psycopg.Connection[tuple[object, ...]],
        gateway: int,
        hosts: Hosts,
        tell: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._gateway = (wire.HOST, gateway)
        self._groomer = (wire.HOST, free_port())
        self._hosts = hosts
        self._tell = tell
        self._servers: list[ProcessContainer] = []
        self._seen = Seen()
        self._origin = 0.0
        """When the peers began to come, by the clock of PostgreSQL."""

    def start(self, kept: ExitStack, env: dict[str, str]) -> None:
        """Start the groomer, a worker and the media servers; make the calls."""
        at = "example_project.groomer"
        port = str(self._groomer[1])
        self._tell(
            f"groomer: {SERVERS} media servers, a worker, {HOSTS} observer hosts start"
        )
        self._hosts.start(kept, env)
        words = ("-m", f"{at}.service", port, str(self._gateway[1]))
        groomer = started(kept, "groomer", words, env)
        celery = ("-m", "celery", "-A", f"{at}.app", "worker", "-n", "groomer@%h")
        quiet = ("--without-gossip", "--without-mingle", "-l", "INFO")
        worker = started(
            kept, "worker", (*celery, "-P", "threads", "-c", "12", *quiet), env
        )
        await_word(groomer, service.READY)
        ports = [free_port() for _ in range(SERVERS)]
        for number, own in enumerate(ports, 1):
            server = ("-m", f"{at}.media", str(number), str(own), port)
            self._servers.append(started(kept, f"media-{number}", server, env))
        for one in self._servers:
            await_word(one, media.READY)
        for room in range(1, CALLS + 1):
            new = Current(1, f"{room}/1", 1 + room % SERVERS)
            queries.switch(self._connection, room, new)
        await_word(worker, " ready.")
        await_word(worker, "pecker: ready")
        calls = (
            *("-m", f"{at}.peers", str(self._gateway[1]), port, *map(str, ports)),
            *("--rooms", str(CALLS), "--each", str(EACH), "--later", str(LATER)),
        )
        guests = started(kept, "peers", calls, env)
        self._hosts.await_ready()
        for number, own in enumerate(ports, 1):
            self._hosts.add_server(number, own)
        await_word(guests, peers.READY)

    def freeze(self, bars: Bars) -> None:
        """Freeze a media server, wake it up, and wait until no call is split."""

        def look() -> wire.Document:
            seen = wire.ask(self._gateway, {"look": True})
            peers_in, healed = seen["in"], len(seen["splits"])
            bars.draw("peers", peers_in, seen["peers"])
            split = f"{len(seen['since'])} split now"
            bars.draw("healed", healed, max(1, healed + len(seen["since"])), split)
            return seen

        def wait(seconds: float) -> float:
            ends = SYSTEM.monotonic() + seconds
            eventually(
                lambda: look() and SYSTEM.monotonic() >= ends,
                seconds + LOST_AFTER,
                interval=INTERVAL,
            )
            return float(look()["at"])

        def watched() -> None:
            with suppress(AssertionError):  # told by the account
                eventually(lambda: look() and self._hosts.watched(), LOST_AFTER)

        eventually(
            lambda: look()["in"] >= CALLS * EACH, LOST_AFTER, "peers are in their calls"
        )
        watched()
        frozen = self._servers[0]
        began = look()["at"]
        self._origin = self._hosts.now() - began
        self._tell(f"SIGSTOP {frozen.name}: a third of {CALLS} calls stand still")
        with undisturbed():
            frozen.kill("SIGSTOP")
            wait(KILL)
            name = self._hosts.kill()
            self._tell(f"kill -9 {name}: it and its supervisor, with an observer")
            ended = wait(FREEZE - KILL)
            frozen.kill("SIGCONT")
        self._seen.frozen = began, ended
        self._tell(f"SIGCONT {frozen.name}: it sends offers that pull its peers back")
        watched()
        name = self._hosts.drain()
        self._tell(f"drain {name}: it hands its observers over")
        wait(SETTLE)
        watched()

        def whole() -> bool:
            seen = look()
            return not seen["since"] and seen["in"] == seen["peers"] and self._sent()

        try:
            eventually(whole, LOST_AFTER, interval=INTERVAL)
        except AssertionError:
            self._tell("some calls are split still")

    def account(self) -> Seen:
        """Return what the peers, the groomer and its tables say at the end."""
        seen, last = self._seen, wire.ask(self._gateway, {"look": True})
        counts = wire.ask(self._groomer, {"counts": True})
        seen.peers, seen.lasted = last["peers"], last["at"]
        seen.out = last["peers"] - last["in"]
        seen.splits = [(room, begin, end) for room, begin, end in last["splits"]]
        seen.still_split = len(last["since"])
        seen.invited, seen.twice = last["invited"], last["twice"]
        seen.pulled, seen.refused = last["pulled"], counts["refused"]
        seen.reports, seen.unbelieved = counts["reports"], counts["unbelieved"]
        row = self._connection.execute(queries.query("counted")).fetchone() or ()
        _, seen.orphans, _, seen.swept, seen.unsent = (int(str(one)) for one in row)
        [seen.switched] = (
            int(str(one))
            for one in self._connection.execute(queries.query("switched")).fetchone()
            or (0,)
        )
        seen.watched = self._hosts.account(self._origin)
        return seen

    def _sent(self) -> bool:
        row = self._connection.execute(queries.query("counted")).fetchone() or (0,)
        return row[-1] == 0

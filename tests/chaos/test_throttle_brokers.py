"""Held and parked messages outlive brokers and workers that are killed and frozen.

A round: a burst of tasks for a database that is shut comes to two workers that may hold
few; a blow falls, half of the time while messages are on their way into holds and
parking queues, half of the time when all of them are there. In the end the database
opens. Each task has run once, but for what the broker's transport itself gives away:

* Redis: kombu fetches with BRPOP, and what was in the answer that never arrived is
  lost: at most one message for each worker at each blow that cuts its connections
  while it fetches (none when it does not);
* RabbitMQ: a message that was published to its parking queue and not yet acknowledged
  runs twice: at most a prefetch of them for each worker at each such blow.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu import Connection

from celery_pecker.testing import EmbeddedRedis, eventually
from tests.integration.throttle.worker.stand import Stand
from tests.proxy import Proxy
from throttle.settings import MESSAGE_BYTES

pytestmark = [pytest.mark.cluster, pytest.mark.chaos]

SEEDS = int(os.environ.get("PECKER_CHAOS_SEEDS", "1"))
"""Runs of seven blows for each pool and broker; 3 of each take three minutes."""
HOLD = 8
BURST = 30
WORKERS = 2
PREFETCH = 4
TIMEOUT = 8
"""Redis' visibility timeout; the renewals of living workers beat it."""
CUTS = ("broker killed", "broker restarted", "worker killed", "cut", "muted")
"""Blows that cut a connection which may be fetching."""


class Yard:
    """Two workers, their broker, and what is thrown at them."""

    def __init__(self, stand: Stand, broker: Any, pool: str, seed: int) -> None:
        self.stand = stand
        self.broker = broker
        self.pool = pool
        self.random = random.Random(seed)
        self.names: list[str] = []
        self.blows: list[str] = []
        self.busy_cuts = 0
        for _ in range(WORKERS):
            self.start()
        stand.until_shut(workers=WORKERS)

    def start(self) -> None:
        """One more worker is there."""
        self.stand.start(
            pool=self.pool,
            throttle_hold_bytes=HOLD * MESSAGE_BYTES,
            broker_transport_options={"visibility_timeout": TIMEOUT}
            if self.stand.conf["broker_url"].startswith("redis")  # type: ignore[attr-defined]
            else {},
        )

    def round(self, kinds: tuple[str, ...]) -> None:
        """A burst, and a blow somewhere in it."""
        number = len(self.blows)
        burst = [f"r{number}-{one}" for one in range(BURST)]
        self.names += burst
        kind, busy = self.random.choice(kinds), self.random.random() < 0.5
        self.blows.append(f"{kind}{' busy' * busy}")
        task = self.random.choice(["gated", "gated_late"])
        self.stand.send(task, *burst)
        left = self.random.randrange(1, BURST) if busy else 0
        self.stand.until(lambda: self.queued() <= left, f"{self.blows}: {left} left")
        self.busy_cuts += busy and kind in CUTS
        getattr(self, kind.replace(" ", "_"))()

    def queued(self) -> int:
        """How many messages wait in the queue."""
        with Connection(self.stand.sender.conf.broker_url) as connection:
            channel: Any = connection.default_channel
            try:
                declared = channel.queue_declare(self.stand.queue, passive=True)
            except connection.channel_errors:  # on Redis an empty queue is none
                return 0
            return int(declared.message_count)

    @property
    def living(self) -> list[Any]:
        """Workers that have not ended."""
        return [one for one in self.stand.workers if one.exit_code is None]

    # Blows to workers

    def worker_killed(self) -> None:
        """SIGKILL, with all of its processes."""
        victim = self.random.choice(self.living)
        os.killpg(victim.pid, signal.SIGKILL)
        self._replaced(victim)

    def worker_frozen(self) -> None:
        """It stands still beyond the time in which messages are its own."""
        victim = self.random.choice(self.living)
        os.killpg(victim.pid, signal.SIGSTOP)
        if self.stand.conf["broker_url"].startswith("redis"):  # type: ignore[attr-defined]
            self._hand_out(victim)
        os.killpg(victim.pid, signal.SIGCONT)

    def worker_ended(self) -> None:
        """A warm shutdown."""
        victim = self.random.choice(self.living)
        os.kill(victim.pid, signal.SIGTERM)
        self._replaced(victim)

    def worker_quit(self) -> None:
        """A cold shutdown."""
        victim = self.random.choice(self.living)
        os.kill(victim.pid, signal.SIGQUIT)
        self._replaced(victim)

    def _replaced(self, victim: Any) -> None:
        self.stand.until(lambda: victim.exit_code is not None, "it ended")
        self.start()

    def _hand_out(self, victim: Any) -> None:
        """What the other does not renew goes back, as Redis' transport does it."""
        del victim

        def restored() -> bool:
            self.restore()
            with redis.Redis.from_url(self.broker.url) as client:
                stamps = client.zrange("unacked_index", 0, -1, withscores=True)
                now = float(client.time()[0])
            return all(stamp > now - TIMEOUT for _, stamp in stamps)

        eventually(restored, 30, "what it had is handed out")

    def restore(self) -> None:
        """What nobody renewed within the timeout is in its queue again."""
        options = {"visibility_timeout": TIMEOUT}
        url = self.stand.sender.conf.broker_url
        with Connection(url, transport_options=options) as connection:
            connection.default_channel.qos.restore_visible(num=1000, interval=1)  # type: ignore[attr-defined]

    # Blows to the broker, and to the way there

    def broker_killed(self) -> None:
        """SIGKILL, and there again."""
        self.broker.kill()
        self.broker.start()

    def broker_restarted(self) -> None:
        """Ended in good order, and there again."""
        self.broker.stop()
        self.broker.start()

    def broker_frozen(self) -> None:
        """No answer for a while."""
        self.broker.freeze()
        try:
            before = self.stand.view().seen.traffic
            self.stand.until(lambda: self.stand.view().seen.traffic is not before, "")
        finally:
            self.broker.thaw()

    def cut(self) -> None:
        """All connections are reset."""
        self.broker.cut()

    def muted(self) -> None:
        """What is sent arrives, the answers never come; then all is reset."""
        self.broker.mute()
        self.stand.send("gated", name := f"muted-{len(self.blows)}")
        self.names.append(name)
        self.broker.cut()
        self.broker.open()

    # The end

    def judge(self, *, lost: int, twice: int) -> None:
        """Open the database: each task runs once, but for so many."""
        self.stand.reopen()
        on_redis = self.stand.conf["broker_url"].startswith("redis")  # type: ignore[attr-defined]

        def settled() -> bool:
            if on_redis:
                self.restore()
            missing = set(self.names) - set(self.stand.ran)
            return not missing or (
                len(missing) <= lost and self.queued() == 0 and self.still()
            )

        self.stand.until(settled, f"{self.blows}: all ran", timeout=60.0)
        ran = self.stand.ran
        missing = set(self.names) - set(ran)
        doubles = {name: times for name, times in ran.items() if times > 1}
        assert len(missing) <= lost, (self.blows, missing)
        assert sum(doubles.values()) - len(doubles) <= twice, (self.blows, doubles)

    def still(self) -> bool:
        """Whether Redis has nothing more for anybody."""
        with redis.Redis.from_url(self.broker.url) as client:
            parking = f"{self.stand.queue}.parking"
            return not client.hlen("unacked") and not any(
                client.scan_iter(f"{parking}*")
            )


@pytest.fixture
def yards(tmp_path: Path, redis_url: str) -> Iterator[Callable[..., Yard]]:
    """Give a function that makes a yard."""
    with ExitStack() as stack:

        def make(direct: str, broker: Any, pool: str, seed: int, way: str = "") -> Yard:
            stand = Stand(tmp_path, broker=direct, store=redis_url)
            stack.callback(stand.close)
            stand.conf["broker_url"] = way or direct
            return Yard(stand, broker, pool, seed)

        yield make


@pytest.mark.parametrize(
    "pool", ["prefork", pytest.param("threads", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_on_redis(
    own_redis: Callable[..., EmbeddedRedis],
    yards: Callable[..., Yard],
    seed: int,
    pool: str,
) -> None:
    """Seven blows each."""
    server = own_redis()
    yard = yards(server.url, server, pool, seed)
    kinds = (
        *("broker killed", "broker restarted", "broker frozen"),
        *("worker killed", "worker frozen", "worker ended", "worker quit"),
    )
    for _ in range(7):
        yard.round(kinds)
    yard.judge(lost=yard.busy_cuts * WORKERS, twice=0)


@pytest.mark.parametrize(
    "pool", ["threads", pytest.param("prefork", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_on_rabbitmq(
    amqp_url: str, yards: Callable[..., Yard], seed: int, pool: str
) -> None:
    """Seven blows each; nothing is ever lost."""
    with Proxy.before(amqp_url) as proxy:
        yard = yards(amqp_url, proxy, pool, seed, proxy.url)
        kinds = ("cut", "muted", "worker killed", "worker frozen", "worker ended")
        for _ in range(7):
            yard.round(kinds)
        yard.judge(lost=0, twice=len(yard.blows) * WORKERS * (HOLD + PREFETCH))

"""The exchange of a process that is no worker: real processes, forks and Redis."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
import redis

from celery_pecker.testing import EmbeddedRedis, eventually
from tests.told import telling
from throttle.errors import Misconfigured
from throttle.exchange import Exchanger
from throttle.exchange.process import ProcessExchange
from throttle.gate import Gate
from throttle.model import Amount, Reading
from throttle.settings import Settings
from throttle.store.redis import RedisStore

START = """
import os, sys, threading
from tests.told import told
from throttle.exchange.process import this_process, report
from throttle.meter import meter
conf = {"throttle_redis_url": told()[0], "throttle_limits": {"main": 1000}}
def say(what):
    print(what, flush=True)
"""


def settings_of(url: str, **more: object) -> Settings:
    """Return settings with a limit of 1,000 operations a second."""
    return Settings.read(
        {"throttle_redis_url": url, "throttle_limits": {"main": 1000}, **more}
    )


COUNTED = """
local sum = 0
for _, key in ipairs(redis.call('KEYS', '{throttle}:1:of:main:*')) do
    if tonumber(key:match('[^:]*$')) then
        local window = cmsgpack.unpack(redis.call('GET', key))
        for at = 1, 60, 6 do sum = sum + window[at] end
    end
end
return tostring(sum / 1000)
"""


def counted(url: str) -> float:
    """Return what stands in all windows of the last ten seconds."""
    with redis.Redis.from_url(url) as client:
        return float(client.eval(COUNTED, 0))


@contextmanager
def program(url: str, text: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that has the exchange at hand; it ends with its input."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", START + text],
        env=telling(url),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ran(url: str, text: str) -> str:
    """Return what a program said until its end, which was a good one."""
    with program(url, text) as process:
        said, wrong = process.communicate(timeout=30)
    assert process.returncode == 0, wrong
    assert not wrong
    return said


@pytest.fixture
def exchanges() -> Iterator[Callable[[], ProcessExchange]]:
    """Give a way to make exchanges as if of processes of their own."""
    with ExitStack() as stack:

        def make() -> ProcessExchange:
            made = ProcessExchange()
            stack.callback(made.leave)
            return made

        yield make


def test_what_is_counted_last_is_told_at_the_end(redis_url: str) -> None:
    """A script that counts and ends at once was there."""
    said = ran(
        redis_url,
        """
report(conf)
assert this_process.wait(30)
meter.tally("main").add(250)
""",
    )
    assert said == ""
    assert counted(redis_url) == 250


def test_a_store_that_is_away_does_not_keep_a_process_from_its_end(
    own_redis: Callable[..., EmbeddedRedis],
) -> None:
    """It waits a tenth of a second, whatever the store does; and says nothing."""
    server = own_redis(fast=True)
    url = server.url
    server.kill()
    with program(url, "report(conf)\nmeter.tally('main').add(1)") as process:
        _, wrong = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in wrong


def test_a_fork_counts_for_itself_and_its_parent_for_itself(redis_url: str) -> None:
    """As gunicorn does it: the app is loaded, then the workers are forked."""
    said = ran(
        redis_url,
        """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside a thread
report(conf)
tally = meter.tally("main")
tally.add(100)
assert this_process.wait(30)
first = this_process.exchanger.holder
children = []
for _ in range(2):
    pid = os.fork()
    if not pid:
        assert this_process.exchanger.alive, "nobody has to ask for it"
        tally.add(10)
        assert this_process.wait(30), "the child hears"
        assert this_process.exchanger.holder != first, "a life of its own"
        this_process.leave()
        os._exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
assert this_process.exchanger.alive
tally.add(1)
""",
    )
    assert said == ""
    eventually(lambda: counted(redis_url) == 121, timeout=30.0)


@pytest.mark.parametrize("kind", ["redis_url", "service_url"])
def test_the_thread_loads_no_module(redis_url: str, kind: str) -> None:
    """A process forked in the middle of it would have half a module for ever.

    In a child of such a fork each try ended with `unknown encoding: idna`.
    """
    url = redis_url if kind == "redis_url" else "http://localhost:9"
    said = ran(
        redis_url,
        f"""
import logging
logging.disable()
conf.update(throttle_redis_url=None, throttle_service_token="secret")
conf["throttle_{kind}"] = {url!r}
before = []
start = threading.Thread.start
def noted(thread):
    before.append(set(sys.modules))
    start(thread)
threading.Thread.start = noted
report(conf)
while not this_process.wait(0.01) and not this_process.exchanger.failures:
    pass
say(sorted(set(sys.modules) - before[0]))
""",
    )
    assert said == "[]\n"


@pytest.mark.parametrize("how", ["multiprocessing", "concurrent.futures"])
def test_a_child_of_python_s_own_pools_tells_what_it_counted_last(
    redis_url: str, how: str
) -> None:
    """It ends without what is registered with `atexit`; a short life is all lost."""
    said = ran(
        redis_url,
        f"""
import multiprocessing, warnings
from concurrent.futures import ProcessPoolExecutor
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside a thread
multiprocessing.set_start_method("fork")
report(conf)
def count():
    meter.tally("main").add(20)
if {how!r} == "multiprocessing":
    child = multiprocessing.Process(target=count)
    child.start()
    child.join()
else:
    with ProcessPoolExecutor(1) as pool:
        pool.submit(count).result()
""",
    )
    assert said == ""
    assert counted(redis_url) == 20


def test_a_child_of_a_worker_never_reports(redis_url: str) -> None:
    """Its parent reads what it counts; a gate in it hears all the same."""
    said = ran(
        redis_url,
        """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside a thread
from throttle.exchange import Exchanger
from throttle.settings import settings_of
from throttle.store import open_store
from throttle.gate import Gate
settings = settings_of(conf)
report(conf)  # by a module of the user's, before the worker is
before = this_process.exchanger
exchanger = Exchanger(settings, open_store(settings), meter.read, name="worker")
this_process.take(exchanger, settings)
assert not before.alive
exchanger.start()
assert this_process.wait(30)
report(conf)
assert this_process.exchanger is exchanger, "a report in a worker changes nothing"
gate = Gate(conf, wait=10)
pid = os.fork()
if not pid:
    report(conf)
    assert this_process.exchanger is None
    assert threading.active_count() == 1
    meter.tally("main").add(500)
    assert this_process.wait(30), "a gate asks"
    assert gate.admit("main").admitted
    assert gate.remaining("main") == 99
    this_process.leave()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
exchanger.stop()
""",
    )
    assert said == ""
    assert counted(redis_url) == 0


def test_it_works_where_gevent_has_replaced_the_threads(redis_url: str) -> None:
    """A greenlet then, started and ended like a thread."""
    pytest.importorskip("gevent")
    with program(redis_url, GREEN) as process:
        said, wrong = process.communicate(timeout=30)
    assert process.returncode == 0, wrong
    assert said == "told\n"
    assert counted(redis_url) == 77


GREEN = """
from gevent import monkey
monkey.patch_all()
import gevent
report(conf)
assert this_process.wait(30)
meter.tally("main").add(70)
gevent.sleep(0.3)
meter.tally("main").add(7)
say("told")
"""


def test_what_others_do_is_known_here(
    redis_url: str, exchanges: Callable[[], ProcessExchange]
) -> None:
    """A dispatcher that counts nothing goes by what web processes count."""
    this_process = exchanges()
    settings = settings_of(redis_url, throttle_estimator="fast")
    this_process.report(settings)
    gate = Gate(settings, exchange=this_process, wait=10)
    assert gate.remaining("main") == 100
    with program(
        redis_url,
        """
report(conf)
assert this_process.wait(30)
meter.tally("main").add(750)
say("counted")
sys.stdin.read()
""",
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "counted\n"

        def quota() -> float:
            gate.cycle()
            return gate.remaining("main")

        eventually(lambda: quota() <= 25, timeout=30.0, interval=0.01)
        eventually(lambda: quota() == 100, timeout=30.0, message="the second is over")


def test_it_is_back_after_redis_is(
    own_redis: Callable[..., EmbeddedRedis], exchanges: Callable[[], ProcessExchange]
) -> None:
    """Killed, away, there again and empty: nobody has to do anything."""
    server = own_redis(fast=True)
    this_process = exchanges()
    settings = settings_of(server.url, throttle_policy="closed")
    this_process.report(settings)
    gate = Gate(settings, exchange=this_process, wait=10)
    exchanger = this_process.exchanger
    assert exchanger is not None
    assert gate.admit("main").admitted
    server.kill()
    eventually(lambda: not gate.admit("main").admitted, timeout=30.0)
    assert exchanger.alive
    server.start()

    def admitted() -> bool:
        gate.cycle()
        return gate.admit("main").admitted

    eventually(admitted, timeout=30.0)
    assert this_process.exchanger is exchanger


def test_nothing_is_counted_twice_by_a_redis_that_stood_still(
    own_redis: Callable[..., EmbeddedRedis],
) -> None:
    """It does what it was asked when it goes on; the answer reaches nobody."""
    server = own_redis(fast=True)
    store, meter = RedisStore(server.url), Ticking()
    exchanger = Exchanger(settings_of(server.url), store, meter.read, name="ticking")
    exchanger.start()
    try:
        assert exchanger.wait(30.0)
        for _ in range(3):
            failures, answers = exchanger.failures, exchanger.snapshot.at
            server.freeze()
            eventually(lambda: exchanger.failures >= failures + 2)  # noqa: B023 # now
            server.thaw()
            eventually(lambda: exchanger.snapshot.at > answers + 0.3)  # noqa: B023 # now
    finally:
        exchanger.stop(5)
        store.close()
    assert exchanger.dropped == 0
    assert counted(server.url) == meter.told


class Ticking:
    """A meter of which each reading tells seven operations."""

    told = 0

    def read(self) -> Reading:
        """Return seven more."""
        self.told += 7
        return Reading({"main": Amount(7)})


def test_one_process_reports_to_one_place(
    redis_url: str, exchanges: Callable[[], ProcessExchange]
) -> None:
    """Two apps in a process may ask the same, not two different things."""
    this_process = exchanges()
    settings = settings_of(redis_url)
    this_process.report(settings)
    exchanger = this_process.exchanger
    this_process.report(settings_of(redis_url))
    assert this_process.exchanger is exchanger
    with pytest.raises(Misconfigured, match="another throttle_prefix"):
        this_process.report(settings_of(redis_url, throttle_prefix="second"))
    with pytest.raises(Misconfigured, match="throttle_limits without 'more'"):
        this_process.report(
            settings_of(redis_url, throttle_limits={"main": 1, "more": 1})
        )
    this_process.leave()
    assert exchanger is not None
    assert not exchanger.alive
    this_process.report(settings_of(redis_url, throttle_prefix="second"))
    assert this_process.wait(30.0)

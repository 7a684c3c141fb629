"""Whatever Redis does: StoreUnavailable while it runs, a clear error at start."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from celery_pecker.testing import EmbeddedRedis, eventually
from tests import sentinels
from tests.profiles import examples
from tests.proxy import Proxy
from throttle.errors import Misconfigured, StoreUnavailable
from throttle.model import Amount, DatabaseReport, Estimator, Holding, Report, Sample
from throttle.store.redis import RedisStore
from throttle.store.redis import store as module

OwnRedis = Callable[..., EmbeddedRedis]
HOST = "127.0.0.1"
REPORT = Report(
    holder="a",
    name="a",
    databases={
        "main": DatabaseReport(
            samples=(Sample(0.0, Amount(10)),),
            holding=Holding(want=1, limit=Amount(1000)),
        )
    },
)


@contextmanager
def store_at(url: str, **options: Any) -> Iterator[RedisStore]:
    """Give a store that is closed at the end."""
    store = RedisStore(url, **options)
    try:
        yield store
    finally:
        store.close()


def refused_at_start(url: str, words: str, **options: Any) -> None:
    """The start ends with a line with these words; later calls: StoreUnavailable."""
    with store_at(url, **options) as store:
        with pytest.raises(Misconfigured, match="throttle_redis_url") as found:
            store.check()
        assert words in str(found.value)
        assert "\n" not in str(found.value)
        with pytest.raises(StoreUnavailable):
            store.exchange(REPORT)


# It is away


def test_a_redis_that_is_killed_is_away_and_comes_back(own_redis: OwnRedis) -> None:
    """The same store goes on, with nothing done to it."""
    server = own_redis(fast=True)
    with store_at(server.url, timeout=1) as store:
        store.check()
        store.exchange(REPORT)
        server.kill()
        for call in (store.check, lambda: store.exchange(REPORT), store.look):
            with pytest.raises(StoreUnavailable, match=HOST):
                call()
        server.start()
        store.exchange(REPORT)  # NOSCRIPT: it has forgotten them too
        assert "main" in store.look()


def test_a_connection_that_was_closed_meanwhile_costs_no_report(
    own_redis: OwnRedis,
) -> None:
    """Redis closes what is idle, and restarts: the next report makes a new one."""
    server = own_redis()
    with store_at(server.url, timeout=5) as store:
        store.exchange(REPORT)
        with redis.Redis.from_url(server.url) as other:
            assert other.client_kill_filter(_type="normal", skipme=True) == 1
        store.exchange(REPORT)


def test_a_frozen_redis_is_away(own_redis: OwnRedis) -> None:
    """It takes what is sent, and never answers. Once thawed, all is well."""
    server = own_redis(fast=True)
    with store_at(server.url) as store:
        store.exchange(REPORT)
        server.freeze()
        with pytest.raises(StoreUnavailable):
            store.exchange(REPORT)
        server.thaw()
        assert eventually(lambda: answers(store))


def test_a_redis_far_away_is_there(own_redis: OwnRedis) -> None:
    """With 60 ms to it and back; a connection takes some of that."""
    server = own_redis(fast=True)
    with (
        Proxy.before(server.url) as way,
        store_at(way.url) as store,
    ):
        way.open(delay=0.03)
        assert eventually(lambda: answers(store))


def answers(store: RedisStore) -> bool:
    """Say whether the store is there."""
    try:
        store.exchange(REPORT)
    except StoreUnavailable:
        return False
    return True


def test_a_report_whose_answer_was_lost_counts_once(redis_url: str) -> None:
    """It is told again under its number; shares know that it was not heard."""
    report = Report(
        holder="a",
        name="a",
        databases={"main": DatabaseReport(samples=(Sample(0.0, Amount(10)),))},
        number=1,
    )
    with (
        Proxy.before(redis_url) as way,
        store_at(way.url, timeout=0.5, now=noon) as store,
        store_at(redis_url, timeout=5, now=noon) as other,
    ):
        store.check()  # Redis knows the scripts
        store.look()
        way.mute()
        with pytest.raises(StoreUnavailable):
            store.exchange(report)
        assert eventually(lambda: operations(other) == pytest.approx(10 * 10 / 3))
        assert store._unanswered == {"a"}
        way.open()
        store.exchange(report)
        assert not store._unanswered
        assert operations(other) == pytest.approx(10 * 10 / 3)


def noon() -> float:
    """Time stands still."""
    return 1_800_000_000.5


def operations(store: RedisStore) -> float:
    """Return what the fast estimator says."""
    seen = store.look().get("main")
    return 0.0 if seen is None else seen.seen.traffic[Estimator.FAST].operations


def test_nobody_there_is_away_at_start_too(own_redis: OwnRedis) -> None:
    """A worker may start while Redis does not run: policies hold."""
    server = own_redis(fast=True)
    server.stop()
    with store_at(server.url) as store, pytest.raises(StoreUnavailable, match=HOST):
        store.check()


def test_a_redis_without_memory_is_away(own_redis: OwnRedis) -> None:
    """It will be well again; nothing is broken by it."""
    server = own_redis(fast=True)
    with store_at(server.url, timeout=5) as store:
        store.check()
        with redis.Redis.from_url(server.url) as client:
            client.config_set("maxmemory", "1")
            for call in (store.check, lambda: store.exchange(REPORT)):
                with pytest.raises(StoreUnavailable):
                    call()
            client.config_set("maxmemory", "0")
        store.exchange(REPORT)


# It is not what it should be


def test_a_password_that_is_wrong_or_missing(own_redis: OwnRedis) -> None:
    """The password itself is not in the message."""
    server = own_redis(fast=True)
    refused_at_start(server.url.replace(f":{server.password}@", ""), "password")
    wrong = server.url.replace(server.password, "guessed")
    refused_at_start(wrong, "password")
    with store_at(wrong) as store, pytest.raises(Misconfigured) as found:
        store.check()
    assert "guessed" not in str(found.value)
    with store_at(server.url) as store:
        store.check()


def test_a_user_who_may_not(own_redis: OwnRedis) -> None:
    """An ACL that lets only some commands through is seen at start."""
    server = own_redis(fast=True)
    with redis.Redis.from_url(server.url) as client:
        client.acl_setuser(
            "some", enabled=True, passwords=["+x"], commands=["+get"], keys=["*"]
        )
    url = server.url.replace(f":{server.password}@", "some:x@")
    refused_at_start(url, "does not let this user")


def test_a_user_with_the_rights_in_the_docs(own_redis: OwnRedis) -> None:
    """Our keys and these commands are enough."""
    server = own_redis(fast=True)
    commands = "eval evalsha time get set zadd zrangebyscore zremrangebyscore"
    commands += " hset hget hdel pexpire"
    with redis.Redis.from_url(server.url) as client:
        client.acl_setuser(
            "ours",
            enabled=True,
            passwords=["+x"],
            commands=[f"+{command}" for command in commands.split()],
            keys=["{throttle}:*"],
        )
    url = server.url.replace(f":{server.password}@", "ours:x@")
    with store_at(url, timeout=5) as store:
        store.check()
        store.exchange(REPORT)
        store.lower("main", 0.5, "slow", 1)
        assert store.elect("main", "a", 1)
        assert store.look()["main"].signal == "slow"


def test_a_replica(own_redis: OwnRedis) -> None:
    """It could be read, but nothing can be counted there."""
    primary = own_redis(fast=True)
    replica = own_redis(fast=True)
    sentinels.follow(replica, primary)
    refused_at_start(replica.url, "read-only replica")


def test_a_name_that_leads_to_another_server(own_redis: OwnRedis) -> None:
    """After a failover, by DNS or a balancer, it is the next primary's.

    The connection that is kept leads to the last one, which takes nothing any more.
    """
    following = own_redis(fast=True)
    last = own_redis(fast=True, settings={"masterauth": following.password})
    with redis.Redis.from_url(following.url) as client:
        client.config_set("requirepass", last.password)
    with (
        Proxy.before(last.url) as way,
        store_at(way.url, timeout=5) as store,
        redis.Redis.from_url(last.url) as client,
    ):
        store.exchange(REPORT)
        way.target = (HOST, following.port)  # of connections to come
        client.replicaof(HOST, following.port)
        with pytest.raises(StoreUnavailable, match=r"(?i)read ?only"):
            store.exchange(REPORT)
        store.exchange(REPORT)


def test_a_database_that_is_not_there(own_redis: OwnRedis) -> None:
    """Redis has sixteen of them."""
    server = own_redis(fast=True)
    refused_at_start(server.url_of(99), "refuses")


@pytest.mark.parametrize("key", ["clock", "databases", "of::shares"])
@pytest.mark.parametrize("kind", ["list", "text"])
def test_keys_of_another_program(redis_url: str, key: str, kind: str) -> None:
    """Keys of a wrong type, or with something else in them, are seen at start."""
    with redis.Redis.from_url(redis_url) as client:
        place = f"{{throttle}}:1:{key}"
        if kind == "list":
            client.rpush(place, "x")
        else:
            client.set(place, "hello, world")
    refused = store_at(redis_url, timeout=5)
    with refused as store, pytest.raises(Misconfigured, match="throttle_prefix"):
        store.check()
    with store_at(redis_url, timeout=5, prefix="ours") as store:
        store.check()


class Page(BaseHTTPRequestHandler):
    """A web server's answer."""

    def do_GET(self) -> None:
        """Answer politely."""
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def test_a_web_server() -> None:
    """It answers, but not as a Redis does."""
    with ThreadingHTTPServer((HOST, 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            refused_at_start(f"redis://{HOST}:{server.server_port}/0", "not as a Redis")
        finally:
            server.shutdown()
            thread.join()


class Parrot(socketserver.ThreadingTCPServer):
    """Says the same to everything."""

    daemon_threads = True
    says = b""


class Saying(socketserver.BaseRequestHandler):
    """One connection to it."""

    def handle(self) -> None:
        """Answer once for each packet until the other goes."""
        try:
            while self.request.recv(65536):
                self.request.sendall(Parrot.says)
        except OSError:
            return


@pytest.fixture(scope="module")
def parrot() -> Iterator[str]:
    """Give the address of a server that says `Parrot.says`."""
    with Parrot((HOST, 0), Saying) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"redis://{HOST}:{server.server_address[1]}/0"
        server.shutdown()
        thread.join()


class Closing(socketserver.BaseRequestHandler):
    """Closes each connection, and counts them."""

    seen: ClassVar[list[object]] = []

    def handle(self) -> None:
        """Take what comes, and hang up."""
        self.seen.append(self.request.recv(65536))


def test_one_call_is_one_try() -> None:
    """The caller asks again, a tick later; a client that tried again would be late."""
    Closing.seen.clear()
    with Parrot((HOST, 0), Closing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"redis://{HOST}:{server.server_address[1]}/0"
            with store_at(url, timeout=5) as store, pytest.raises(StoreUnavailable):
                store.exchange(REPORT)
        finally:
            server.shutdown()
            thread.join()
    assert len(Closing.seen) == 1


replies = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda kind, rest: kind + rest + b"\r\n",
        st.sampled_from([b"+", b"-", b":", b"$", b"*", b"*1\r\n$", b"*2\r\n:1\r\n$"]),
        st.one_of(
            st.sampled_from([b"OK", b"-1", b"0", b"1", b"99999999999999999999", b"x"]),
            st.binary(max_size=8),
        ),
    ),
)


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(says=replies)
def test_a_server_that_says_anything(parrot: str, says: bytes) -> None:
    """Nothing but errors of ours comes out, whatever comes in."""
    Parrot.says = says
    with (
        pytest.MonkeyPatch.context() as patch,
        store_at(parrot, timeout=0.02) as store,
    ):
        patch.setattr(module, "AT_START", 0.02)
        for call in (store.check, lambda: store.exchange(REPORT), store.look):
            try:
                call()
            except (StoreUnavailable, Misconfigured) as error:
                assert "\n" not in str(error)  # noqa: PT017 — an answer may be right


@pytest.mark.parametrize(
    "url",
    [
        "redis://host:port/0",
        "redis://host:6379/0?socket_timeout=soon",
        "redis://host:6379/0?unheard_of=1",
        "sentinel://host:26379/0",
        "sentinel:///0?master_name=x",
        "sentinel://host:26379/x?master_name=x",
        "http://host",
    ],
)
def test_an_address_that_makes_no_sense(url: str) -> None:
    """It is seen before anything is connected."""
    with pytest.raises(Misconfigured, match="throttle_redis_url"):
        RedisStore(url)


@pytest.mark.parametrize("prefix", ["", "a{b", "}"])
def test_a_prefix_that_would_part_the_keys(redis_url: str, prefix: str) -> None:
    """Braces make hash tags."""
    with pytest.raises(Misconfigured, match="throttle_prefix"):
        RedisStore(redis_url, prefix=prefix)

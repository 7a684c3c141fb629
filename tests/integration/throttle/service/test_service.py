"""Processes that may not reach Redis, over a real service before a real Redis."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from urllib.parse import quote

import pytest

from celery_pecker.kernel.clock import SYSTEM
from celery_pecker.surfaces.service.listener import LARGEST
from celery_pecker.testing import EmbeddedRedis, eventually, free_port
from tests.integration.throttle.service.stand import TOKEN, Stand
from tests.proxy import Proxy
from throttle.errors import Misconfigured, StoreUnavailable, TokenRefused
from throttle.model import Amount, DatabaseReport, Estimator, Holding, Report, Sample
from throttle.store.http import HttpStore
from throttle.store.redis import RedisStore

LIMIT = Amount(1_000)
PEOPLES = "people's"


@pytest.fixture
def store(redis_url: str) -> Iterator[RedisStore]:
    """Give the store in Redis."""
    made = RedisStore(redis_url, estimator=Estimator.FAST)
    yield made
    made.close()


@pytest.fixture
def stand(store: RedisStore) -> Iterator[Stand]:
    """Give a service over it."""
    with Stand(store, throttle_estimator="fast") as made:
        yield made


@pytest.fixture
def clients() -> Iterator[Callable[..., HttpStore]]:
    """Give a function that makes clients."""
    with ExitStack() as stack:

        def make(
            url: str,
            token: str = TOKEN,
            timeout: float = 2.0,
            control_token: str | None = None,
        ) -> HttpStore:
            made = HttpStore(url, token, control_token=control_token, timeout=timeout)
            stack.callback(made.close)
            return made

        yield make


def counted(operations: float, number: int, *, holder: str = "web") -> Report:
    """Return what a process says that only counts."""
    sample = Sample(0.0, Amount(operations, 0.25, 3))
    return Report(
        holder=holder,
        name=f"{holder}@host",
        number=number,
        databases={"main": DatabaseReport(samples=(sample,))},
    )


def held(want: float, *, holder: str = "w1") -> Report:
    """Return what a worker says that holds a share."""
    holding = Holding(want=want, limit=LIMIT, held=7, tenants={"acme": (7, 1)})
    return Report(
        holder=holder,
        name=f"{holder}@host",
        databases={"main": DatabaseReport(holding=holding)},
    )


def test_what_is_told_to_the_service_is_in_redis(
    stand: Stand, store: RedisStore, clients: Callable[..., HttpStore]
) -> None:
    """And what is in Redis is told by the service: the same in both directions."""
    client = clients(stand.url)
    client.check()
    client.exchange(counted(300, 1))

    def told() -> float:
        asks = Report(holder="asks", name="", databases={"main": DatabaseReport()})
        answer = client.exchange(asks)
        return answer.databases["main"].traffic[Estimator.FAST].operations

    # A part of it may lie in the bucket that is being filled
    eventually(lambda: told() >= 300)
    store.exchange(counted(50, 1, holder="other"))
    by_both = Amount(350, 0.5, 6).times(1 / 0.3)

    def seen() -> Amount:
        return client.look()["main"].seen.traffic[Estimator.FAST]

    eventually(lambda: seen() == pytest.approx(by_both) or seen().rows == 6)


def test_a_worker_gets_its_share_through_the_service(
    stand: Stand, store: RedisStore, clients: Callable[..., HttpStore]
) -> None:
    """Beside one that asks Redis itself: the shares are of one whole."""
    client = clients(stand.url)

    def shares() -> tuple[float, float]:
        mine = client.exchange(held(2.0)).databases["main"].share
        theirs = store.exchange(held(2.0, holder="w2")).databases["main"].share
        assert mine + theirs <= 1
        return mine, theirs

    eventually(lambda: all(abs(one - 0.5) < 0.01 for one in shares()))
    [view] = [one for key, one in client.look()["main"].holders.items() if key == "w1"]
    assert view.name == "w1@host"
    assert view.holding.tenants == {"acme": (7, 1)}
    assert client.look() == store.look()


def test_a_lost_answer_keeps_the_share_that_may_still_be_used(
    stand: Stand, store: RedisStore, clients: Callable[..., HttpStore]
) -> None:
    """It gave less than the one before, which its holder may still go by."""
    with Proxy("127.0.0.1", stand.port) as proxy:
        client = clients(f"http://127.0.0.1:{proxy.port}", timeout=0.3)

        def others_share() -> tuple[float] | None:
            """Return what is left for others; None: it was too slow to tell."""
            proxy.open()
            eventually(lambda: share(client, 2.0) > 0.99, ignoring=(StoreUnavailable,))
            # Somebody else wants the rest; it hears no more that it has less
            proxy.mute()
            told = SYSTEM.monotonic()
            share(store, 2.0, holder="w2")
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    client.exchange(held(0.1))
            left = share(store, 2.0, holder="w2")
            store.exchange(held(0.0, holder="w2"))
            # After a second without a word it is forgotten
            return (left,) if SYSTEM.monotonic() - told < 1 else None

        left = eventually(others_share, timeout=30)
        assert left is not None
        assert left[0] < 0.01
        proxy.open()

        def freed() -> bool:
            share(client, 0.1)
            return share(store, 2.0, holder="w2") > 0.8

        eventually(freed, ignoring=(StoreUnavailable,))


def share(store: RedisStore | HttpStore, want: float, *, holder: str = "w1") -> float:
    """Return the share that a worker is given."""
    return store.exchange(held(want, holder=holder)).databases["main"].share


def test_a_report_that_comes_twice_counts_once(
    stand: Stand, clients: Callable[..., HttpStore]
) -> None:
    """Its answer was lost on the way, so it was sent again."""
    client = clients(stand.url)
    told = [client.exchange(counted(300, 1)).databases["main"] for _ in range(3)]
    assert max(one.traffic[Estimator.FAST].operations for one in told) < 1_001


@pytest.mark.parametrize("token", [None, "", "s3sam", "s3same2", "S3SAME", "ü"])
def test_without_the_token_nothing_is_told(stand: Stand, token: str | None) -> None:
    """Not even what there is; only whether the service is well."""
    for method, path in (
        ("GET", "/v1/databases"),
        ("GET", "/v1/databases/main"),
        ("POST", "/v1/exchange"),
        ("POST", "/v1/admit"),
        ("POST", "/v1/elect"),
        ("POST", "/v1/databases/main/lower"),
        ("POST", "/v1/databases/main/adjust"),
        ("GET", "/nowhere"),
    ):
        sent = None if token is None else token.encode().decode("latin-1")
        body = {"database": "main"} if method == "POST" else None
        status, said = stand.ask(method, path, body, token=sent)
        assert (status, said["error"]) == (401, "this needs the token")
    for path in ("/health", "/live"):
        assert stand.ask("GET", path, token=None)[0] == 200


def test_people_may_have_a_token_of_their_own(
    store: RedisStore, clients: Callable[..., HttpStore]
) -> None:
    """What reports cannot change a limit then; one token alone does both."""
    with Stand(store, throttle_control_token=PEOPLES) as stand:
        reporter = clients(stand.url)
        reporter.exchange(counted(1, 1))
        with pytest.raises(TokenRefused):
            reporter.adjust("main", 0.5, "me", 60.0)
        person = clients(stand.url, control_token=PEOPLES)
        person.adjust("main", 0.5, "a person", 60.0)
        assert store.look()["main"].seen.factor == 0.5
    with Stand(store) as stand:
        clients(stand.url).adjust("main", 0.25, "one token", 60.0)
        assert store.look()["main"].seen.factor == 0.25


def test_a_wrong_token_is_a_wrong_setting(
    stand: Stand, clients: Callable[..., HttpStore]
) -> None:
    """At the start; later it is as if the service were away."""
    client = clients(stand.url, "another")
    with pytest.raises(Misconfigured, match="throttle_service_token is not the one"):
        client.check()
    with pytest.raises(TokenRefused, match="does not take the token"):
        client.exchange(counted(1, 1))


def test_the_second_signal_passes_through(
    stand: Stand, store: RedisStore, clients: Callable[..., HttpStore]
) -> None:
    """Who watches, and what it says."""
    client = clients(stand.url)
    assert client.elect("main", "a", 60.0)
    assert not store.elect("main", "b", 60.0)
    assert client.elect("main", "a", 0.0)
    assert store.elect("main", "b", 60.0)
    client.lower("main", 0.5, "active 60 of 40: zu viel", 60.0)
    view = store.look()["main"]
    assert (view.seen.factor, view.signal) == (0.5, "active 60 of 40: zu viel")


@pytest.mark.parametrize("name", ["a%41", "50%20x", "a/b", "x?y#z", "Ü ", ".."])
def test_any_name_passes_through_as_it_is(
    stand: Stand, store: RedisStore, clients: Callable[..., HttpStore], name: str
) -> None:
    """Also one that looks as if it had been quoted."""
    clients(stand.url).lower(name, 0.5, name, 60.0)
    assert [(key, view.signal) for key, view in store.look().items()] == [(name, name)]
    assert stand.ask("GET", f"/v1/databases/{quote(name, safe='')}")[0] == HTTPStatus.OK


def test_people_see_the_limit_and_what_is_left(stand: Stand) -> None:
    """Per database, as a document for any language."""
    status, shown = stand.ask("GET", "/v1/databases/main")
    assert (status, shown["quota"], shown["limit"]) == (
        200,
        100.0,
        [1000.0, None, None],
    )
    assert stand.ask("GET", "/v1/databases")[1]["databases"]["main"]["quota"] == 100.0
    status, said = stand.ask("GET", "/v1/databases/other")
    assert (status, said["error"]) == (404, "'other' has neither a limit nor traffic")


def test_a_dispatcher_of_another_language_asks_before_it_sends(
    stand: Stand, clients: Callable[..., HttpStore]
) -> None:
    """By the published formula, and the quota is one for all who ask."""
    status, told = stand.ask("POST", "/v1/admit", {"database": "main"})
    assert (status, told["admitted"], told["remaining"]) == (200, True, 99)
    status, told = stand.ask("POST", "/v1/admit", {"database": "main", "cost": 100})
    assert (status, told["admitted"]) == (200, False)
    assert 0 < told["retry_after"] <= 1
    clients(stand.url).exchange(counted(100_000, 1))
    eventually(
        lambda: not stand.ask("POST", "/v1/admit", {"database": "main"})[1]["admitted"]
    )
    for body, status, said in (
        ({"database": "other"}, 404, "those that have: main"),
        ({}, 404, "those that have: main"),
        ({"database": "main", "cost": -1}, 400, "cost must be a number from 0 to 100"),
        ({"database": "main", "cost": 101}, 400, "cost must be a number from 0 to 100"),
    ):
        found, answer = stand.ask("POST", "/v1/admit", body)
        assert found == status
        assert said in answer["error"]


def test_bad_questions_get_an_answer_that_says_why(stand: Stand) -> None:
    """And the service goes on."""
    for method, path, body, status, said in (
        ("POST", "/v1/exchange", b"not json", 400, "the body is no JSON"),
        ("POST", "/v1/exchange", b"{}", 400, "holder must be"),
        ("POST", "/v1/elect", b"{}", 400, "database must be"),
        ("POST", "/v1/databases/a%3Ab/lower", b'{"factor":1}', 400, "database's name"),
        ("POST", "/v1/databases/a/lower", b'{"factor":2}', 400, "factor must be"),
        ("GET", "/v1/exchange", None, 405, "method not allowed"),
        ("POST", "/v2/exchange", b"{}", 404, "there are /v1/"),
    ):
        found, answer = stand.ask(method, path, body)
        assert (found, said in answer["error"]) == (status, True), answer
    assert stand.ask("GET", "/health")[0] == 200


def test_a_body_without_end_is_not_taken(stand: Stand) -> None:
    """Nor is one that says it is larger than any report."""
    with socket.create_connection(("127.0.0.1", stand.port), timeout=10) as wire:
        wire.sendall(
            f"POST /v1/exchange HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}"
            f"\r\nContent-Length: {LARGEST + 1}\r\n\r\n".encode()
        )
        answer = b"".join(iter(lambda: wire.recv(4_096), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert stand.ask("GET", "/health")[0] == 200


def test_redis_that_hangs_does_not_stop_the_service(
    redis_url: str, clients: Callable[..., HttpStore]
) -> None:
    """Others are answered while somebody waits for Redis."""
    with (
        slow_redis(redis_url, timeout=8.0) as (proxy, slow),
        Stand(slow) as stand,
        ThreadPoolExecutor(1) as aside,
    ):
        client = clients(stand.url, timeout=20.0)
        client.exchange(counted(1, 1))
        proxy.hang()
        waiting = aside.submit(client.exchange, counted(1, 2))
        eventually(lambda: stand.asked == 2)
        # Long before Redis is given up
        assert stand.ask("GET", "/live", timeout=4.0)[0] == 200
        assert not waiting.done(), "the loop waited for Redis"
        proxy.open()
        assert waiting.result(30.0).databases


def test_redis_that_is_away_is_told(
    redis_url: str, clients: Callable[..., HttpStore]
) -> None:
    """Who asks for it hears so; a dispatcher goes by the policy of its limit."""
    with slow_redis(redis_url, timeout=0.2) as (proxy, slow), Stand(slow) as stand:
        client = clients(stand.url, timeout=10.0)
        client.exchange(counted(1, 1))
        proxy.hang()
        with pytest.raises(StoreUnavailable, match="503"):
            client.exchange(counted(1, 2))
        assert stand.ask("GET", "/health") == (503, {"v": 1, "store": "away"})
        admitted = stand.ask("POST", "/v1/admit", {"database": "main"})[1]
        assert (admitted["admitted"], admitted["known"]) == (True, False)
        proxy.open()
        eventually(lambda: stand.ask("GET", "/health")[0] == 200)
        client.exchange(counted(1, 3))


@contextmanager
def slow_redis(url: str, *, timeout: float) -> Iterator[tuple[Proxy, RedisStore]]:
    """Give a way to Redis that can be closed, and a store that goes it."""
    with Proxy.before(url) as proxy:
        made = RedisStore(proxy.url, timeout=timeout)
        yield proxy, made
        made.close()


@pytest.mark.parametrize("way", ["hang", "mute", "drip", "refuse"])
def test_a_service_that_does_not_answer_is_away_in_time(
    stand: Stand, clients: Callable[..., HttpStore], way: str
) -> None:
    """Whatever the way to it is like; and it is back when the way is open."""
    with Proxy("127.0.0.1", stand.port) as proxy:
        client = clients(f"http://127.0.0.1:{proxy.port}", timeout=0.2)
        client.exchange(counted(1, 1))
        if way == "drip":
            proxy.drip(every=0.5)
        else:
            getattr(proxy, way)()
        before = SYSTEM.monotonic()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            client.exchange(counted(1, 2))
        # A dripping answer of 300 bytes takes two and a half minutes
        assert SYSTEM.monotonic() - before < 60
        proxy.open()
        eventually(lambda: client.exchange(counted(1, 2)), ignoring=(StoreUnavailable,))


def test_a_service_that_comes_again_is_found_again(
    store: RedisStore, clients: Callable[..., HttpStore]
) -> None:
    """A kept connection that ended meanwhile is no reason to be away."""
    port = free_port()
    with Stand(store, port=port) as first:
        client = clients(first.url)
        assert client.elect("main", "a", 60.0)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        client.look()
    with Stand(store, port=port):
        assert client.look().keys() <= {"main"}
    with Stand(store, port=port):
        assert client.look().keys() <= {"main"}


def test_threads_may_share_a_client(
    stand: Stand, clients: Callable[..., HttpStore]
) -> None:
    """They take turns on its connection."""
    client = clients(stand.url, timeout=10.0)
    with ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(client.exchange, counted(1, 1, holder=f"h{n}"))
            for n in range(200)
        ]
    assert all("main" in one.result().databases for one in asked)


def test_what_is_no_service_is_a_wrong_setting(
    clients: Callable[..., HttpStore], own_redis: Callable[..., EmbeddedRedis]
) -> None:
    """Another web server, or no web server at all."""
    listener = socket.create_server(("127.0.0.1", 0))
    html = b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>"

    def answer() -> None:
        wire, _ = listener.accept()
        with wire:
            wire.recv(4_096)
            wire.sendall(html)

    thread = threading.Thread(target=answer)
    thread.start()
    client = clients(f"http://127.0.0.1:{listener.getsockname()[1]}")
    with pytest.raises(Misconfigured, match="is no throttle service"):
        client.check()
    thread.join(30.0)
    listener.close()
    redis = own_redis(fast=True)
    with pytest.raises(StoreUnavailable):
        clients(f"http://127.0.0.1:{redis.port}").check()
    with pytest.raises(Misconfigured, match="throttle_service_url"):
        clients("http://localhost:99999")


@pytest.mark.parametrize("password", ["s3cret", "s3c/ret", "s3c@s3c"])
def test_errors_have_no_password(
    stand: Stand, clients: Callable[..., HttpStore], password: str
) -> None:
    """Neither of a port that is none, nor of a refused token or a dead server."""
    url = stand.url.replace("//", f"//gate:{password}@")
    with pytest.raises((Misconfigured, StoreUnavailable)) as refused:
        clients(url, token="another").check()  # noqa: S106 — of no service
    with pytest.raises((Misconfigured, StoreUnavailable)) as dead:
        clients(f"http://gate:{password}@localhost:{free_port()}").check()
    for error in (refused, dead):
        assert "s3c" not in str(error.value)


def test_a_service_that_ends_answers_what_it_was_asked(
    redis_url: str, clients: Callable[..., HttpStore]
) -> None:
    """SIGTERM in the middle of an exchange costs nobody its answer."""
    with slow_redis(redis_url, timeout=5.0) as (proxy, slow):
        stand = Stand(slow)
        client = clients(stand.url, timeout=10.0)
        client.exchange(counted(1, 1))
        with ThreadPoolExecutor(2) as aside:
            proxy.mute()
            waiting = aside.submit(client.exchange, counted(5, 2))
            eventually(lambda: stand.asked == 2)
            ending = aside.submit(stand.close)
            eventually(lambda: not listens(stand.port))
            proxy.open()
            assert waiting.result(30.0).databases["main"].traffic
            ending.result(30.0)


def listens(port: int) -> bool:
    """Say whether anybody can connect there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True

"""``celery -A proj throttle serve``: a real process, its door and its end."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType

import pytest
import redis
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_pecker.testing import EmbeddedRedis, eventually
from example_project.processes import ProcessContainer
from throttle.cli import throttle
from throttle.errors import Misconfigured, StoreUnavailable
from throttle.model import DatabaseReport, Report
from throttle.store.http import HttpStore

HERE = Path(__file__).parent
CERTIFICATE, KEY = HERE / "localhost.pem", HERE / "localhost.key"
TOKEN = "s3same"  # noqa: S105  # a test's own
PROJECT = """
from celery import Celery

app = Celery("proj", broker="memory://")
app.conf.throttle_limits = {"main": 5000}
app.conf.throttle_redis_url = "redis://127.0.0.1:1/0"
app.conf.throttle_service_token = "not-this-one"
"""
REPORT = Report(holder="h", name="n", databases={"main": DatabaseReport()})


class Serving:
    """One process of it."""

    def __init__(self, folder: Path, redis_url: str, *options: str) -> None:
        (folder / "proj.py").write_text(PROJECT)
        self.process = ProcessContainer(
            [
                *(
                    sys.executable,
                    "-m",
                    "tests.lean",
                    "-A",
                    "proj",
                    "throttle",
                    "serve",
                ),
                *("--port", "0", *options),
            ],
            name="serve",
            cwd=folder,
            env={
                "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
                "THROTTLE_REDIS_URL": redis_url,
                "THROTTLE_SERVICE_TOKEN": TOKEN,
            },
        )
        self.process.start()

    @property
    def url(self) -> str:
        """Return where it says that it serves."""

        def said() -> str:
            assert self.process.exit_code is None, self.process.life_log()
            _, found, rest = self.process.life_log().partition("serving on ")
            return rest.split()[0] if found else ""

        return eventually(said, timeout=30.0)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    """Give a function that starts the service."""
    with ExitStack() as stack:

        def begin(redis_url: str, *options: str) -> Serving:
            made = Serving(tmp_path, redis_url, *options)
            stack.callback(made.process.remove)
            return made

        yield begin


@pytest.mark.slow
def test_it_serves_until_it_is_told_to_end(
    redis_url: str, serving: Callable[..., Serving]
) -> None:
    """On loopback; secrets come from the environment; SIGTERM ends it well."""
    served = serving(redis_url)
    assert served.url.startswith("http://127.0.0.1:")
    client = HttpStore(served.url, TOKEN, timeout=5.0)
    client.check()
    assert "main" in client.exchange(REPORT).databases
    served.process.kill(signal.SIGTERM)
    assert served.process.wait() == 0
    assert TOKEN not in served.process.life_log()
    with pytest.raises(StoreUnavailable):
        client.exchange(REPORT)
    client.close()


@pytest.mark.slow
def test_it_starts_before_redis_does(
    own_redis: Callable[..., EmbeddedRedis], serving: Callable[..., Serving]
) -> None:
    """In a deploy nobody says who is first; and it lives through a restart."""
    server = own_redis(fast=True)
    server.kill()
    served = serving(server.url)
    client = HttpStore(served.url, TOKEN, timeout=5.0)
    assert "not yet: Redis at" in served.process.life_log()
    with pytest.raises(StoreUnavailable, match="503"):
        client.check()
    for _ in range(2):
        server.start()
        eventually(
            lambda: client.exchange(REPORT).databases, ignoring=(StoreUnavailable,)
        )
        server.kill()
        with pytest.raises(StoreUnavailable):
            client.exchange(REPORT)
    client.close()


@pytest.mark.slow
def test_it_speaks_tls(
    redis_url: str,
    serving: Callable[..., Serving],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And its client goes by the certificates that this machine trusts."""
    served = serving(redis_url, "--certificate", str(CERTIFICATE), "--key", str(KEY))
    url = served.url.replace("127.0.0.1", "localhost")
    assert url.startswith("https://localhost:")
    stranger = HttpStore(url, TOKEN, timeout=5.0)
    with pytest.raises(StoreUnavailable, match="certificate"):
        stranger.check()
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    client = HttpStore(url, TOKEN, timeout=5.0)
    client.check()
    assert "main" in client.exchange(REPORT).databases
    client.close()
    stranger.close()


def refused(*words: str, **conf: object) -> str:
    """Return what the command says that ends at once."""
    app = Celery("proj", set_as_current=False)
    given = {
        "throttle_redis_url": "redis://127.0.0.1:1/0",
        "throttle_service_token": TOKEN,
        **conf,
    }
    app.conf.update({key: value for key, value in given.items() if value is not None})
    context = CLIContext(app=app, no_color=True, workdir=None)
    result = CliRunner().invoke(throttle, ["serve", *words], obj=context)
    assert result.exit_code == 1, result.output
    assert TOKEN not in result.output
    app.close()
    return result.output


def test_a_wrong_start_says_what_to_mend(tmp_path: Path) -> None:
    """In one line, with exit code 1."""
    assert "throttle_service_token is not set" in refused(throttle_service_token=None)
    assert "throttle_redis_url is not set" in refused(throttle_redis_url=None)
    assert "throttle_redis_url must be the URL of a Redis" in refused(
        "--redis-url", "http://x"
    )
    for address in ("192.0.2.1", "::", "example.org"):
        assert "would pass in the clear" in refused("--address", address)
    assert "--key needs --certificate" in refused("--key", str(KEY))
    assert "cannot be used" in refused("--certificate", str(CERTIFICATE))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"127.0.0.1 port {port} cannot be had" in refused("--port", port)


def test_it_takes_its_secrets_for_an_app_with_a_namespace() -> None:
    """As Django apps are configured; seen by how far it gets."""
    settings = ModuleType("settings")
    vars(settings).update(CELERY_THROTTLE_LIMITS={"main": 5}, CELERY_BROKER_URL="")
    app = Celery("proj", set_as_current=False)
    app.config_from_object(settings, namespace="CELERY")
    context = CLIContext(app=app, no_color=True, workdir=None)
    words = ["serve", "--redis-url", "redis://127.0.0.1:1/0", "--token", TOKEN]
    result = CliRunner().invoke(
        throttle, [*words, "--address", "192.0.2.1"], obj=context
    )
    assert "would pass in the clear" in result.output
    app.close()


def test_a_client_without_a_service_has_a_wrong_setting(
    own_redis: Callable[..., EmbeddedRedis],
) -> None:
    """A Redis behind `serve` that is none ends the start too."""
    server = own_redis(fast=True)
    with redis.Redis.from_url(server.url) as client:
        client.config_set("requirepass", "x")
    said = refused(throttle_redis_url=server.url)
    assert "password" in said
    with pytest.raises(Misconfigured, match="throttle_service_url"):
        HttpStore("http://localhost:0x1", TOKEN)

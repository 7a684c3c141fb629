"""``check``: what a worker would say at its start."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.command_line import Line
from tests.integration.throttle.cli.conftest import LIMITS
from tests.integration.throttle.crew import Crew

Headers = dict[str, Any]


def route(task: str, args: list[Any], kwargs: dict[str, Any], headers: Headers) -> Any:
    """Return the database of a tenant."""
    del task, args, headers
    if kwargs.get("fails"):
        message = "no such tenant"
        raise LookupError(message)
    tenant = kwargs.get("tenant")
    return ("main", tenant) if tenant else kwargs.get("database")


ROUTE = f"{__name__}:route"


class Web(socketserver.StreamRequestHandler):
    """Something that is no Redis."""

    def handle(self) -> None:
        """It answers in its own way."""
        self.rfile.readline()
        self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.fixture
def web_server() -> Iterator[str]:
    """Give the address of something that is no Redis."""
    with socketserver.TCPServer(("127.0.0.1", 0), Web) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        server.shutdown()
        thread.join(30.0)


@pytest.fixture
def routed(redis_url: str, make_line: Callable[..., Line]) -> Line:
    """Give the command line of an app with a route and two tasks."""
    line = make_line(
        throttle_redis_url=redis_url, throttle_limits=LIMITS, throttle_route=ROUTE
    )

    @line.app.task(name="proj.report", shared=False)
    def report() -> None:
        """Nobody runs it."""

    @line.app.task(name="proj.import", throttle="quiet", shared=False)
    def import_() -> None:
        """Nobody runs it."""

    return line


def test_all_is_well(line: Line, crew: Crew) -> None:
    """Limits, where it is counted, who is there."""
    told = line("check")
    assert told.exit_code == 0, told.output
    assert "✓ limits: 2 databases, computed by the fast estimator" in told.stdout
    assert "main: 5,000 operations/s, 40 busy connections, safe while" in told.stdout
    assert "answers; 2 workers there now" in told.stdout
    assert "✓ route: none; a task is held if it says so itself" in told.stdout
    verdicts = [one["verdict"] for one in line.json("check")]
    assert verdicts == ["ok"] * 4
    assert crew.workers


@pytest.mark.parametrize(
    ("task", "kwargs", "said"),
    [
        ("proj.report", {"tenant": "acme"}, "goes to 'main', tenant 'acme'"),
        ("proj.report", {"database": "quiet"}, "goes to 'quiet'"),
        (
            "proj.report",
            {},
            "passes: neither its option nor the route names a database",
        ),
        ("proj.import", {"tenant": "acme"}, "goes to 'quiet'"),
    ],
)
def test_it_says_where_a_task_would_go(
    routed: Line, task: str, kwargs: dict[str, Any], said: str
) -> None:
    """By the task's own word, then by the route."""
    told = routed("check", "--task", task, "--kwargs", json.dumps(kwargs))
    assert told.exit_code == 0, told.output
    assert f"task: {task} {said}" in told.stdout


@pytest.mark.parametrize(
    ("task", "kwargs", "said"),
    [
        ("proj.report", {"fails": True}, "the route fails for 'proj.report'"),
        ("proj.report", {"database": "elsewhere"}, "the route fails"),
        ("proj.nothing", {}, "this app has no task 'proj.nothing'"),
    ],
)
def test_a_task_that_has_no_way_is_wrong(
    routed: Line, task: str, kwargs: dict[str, Any], said: str
) -> None:
    """Ends with 1."""
    told = routed("check", "--task", task, "--kwargs", json.dumps(kwargs))
    assert told.exit_code == 1
    assert said in told.stdout


def test_what_is_no_json_is_not_understood(routed: Line) -> None:
    """Ends with 2."""
    for words in (("--kwargs", "{"), ("--kwargs", "[]"), ("--args", "{}")):
        assert routed("check", "--task", "proj.report", *words).exit_code == 2


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of other tests' apps, which Celery shares among all, are not there."""
    monkeypatch.setattr("celery._state._on_app_finalizers", set())


@pytest.mark.usefixtures("alone")
def test_a_tasks_own_option_is_looked_at(routed: Line) -> None:
    """What ends the start of a worker ends with 1 here."""
    assert "✓ tasks: 1 task with an option throttle=…" in routed("check").stdout

    @routed.app.task(name="proj.misspelt", throttle="mian", shared=False)
    def misspelt() -> None:
        """Nobody runs it."""

    told = routed("check")
    assert told.exit_code == 1
    assert (
        "✗ tasks: task 'proj.misspelt' has throttle='mian', which is no" in told.stdout
    )


@pytest.mark.usefixtures("alone")
def test_a_limit_that_holds_nothing_is_told(line: Line) -> None:
    """Neither route nor option: all is well, and nothing will happen."""
    assert "and there is no route: nothing is held" in line("check").stdout


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"throttle_limits": {"main": 0}}, "must be a number above zero, not 0"),
        ({"throttle_limit": {"main": 1}}, "throttle_limit is not a setting"),
        ({"throttle_route": "no.such:thing"}, "no.such:thing"),
        ({"throttle_limits": {}}, "throttle_limits is not set: nothing is held"),
    ],
)
def test_what_is_wrong_is_named(
    redis_url: str, make_line: Callable[..., Line], conf: dict[str, Any], said: str
) -> None:
    """Ends with 1."""
    given = {"throttle_redis_url": redis_url, "throttle_limits": LIMITS, **conf}
    told = make_line(**given)("check")
    assert told.exit_code == 1, told.output
    assert said in told.output


def test_what_is_no_redis_is_wrong(
    web_server: str, make_line: Callable[..., Line]
) -> None:
    """Not away: it will never come."""
    line = make_line(throttle_redis_url=web_server, throttle_limits=LIMITS)
    told = line("check")
    assert told.exit_code == 1, told.output
    assert "✗ counted at: throttle_redis_url" in told.stdout

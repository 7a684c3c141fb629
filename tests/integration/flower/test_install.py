"""Flower with our pages, in the ways in which people start it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from flower.options import options as flower_options
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tornado.web import create_signed_value

from tests.integration.flower.rows import Row, one, write
from tests.integration.flower.site import Site
from tests.proxy import Proxy

NOWHERE = "postgresql://pecker:s3cret@127.0.0.1:1/nowhere"


@pytest.fixture(scope="module", autouse=True)
def rows(shared_dsn: str) -> None:
    """Two entries."""
    write(shared_dsn, [Row(name="tick"), Row(name="tock", missed=1)])


def test_our_command_is_flower_with_our_pages(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """No file is written for it; its options are Flower's."""
    site = start(shared_dsn, command=("pecker", "flower"), prefix="fl")
    assert site.data("/schedules")["total"] == 2
    assert 'href="/fl/schedules"' in site.get("/workers").text


def test_without_authentication_one_may_look_and_not_touch(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """As with Flower's own buttons; the page says what would allow it."""
    site = start(shared_dsn)
    assert "FLOWER_UNAUTHENTICATED_API" in site.get("/schedules").text
    answer = site.post("/schedules/act", act="pause", name="tick")
    assert answer.status_code == 403
    assert "FLOWER_UNAUTHENTICATED_API" in answer.json()["error"]
    assert one(shared_dsn, "select bool_or(paused) from pecker_tasks") == (False,)


def test_data_is_not_for_other_sites(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """Not by CORS, nor under a name that another site gives to this address."""
    everyone = {"FLOWER_UNAUTHENTICATED_API": "true"}
    site = start(shared_dsn, env=everyone, arguments="hosts=['Flower.corp']")
    assert "access-control-allow-origin" in site.get("/healthcheck").headers
    for path in ("/schedules", "/schedules/data"):
        assert "access-control-allow-origin" not in site.get(path).headers
        for host, status in (
            ("rebound.example", 403),
            ("rebound.example:5555", 403),
            ("flower.corp:80", 200),
            ("localhost:5555", 200),
            ("[::1]:5555", 200),
        ):
            answer = site.client.get(f"{site.url}{path}", headers={"Host": host})
            assert answer.status_code == status, host
            assert ('"tick"' in answer.text) == (status == 200)


def test_with_a_password_flower_may_have_any_name(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """A browser has no password for the name that another site gives to it."""
    site = start(shared_dsn, "--basic_auth=ada:lovelace")
    site.client.auth = ("ada", "lovelace")
    answer = site.client.get(f"{site.url}/schedules/data", headers={"Host": "any.corp"})
    assert answer.status_code == 200


TWICE = "from celery_pecker.flower import install\ninstall()\n"
"""As our command does before Flower reads its file."""


@pytest.mark.parametrize(
    ("options", "arguments", "before"),
    [
        (("--read_only=true",), "", ""),
        ((), "read_only=True", ""),
        ((), "read_only=True", TWICE),
    ],
)
def test_read_only_is_read_only(
    shared_dsn: str,
    start: Callable[..., Site],
    options: tuple[str, ...],
    arguments: str,
    before: str,
) -> None:
    """Flower's own switch, and one for our pages alone, whoever installed them."""
    if options and not hasattr(flower_options, "read_only"):
        pytest.skip("this Flower has no --read_only")
    site = start(
        shared_dsn,
        *options,
        arguments=arguments,
        before=before,
        env={"FLOWER_UNAUTHENTICATED_API": "true"},
    )
    count = "select count(*) from pecker_pending"
    asked = one(shared_dsn, count)
    for act in ("pause", "resume", "run"):
        answer = site.post("/schedules/act", act=act, name="tick")
        assert answer.status_code == 403
        assert "read-only" in answer.json()["error"]
    assert one(shared_dsn, count) == asked
    assert one(shared_dsn, "select bool_or(paused) from pecker_tasks") == (False,)


OAUTH = (
    "--auth=.*@example.com",
    "--auth_provider=flower.views.auth.GithubLoginHandler",
    "--oauth2_key=key",
    "--oauth2_secret=secret",
    "--oauth2_redirect_uri=http://127.0.0.1/login",
    "--cookie_secret=of-this-test",
)


def test_with_a_login_one_acts_under_ones_own_name(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """Strangers are sent to the login, and a stranger's action is refused."""
    site = start(shared_dsn, *OAUTH)
    assert site.get("/schedules").status_code == 302
    # A page that is open meanwhile asks on; a login in another tab must not be lost.
    data = site.get("/schedules/data")
    assert data.status_code == 401
    assert "Signed out" in data.json()["error"]
    assert "oauth_state" not in data.headers.get("set-cookie", "")
    site.client.cookies["_xsrf"] = "2|00000000|" + "0" * 32 + "|1700000000"
    assert site.post("/schedules/act", act="pause", name="tick").status_code == 403
    assert one(shared_dsn, "select bool_or(paused) from pecker_tasks") == (False,)
    anna = create_signed_value("of-this-test", "user", "anna@example.com")
    site.client.cookies["user"] = anna.decode()
    assert site.post("/schedules/act", act="run", name="tick").status_code == 200
    asked = "select asked_by from pecker_pending where name = 'tick'"
    assert one(shared_dsn, asked) == ("anna@example.com",)


def test_where_everybody_may_the_token_is_asked_for_all_the_same(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """Else any page that somebody looks at could pause a schedule."""
    site = start(shared_dsn, env={"FLOWER_UNAUTHENTICATED_API": "true"})
    forged = site.post("/schedules/act", token=False, act="pause", name="tock")
    assert forged.status_code == 403
    site.client.headers["Sec-Fetch-Site"] = "cross-site"
    assert site.post("/schedules/act", act="pause", name="tock").status_code == 403
    site.client.headers["Sec-Fetch-Site"] = "same-origin"
    assert one(shared_dsn, "select bool_or(paused) from pecker_tasks") == (False,)
    assert site.post("/schedules/act", act="run", name="tock").status_code == 200
    assert one(
        shared_dsn, "select asked_by from pecker_pending where name = 'tock'"
    ) == ("flower:127.0.0.1",)


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        (NOWHERE, "nowhere at 127.0.0.1"),
        ("", "pecker_dsn"),
        ("not a dsn", "pecker_dsn is not a PostgreSQL connection string"),
    ],
)
def test_a_page_says_why_it_has_nothing_to_show(
    start: Callable[..., Site], dsn: str, said: str
) -> None:
    """In Flower's frame, without secrets; Flower itself goes on."""
    site = start(dsn)
    for path in ("/schedules", "/schedules/entry"):
        answer = site.get(path, name="tick")
        assert answer.status_code == 503
        assert said in answer.text
        assert "s3cret" not in answer.text
        assert "Workers" in answer.text
    data = site.get("/schedules/data")
    assert data.status_code == 503
    assert said in data.json()["error"]
    assert site.get("/workers").status_code == 200


def test_flower_goes_on_while_the_database_hangs_and_comes_back(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """A server that takes the question and never answers; then it answers again."""
    at = conninfo_to_dict(shared_dsn)
    with Proxy(str(at["host"]), int(str(at["port"]))) as proxy:
        site = start(make_conninfo(shared_dsn, host="127.0.0.1", port=proxy.port))
        assert site.data("/schedules")["total"] == 2
        proxy.hang()
        with ThreadPoolExecutor(9) as browsers:
            waiting = [
                browsers.submit(site.get, "/schedules/data", page=str(nth))
                for nth in range(8)
            ]
            assert site.get("/workers").status_code == 200
            scrape = browsers.submit(site.get, "/metrics")
            assert not any(answer.done() for answer in waiting), "its loop was free"
            assert {answer.result().status_code for answer in waiting} == {503}
            assert "celery_pecker_up 0.0" in scrape.result().text
        proxy.open()
        for nth in range(8):  # each thread has a connection again
            assert site.get("/schedules/data", search=f"a{nth}").status_code == 200
        proxy.cut()  # as if the database was restarted: nobody notices
        for nth in range(8):
            assert site.get("/schedules/data", search=f"b{nth}").status_code == 200


FURTHER = """
from pathlib import Path
from celery_pecker.flower import Page, register
from celery_pecker.surfaces.flower.pages import Form
HERE = Path.cwd()
(HERE / "templates").mkdir(); (HERE / "static").mkdir()
(HERE / "static" / "jobs.js").write_text("// jobs")
(HERE / "templates" / "jobs.html").write_text(
    '{% extends "pecker/frame.html" %}{% block page %}<h1>Jobs</h1>'
    "{{ static('jobs.js') }} {{ static('pecker.css') }}{% end %}")
register(Page(
    name="jobs", title="Jobs", url="/jobs", template="jobs.html", folder=HERE,
    read=lambda source, query: {"schema": source.database.schema, **query},
    forms={"stop": Form(
        does=lambda _, name, by, __: {"message": f"{by} stopped {name}"})},
))
"""


def test_a_further_page_only_registers(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """It gets its menu entry, data, actions and files from the frame."""
    site = start(
        shared_dsn,
        prefix="fl",
        before=FURTHER,
        env={"FLOWER_UNAUTHENTICATED_API": "true"},
    )
    page = site.get("/jobs").text
    assert "<h1>Jobs</h1>" in page
    assert 'href="/fl/jobs"' in site.get("/workers").text
    asked = {"schema": "public", "more": "1", "waiting": []}
    assert site.data("/jobs", more="1") == asked
    told = site.post("/jobs/act", act="stop", name="import").json()
    assert told == {"message": "flower:127.0.0.1 stopped import"}
    for file in ("/jobs/static/jobs.js", "/schedules/static/pecker.css"):
        assert f"/fl{file}?v=" in page
        assert site.get(file).status_code == 200
    assert site.data("/schedules")["total"] == 2


def test_it_is_installed_once_however_often_one_asks() -> None:
    """In flowerconfig.py and by the command; and what comes later, is added."""
    script = """
from flower import urls
from celery_pecker.flower import Page, install, register
from celery_pecker.surfaces.flower.pages import registered
before = len(urls.handlers)
install(); once = len(urls.handlers); install()
assert once > before and len(urls.handlers) == once, (before, once)
more = dict(title="More", url="/more", template="more.html", read=lambda *_: {})
register(Page(name="more", **more)); install()
assert len(urls.handlers) == once + (once - before - 1) // (len(registered()) - 1)
assert urls.handlers[-1][0] == ".*"
try:
    register(Page(name="more", **{**more, "url": "/other"}))
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Misconfigured two pages are called 'more'" in done.stdout


def test_without_flower_the_error_names_the_extra() -> None:
    """It is not installed with us, and only these pages need it."""
    script = """
import sys
sys.modules["flower"] = None
from celery_pecker.flower import install
try:
    install()
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("Misconfigured Flower is not installed"), done.stderr
    assert "celery-pecker[flower]" in done.stdout

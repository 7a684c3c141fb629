"""Several outboxes of an app in Django's admin: one at a time, by a choice."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator

import pytest
from celery import Celery
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from celery_pecker.outbox import Outbox
from tests.integration.django.conftest import Site
from tests.integration.django.test_admin import DONE, MESSAGES, column
from tests.proxy import Proxy
from tests.services import PostgresStand


@pytest.fixture(scope="module")
def eu(postgres_server: PostgresStand) -> Iterator[str]:
    """Give the address of a second outbox."""
    with postgres_server.fresh(migrated=True) as address:
        yield address


@pytest.fixture(scope="module")
def proxy(eu: str) -> Iterator[Proxy]:
    """Give the way to the second outbox, which can be closed."""
    at = conninfo_to_dict(eu)
    with Proxy(str(at["host"]), int(str(at["port"]))) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def site(shared_dsn: str, eu: str, proxy: Proxy, start: Callable[..., Site]) -> Site:
    """Give a Django with two outboxes, each with a message of its own."""
    app = Celery("proj", broker="redis://127.0.0.1:1/0", set_as_current=False)
    for name, dsn in (("main", shared_dsn), ("eu", eu)):
        outbox = Outbox(app, dsn=dsn, name=name)
        outbox.send(app.signature(f"proj.in_{name}"))
        outbox.close()
    app.close()
    behind = make_conninfo(eu, host="127.0.0.1", port=proxy.port)
    return start(shared_dsn, PROJECT_EU=behind)


def test_a_list_is_of_the_outbox_that_is_chosen(site: Site) -> None:
    """The first without a choice; the choice stands beside the list."""
    page = site.get(MESSAGES)
    assert column(page, 1) == ["proj.in_main"]
    assert '?outbox=eu"' in page["html"]
    assert column(site.get(MESSAGES, outbox="eu"), 1) == ["proj.in_eu"]
    assert column(site.get(MESSAGES, outbox="eu", state="waiting"), 1) == ["proj.in_eu"]
    assert '"?outbox=eu&amp;task=proj.in_eu"' in site.get(MESSAGES, outbox="eu")["html"]
    assert site.get(DONE, outbox="eu")["status"] == 200


def test_the_page_of_a_message_is_of_the_same_outbox(site: Site) -> None:
    """Its link keeps the choice: both have a message of this number."""
    listing = site.get(MESSAGES, outbox="eu")["html"]
    [link] = re.findall(r'<th class="field-id"><a href="([^"]+)"', listing)
    path, _, query = html.unescape(link).partition("?")
    assert query == "_changelist_filters=outbox%3Deu"
    path = path.removeprefix("/admin/celery_pecker/")
    assert "proj.in_main" in site.get(path)["html"]
    page = site.get(path, _changelist_filters="outbox=eu")["html"]
    assert "proj.in_eu" in page
    assert "proj.in_main" not in page


def test_an_outbox_that_nobody_knows_is_not_found(site: Site) -> None:
    """It is not the first one by chance."""
    assert site.get(MESSAGES, outbox="us")["status"] == 404


def test_an_outbox_that_is_away_holds_up_none_of_the_others(
    site: Site, proxy: Proxy
) -> None:
    """Only the one that was chosen is asked."""
    proxy.refuse()
    try:
        answer = site.get(MESSAGES, outbox="eu")
        assert answer["path"] == "/admin/"
        assert "the database 'eu'" in html.unescape(answer["html"])
        assert column(site.get(MESSAGES), 1) == ["proj.in_main"]
    finally:
        proxy.open()


@pytest.mark.parametrize("wrong", [{}, ["outbox"], {"eu": "nowhere"}])
def test_wrong_outboxes_are_refused_with_what_is_allowed(
    site: Site, wrong: object
) -> None:
    """By `manage.py check`, before anybody opens the page."""
    answer = site.run("check", PECKER_ADMIN_OUTBOXES=wrong)
    assert answer["status"] == 1
    assert "PECKER_ADMIN_OUTBOXES" in answer["out"]
    assert site.command("check") == 0

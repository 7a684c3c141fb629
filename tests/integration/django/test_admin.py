"""The outbox in Django's admin, as Django's own client gets it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from celery import Celery

from celery_pecker.kernel.database import Database
from celery_pecker.outbox import Outbox, operations
from celery_pecker.outbox.operations import Which
from tests.integration.django.conftest import Site

MESSAGES = "outboxmessage/"
DONE = "outboxdone/"
DEFERRED = 1_500
"""More than a list has."""
DANGEROUS = "<script>hacked()</script>"


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Django over an outbox with messages in each state."""
    app = Celery("proj", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.pecker_dsn = shared_dsn
    outbox = Outbox(app)
    for number in range(3):
        outbox.send(app.signature("proj.bill", args=[number, DANGEROUS]))
    outbox.send(app.signature("proj.remind"), countdown=3600, dedupe_key="order 1")
    outbox.send(app.signature(DANGEROUS, args=[1]), serializer="pickle")
    outbox.send(app.signature("proj.tried"), mode="until_done")
    outbox.close()
    database = Database.of(outbox.settings, role="test")
    operations.park(database, Which(tasks=[DANGEROUS]), "no <b>queue</b>")
    database.close()
    app.close()
    with psycopg.connect(shared_dsn, autocommit=True) as connection:
        connection.execute(
            "update pecker_outbox set attempt = 4, running = true,"
            " due_at = now() + interval '1 hour',"
            " held_until = now() + interval '1 hour' where task = 'proj.tried'"
        )
        connection.execute(
            "insert into pecker_outbox_batches (token, ids, holder, epoch, hold,"
            " held_until, created_at) select gen_random_uuid(), array[min(id)],"
            " gen_random_uuid(), 1, '30 s', now() + interval '1 hour', now()"
            " from pecker_outbox"
        )
        connection.execute(
            "insert into pecker_outbox_done (id, task, task_id, attempt, emergency,"
            " created_at, done_at) values (99, 'proj.done', 'id-99', 2, false, now(),"
            " now())"
        )
    return start(shared_dsn)


def listed(answer: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return what the rows of a list show: id, task, state, mode, attempts."""
    assert answer["status"] == 200, answer["html"]
    table = re.search(r'id="result_list".*?</table>', answer["html"], re.DOTALL)
    if table is None:
        return []
    rows = re.findall(r"<tr>(<t[hd].*?)</tr>", table[0], re.DOTALL)
    cell = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)
    return [
        tuple(html.unescape(re.sub(r"<[^>]+>", "", one)) for one in cell.findall(row))
        for row in rows
    ]


def column(answer: dict[str, Any], number: int) -> list[str]:
    """Return one column of a list."""
    return [row[number] for row in listed(answer)]


def test_messages_are_listed_with_their_state_attempts_most_first(site: Site) -> None:
    """What has failed most often is looked at first."""
    answer = site.get(MESSAGES)
    assert column(answer, 1)[0] == "proj.tried"
    states = dict(zip(column(answer, 0), column(answer, 2), strict=True))
    assert [*states.values()] == [
        *("held", "held", "waiting", "waiting", "later", "parked"),
    ]
    assert column(answer, 3)[:2] == ["until_done", "relay"]
    assert column(answer, 4)[:2] == ["4", "0"]
    assert DANGEROUS not in answer["html"]


def test_counts_of_each_task_stand_above(site: Site) -> None:
    """Depth and the time until it is empty first."""
    page = site.get(MESSAGES)["html"]
    [depth] = re.findall(r'<p id="pecker-depth">(.*?)</p>', page, re.DOTALL)
    told = " ".join(re.sub(r"<[^>]+>", "", depth).split())
    assert told.startswith("4 due, the oldest for")
    assert "empty in 240 s at 0.0 a second" in told
    assert "1 later, 1 parked" in told
    [tasks] = re.findall(r'id="pecker-tasks">(.*?)</table>', page, re.DOTALL)
    row = re.search(r">proj\.bill</a></td>(.*?)</tr>", tasks)
    assert row is not None
    assert re.findall(r"<td>(\d+)</td>", row[1]) == ["2", "1", "0", "0", "0"]


def test_what_waits_in_the_broker_is_waiting(site: Site) -> None:
    """Its row is held until it is sent again; that is not for later."""
    change = (
        b"update pecker_outbox set running = %s, pushes = %s, held_at = now()"
        b" where mode = 1"
    )
    with psycopg.connect(site.dsn, autocommit=True) as connection:
        connection.execute(change, [None, 2])
        try:
            answer = site.get(MESSAGES, state="waiting")
        finally:
            connection.execute(change, [True, None])
    assert "proj.tried" in column(answer, 1)


@pytest.mark.parametrize(
    ("query", "tasks"),
    [
        ({"state": "parked"}, [DANGEROUS]),
        ({"state": "later"}, ["proj.remind"]),
        ({"state": "held"}, ["proj.tried", "proj.bill"]),
        ({"state": "waiting"}, ["proj.bill", "proj.bill"]),
        ({"task": "proj.bill"}, ["proj.bill"] * 3),
        ({"task": "nobody's"}, []),
        ({"mode__exact": "1"}, ["proj.tried"]),
        ({"q": "order 1"}, ["proj.remind"]),
        ({"q": "order"}, []),
        ({"q": "\0"}, ["proj.tried", *["proj.bill"] * 3, "proj.remind", DANGEROUS]),
    ],
)
def test_filters_and_search(
    site: Site, query: dict[str, str], tasks: list[str]
) -> None:
    """By state, task and mode; an id or key is looked for as a whole."""
    assert column(site.get(MESSAGES, **query), 1) == tasks


def test_a_message_is_looked_for_by_its_task_id(site: Site) -> None:
    """As a result backend or a log has it."""
    with psycopg.connect(site.dsn) as connection:
        found = connection.execute(
            "select id, task_id from pecker_outbox where task = 'proj.remind'"
        ).fetchone()
    assert found is not None
    answer = site.get(MESSAGES, q=found[1])
    assert column(answer, 0) == [str(found[0])]


def detail(site: Site, task: str) -> str:
    """Return the page of the first message of a task, as text."""
    with psycopg.connect(site.dsn) as connection:
        found = connection.execute(
            "select min(id) from pecker_outbox where task = %s", [task]
        ).fetchone()
    assert found is not None
    answer = site.get(f"{MESSAGES}{found[0]}/change/")
    assert answer["status"] == 200
    assert DANGEROUS not in answer["html"]
    return html.unescape(re.sub(r"<[^>]+>", " ", answer["html"]))


def test_arguments_are_shown_as_text(site: Site) -> None:
    """Whatever stands in them is no markup."""
    assert f'[0, "{DANGEROUS}"]' in detail(site, "proj.bill")


def test_pickle_is_not_decoded(site: Site) -> None:
    """A body may have been written by anybody; what its caller said is shown."""
    page = detail(site, DANGEROUS)
    assert "bytes of application/x-python-serialize, which is not decoded" in page
    assert "(1,)" in page or "[1]" in page
    assert "no <b>queue</b>" in page


def test_what_was_done_is_listed(site: Site) -> None:
    """The newest of it."""
    answer = site.get(DONE)
    assert column(answer, 1) == ["proj.done"]
    assert column(site.get(DONE, q="id-99"), 0) == ["99"]
    assert listed(site.get(DONE, q="id-98")) == []


def test_nothing_can_be_added_changed_or_deleted(site: Site) -> None:
    """Not by a superuser either."""
    with psycopg.connect(site.dsn) as connection:
        before = connection.execute(
            "select * from pecker_outbox order by id"
        ).fetchall()
    one = f"{MESSAGES}{before[0][0]}/"
    assert site.get(f"{MESSAGES}add/")["status"] == 403
    assert site.post(f"{MESSAGES}add/", task="x")["status"] == 403
    assert site.post(f"{one}change/", task="x", _save="Save")["status"] == 403
    assert site.post(f"{one}delete/", post="yes")["status"] == 403
    site.post(
        MESSAGES,
        action="delete_selected",
        _selected_action=str(before[0][0]),
        post="yes",
    )
    with psycopg.connect(site.dsn) as connection:
        after = connection.execute("select * from pecker_outbox order by id").fetchall()
    assert after == before


def test_who_may_look_is_said_by_permissions(site: Site) -> None:
    """Staff with `view_outboxmessage`; others see nothing."""
    assert site.get(MESSAGES, user="reader")["status"] == 200
    assert site.get(DONE, user="reader")["status"] == 403
    assert site.get(MESSAGES, user="nobody")["status"] == 403


def test_manage_py_makes_no_migration_of_our_tables(site: Site) -> None:
    """They are unmanaged: `pecker migrate` makes them."""
    assert site.command("makemigrations", "--check", "--dry-run") == 0
    assert site.command("check") == 0


def test_a_deep_table_is_neither_counted_nor_sorted(site: Site) -> None:
    """A list is a window of the first; no statement walks the whole table."""
    with psycopg.connect(site.dsn, autocommit=True) as connection:
        connection.execute(
            "insert into pecker_outbox (task, task_id, exchange, routing_key,"
            " content_type, content_encoding, headers, properties, body, created_at)"
            " select 'proj.many', i::text, '', 'q', '', '', '{}', '{}', '', now()"
            " from generate_series(1, %s) as i",
            [DEFERRED],
        )
        page = site.get(MESSAGES, task="proj.many", p="10")
        connection.execute("delete from pecker_outbox where task = 'proj.many'")
    assert len(listed(page)) == 100
    assert "Only the first 1000 are listed" in page["html"]


def test_where_no_table_is_the_page_says_what_to_do(
    empty_dsn: str, start: Callable[..., Site]
) -> None:
    """No traceback: which schema, which alias, which command."""
    site = start(empty_dsn)
    answer = site.get(MESSAGES)
    assert answer["path"] == "/admin/"
    page = html.unescape(answer["html"])
    assert "pecker migrate" in page
    assert "schema 'public' of the database 'outbox'" in page


def test_migrate_says_that_it_does_not_know_the_celery_app(site: Site) -> None:
    """The pages only look; who has no app beside them keeps `pecker migrate`."""
    answer = site.run("migrate", "--database", "outbox")
    assert answer["status"] == 0
    assert "left alone: no Celery app is loaded" in answer["out"]

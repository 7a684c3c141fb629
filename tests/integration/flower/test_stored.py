"""Stored schedules on Flower's pages: added, changed, removed, and who may do that."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest
from celery import Celery
from flower.options import options as flower_options
from tornado.web import create_signed_value

from celery_pecker.schedules import Schedules
from celery_pecker.testing import eventually
from tests.integration.flower.outbox_rows import ANYBODY
from tests.integration.flower.rows import Row, one, write
from tests.integration.flower.site import Site
from tests.integration.flower.test_install import OAUTH

ALLOW = """
def bill():
    pass
app.task(name="shop.bill")(bill)
app.conf.pecker_allowed_tasks = ["shop.*"]
app.conf.pecker_database_timeout = 8.0
"""
STRANGE = " <script>alert(1)</script>/../a b&c?d=e#f %2F ü\n'\" "
FORM = {"task": "shop.bill", "kind": "every", "value": "30"}
NUMBERS = itertools.count()
UPDATE = "update pecker_schedules set "
COUNT = "select count(*), max(version), bool_or(removed_at is not null)"
COUNT += " from pecker_schedules"


@pytest.fixture(scope="module")
def site(shared_dsn: str, start: Callable[..., Site]) -> Site:
    """Give a Flower in which anna may edit schedules of tasks of the shop."""
    site = start(shared_dsn, "--basic_auth=anna:secret", more=ALLOW, prefix="fl")
    site.client.auth = ("anna", "secret")
    return site


@pytest.fixture(autouse=True)
def empty(shared_dsn: str) -> None:
    """Leave nothing but an entry of code that a living scheduler declares."""
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(
            "truncate pecker_schedules, pecker_schedule_changes, pecker_declarations,"
            " pecker_replicas, pecker_pending, pecker_tasks"
        )
    write(shared_dsn, [Row(name="code's")])


@pytest.fixture
def schedules(shared_dsn: str) -> Iterator[Schedules]:
    """Give what a program edits the same schedules by."""
    app = Celery("proj", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.pecker_dsn = shared_dsn
    made = Schedules(app)
    yield made
    made.close()


@pytest.fixture
def bills() -> str:
    """Give a name that no test before has asked Flower for: it keeps its answers."""
    return f"bills-{next(NUMBERS)}"


def send(site: Site, act: str, name: str, /, **fields: str) -> httpx.Response:
    """Return the answer to what was typed into the form."""
    return site.post("/schedules/edit/act", act=act, name=name, fields=fields)


def save(
    site: Site, name: str, /, *, new: bool = False, **fields: str
) -> httpx.Response:
    """Return the answer to a form that is saved."""
    typed = {**FORM, "name": name, "version": "0", **fields}
    return send(site, "save", "" if new else name, **typed)


def listed(site: Site, name: str, wanted: Callable[[Any], bool]) -> Any:
    """Return an entry of the list, once it is so: an answer is kept for a second."""

    def row() -> Any:
        rows = {row["name"]: row for row in site.data("/schedules")["rows"]["entries"]}
        return rows.get(name)

    def fit() -> Any:
        found = row()
        return found if found is not None and wanted(found) else None

    return eventually(fit, 30.0, "the list says so")


@pytest.mark.parametrize("name", ["a sale", STRANGE.strip()])
def test_a_schedule_is_added_changed_and_removed(
    site: Site, shared_dsn: str, name: str
) -> None:
    """By the form; the page of the entry says who did what."""
    added = save(site, name, new=True, kwargs='{"dry": true}')
    assert added.status_code == 200, added.text
    assert added.json()["version"] == 1
    row = listed(site, name, bool)
    assert (row["state"], row["stored"]["words"]) == ("new", "every 30 seconds")
    form = site.data("/schedules/edit", name=name)
    assert form["texts"] | FORM | {"name": name} == form["texts"]
    typed = {
        **form["texts"],
        "kind": "cron",
        "value": "0 7 * * *",
        "zone": "Asia/Tokyo",
    }
    changed = send(site, "save", name, **typed)
    assert changed.status_code == 200, changed.text
    row = listed(site, name, lambda row: row["stored"]["version"] == 2)
    assert row["next_us"] // 1_000_000 % 86_400 == 22 * 3600, "07:00 in Tokyo"
    entry = site.data("/schedules/entry", name=name)
    assert entry["stored"]["version"] == 2
    newest, oldest = entry["rows"]["changes"]
    who = ("change.changed_by", "change.change")
    assert [newest[one] for one in who] == ["anna", "changed"]
    assert [oldest[one] for one in who] == ["anna", "created"]
    assert oldest["what"].startswith("task: ")
    assert newest["what"] == (
        'schedule: {"every": 30} → {"cron": "0 7 * * *", "zone": "Asia/Tokyo"}'
    )
    removed = send(site, "remove", name, version="2")
    assert removed.status_code == 200, removed.text
    assert one(shared_dsn, COUNT) == (1, 3, True)
    listed(site, name, lambda row: row["state"] == "removed")
    gone = send(site, "remove", name, version="0")
    assert (gone.status_code, "no stored schedule" in gone.text) == (404, True)


def test_a_form_is_previewed_before_it_is_saved(site: Site, shared_dsn: str) -> None:
    """The sentence and the next five runs, by the app's zone; nothing is written."""
    typed = {"kind": "cron", "value": "30 9 * * mon", "zone": "Europe/Paris"}
    seen = send(site, "preview", "", **typed).json()
    assert "Monday" in seen["words"]
    assert seen["problem"] is None
    first, second, *_, last = seen["runs"]
    assert last - first == 4 * (second - first) == 28 * 86_400_000_000
    wrong = send(site, "preview", "", kind="cron", value="0 4 31 2 *").json()
    assert (wrong["field"], wrong["runs"]) == ("value", [])
    assert "comes at all" in wrong["problem"]
    unready = send(site, "preview", "", kind="every", value="").json()
    assert unready["field"] == "value"
    assert one(shared_dsn, COUNT) == (0, None, None)
    assert "preview" not in site.log


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ("task", {"task": "proj.report"}),
        ("task", {"task": ""}),
        ("name", {"name": "often"}),
        ("name", {"name": "code's"}),
        ("args", {"args": "{}"}),
        ("kwargs", {"kwargs": "{'a': 1}"}),
        ("value", {"value": "0.01"}),
        ("value", {"kind": "cron", "value": "0 4 30 2 *"}),
        ("zone", {"zone": "Europe/Atlantis"}),
        ("end", {"start": "2030-01-02", "end": "2030-01-01"}),
        ("grace", {"grace": "soon"}),
        ("version", {"version": ""}),
        ("version", {"version": "first"}),
    ],
)
def test_what_is_not_allowed_is_refused_at_its_field(
    site: Site, shared_dsn: str, field: str, typed: dict[str, str], bills: str
) -> None:
    """By the validator that all ways of editing share; nothing is written."""
    refused = save(site, bills, new=True, **typed)
    assert refused.status_code == 422, refused.text
    assert refused.json()["field"] == field, refused.text
    assert refused.json()["error"]
    assert one(shared_dsn, COUNT) == (0, None, None)


def test_a_task_that_is_not_allowed_is_not_scheduled(
    site: Site, shared_dsn: str, bills: str
) -> None:
    """Neither anew nor by changing an entry; the form proposes none of them."""
    assert site.data("/schedules/edit")["tasks"] == ["shop.bill"]
    assert save(site, bills, new=True).status_code == 200
    refused = save(site, bills, version="1", task="proj.report")
    assert (refused.status_code, refused.json()["field"]) == (422, "task")
    assert "shop.*" in refused.json()["error"]
    assert one(shared_dsn, "select task, version from pecker_schedules") == (
        "shop.bill",
        1,
    )


def test_of_two_who_edit_at_once_the_second_sees_both_versions(
    site: Site, shared_dsn: str, schedules: Schedules, bills: str
) -> None:
    """Nothing is written until somebody has decided; a removed one is no exception."""
    assert save(site, bills, new=True).status_code == 200
    schedules.set(bills, task="shop.sync", schedule=60, by="bob")
    late = save(site, bills, version="1", value="45")
    assert late.status_code == 409
    reply = late.json()
    assert "bob" in reply["error"]
    stored = reply["conflict"]["stored"]
    assert (stored["version"], stored["changed_by"]) == (2, "bob")
    assert (stored["texts"]["task"], stored["texts"]["value"]) == ("shop.sync", "60")
    assert send(site, "remove", bills, version="1").status_code == 409
    twice = save(site, bills, new=True)
    assert (twice.status_code, twice.json()["conflict"]["stored"]["version"]) == (
        409,
        2,
    )
    assert one(shared_dsn, COUNT) == (1, 2, False)
    decided = save(site, bills, version="2", value="45")
    assert decided.json()["version"] == 3
    schedules.remove(bills)
    gone = save(site, bills, version="3")
    assert (gone.status_code, gone.json()["conflict"]["stored"]) == (409, None)
    assert "removed" in gone.json()["error"]
    assert save(site, bills, version="0").json()["version"] == 5


def test_another_name_in_the_form_renames(
    site: Site, shared_dsn: str, bills: str
) -> None:
    """The schedule that the form is of, if it has that version; no other is made."""
    assert save(site, bills, new=True).status_code == 200
    new = f"{bills}'s"
    for version, status in (("0", 409), ("7", 409)):
        refused = send(site, "save", bills, **{**FORM, "name": new, "version": version})
        assert refused.status_code == status, refused.text
        assert refused.json()["conflict"]["stored"]["version"] == 1
    assert one(shared_dsn, COUNT) == (1, 1, False)
    assert save(site, "taken", new=True).status_code == 200
    taken = send(site, "save", bills, **{**FORM, "name": "taken", "version": "1"})
    assert (taken.status_code, taken.json()["field"]) == (422, "name")
    typed = {**FORM, "name": new, "value": "45", "version": "1"}
    saved = send(site, "save", bills, **typed)
    assert saved.status_code == 200, saved.text
    assert saved.json() == {"message": f"Saved {new}.", "name": new, "version": 3}
    changes = site.data("/schedules/edit", name=new)["rows"]["changes"]
    kinds = [change["change.change"] for change in changes]
    assert kinds == ["changed", "renamed", "created"]
    assert changes[1]["what"] == f'from "{bills}"'
    gone = send(site, "save", bills, **{**FORM, "name": "x", "version": "2"})
    assert gone.status_code == 404, gone.text
    assert f"no stored schedule is named {bills!r}" in gone.json()["error"]


def test_a_rename_waits_for_a_slot_that_is_being_sent(
    site: Site, shared_dsn: str, bills: str
) -> None:
    """The form says so, and nothing is written."""
    assert save(site, bills, new=True).status_code == 200
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(
            "insert into pecker_pending (name, due_at, era, epoch, holder, claimed_at)"
            " values (%s, 'epoch', 0, 7, gen_random_uuid(), clock_timestamp())",
            [bills],
        )
    typed = {**FORM, "name": "other", "version": "1"}
    refused = send(site, "save", bills, **typed)
    assert refused.status_code == 409
    assert "on its way to the broker" in refused.json()["error"]


def test_a_pause_outlives_a_form_that_was_opened_before_it(
    site: Site, schedules: Schedules, bills: str
) -> None:
    """It makes no version: a form that does not name it leaves it as it is."""
    assert save(site, bills, new=True).status_code == 200
    paused = site.post("/schedules/act", act="pause", name=bills)
    assert paused.status_code == 200
    assert save(site, bills, version="1", value="45").status_code == 200
    row = schedules.get(bills)
    assert row is not None
    assert (row.paused, row.version) == (True, 2)
    noted = [(one.change, one.changed_by) for one in schedules.history(bills)]
    assert noted == [("changed", "anna"), ("paused", "anna"), ("created", "anna")]
    assert save(site, bills, version="2", paused="").status_code == 200
    row = schedules.get(bills)
    assert row is not None
    assert not row.paused


def test_an_entry_of_code_is_shown_and_not_edited(site: Site) -> None:
    """Its form says so; who is to be found nowhere has none."""
    form = site.data("/schedules/edit", name="code's")
    assert (form["stored"], form["code"]["task"]) == (None, "proj.tick")
    assert listed(site, "code's", bool)["stored"] is None
    assert site.get("/schedules/edit", name="nobody's").status_code == 404
    assert site.get("/schedules/edit", name="a\0b").status_code == 404
    for act in ("save", "remove"):
        assert send(site, act, "a\0b", name="a\0b", version="0").status_code == 422


def test_a_stored_schedule_that_code_declares_too_is_said_not_to_run(
    site: Site, shared_dsn: str, schedules: Schedules, bills: str
) -> None:
    """The code's entry runs; the list shows the code's schedule, the form the row."""
    schedules.set(bills, task="shop.bill", schedule=30)
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(
            "update pecker_declarations set stored = false, schedule = 'of code',"
            " declared_until = now() + interval '5 minutes' where name = %s",
            [bills],
        )
    row = listed(site, bills, lambda row: row["stored"]["declared_by_code"])
    assert (row["state"], row["schedule"]) == ("new", "of code")
    assert "declared by code" in row["stored"]["problem"]
    refused = save(site, bills, version="1", value="45")
    assert (refused.status_code, refused.json()["field"]) == (422, "name")


@pytest.mark.parametrize(
    "mistake",
    [
        """schedule = '{"moon": "full"}'""",
        "schedule = '7'",
        """policies = '[1]'""",
        """policies = '{"patience": 5}'""",
    ],
)
def test_a_row_that_cannot_be_read_is_shown_and_can_be_mended(
    site: Site, shared_dsn: str, schedules: Schedules, mistake: str, bills: str
) -> None:
    """What somebody wrote by hand stands in the form, with what is wrong about it."""
    schedules.set(bills, task="shop.bill", schedule=30)
    with psycopg.connect(shared_dsn) as connection:
        connection.execute((UPDATE + mistake).encode())
    row = listed(site, bills, lambda row: row["state"] == "unreadable")
    assert "cannot be read" in row["stored"]["problem"]
    assert (
        "cannot be read"
        in site.data("/schedules/entry", name=bills)["stored"]["problem"]
    )
    texts = site.data("/schedules/edit", name=bills)["texts"]
    assert texts["kind"] == "json"
    mended = send(site, "save", bills, **{**texts, "value": '{"every": 60}'})
    assert mended.status_code == 200, mended.text
    assert listed(site, bills, lambda row: row["state"] == "new")


def test_nobody_edits_without_flowers_password(
    site: Site, shared_dsn: str, bills: str
) -> None:
    """The form, its data and its actions are behind Flower's authentication."""
    assert site.get("/schedules").status_code == 200  # so the token is known
    site.client.auth = httpx.Auth()  # none
    try:
        for path in ("/schedules/edit", "/schedules/edit/data"):
            assert site.get(path).status_code == 401, path
        assert save(site, bills, new=True).status_code == 401
        assert send(site, "preview", "", **FORM).status_code == 401
    finally:
        site.client.auth = ("anna", "secret")
    assert one(shared_dsn, COUNT) == (0, None, None)


def test_who_is_signed_out_edits_nothing(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """Where people sign in at a provider; though their page still has its token."""
    site = start(shared_dsn, *OAUTH, more=ALLOW)
    anna = create_signed_value("of-this-test", "user", "anna@example.com")
    site.client.cookies["user"] = anna.decode()
    assert site.get("/schedules/edit").status_code == 200
    assert save(site, "hers", new=True).status_code == 200
    site.client.cookies.delete("user")
    assert site.get("/schedules/edit").status_code == 302
    assert site.get("/schedules/edit/data").status_code == 401
    assert save(site, "other", new=True).status_code == 403
    assert send(site, "remove", "hers", version="1").status_code == 403
    changed_by = one(shared_dsn, "select name, changed_by from pecker_schedules")
    assert changed_by == ("hers", "anna@example.com")
    assert one(shared_dsn, COUNT) == (1, 1, False)


def test_a_forged_form_changes_nothing(
    shared_dsn: str, start: Callable[..., Site]
) -> None:
    """Without the page's token, and from a page of another site.

    Where anybody may edit, Flower itself asks for neither.
    """
    site = start(shared_dsn, more=ALLOW, env=ANYBODY)
    body = {"act": "save", "name": "", "fields": {**FORM, "name": "x", "version": "0"}}
    forged = site.post("/schedules/edit/act", token=False, **body)
    assert forged.status_code == 403
    site.client.headers["Sec-Fetch-Site"] = "cross-site"
    try:
        assert save(site, "other", new=True).status_code == 403
    finally:
        del site.client.headers["Sec-Fetch-Site"]
    assert one(shared_dsn, COUNT) == (0, None, None)
    assert save(site, "other", new=True).status_code == 200


@pytest.mark.parametrize(
    ("options", "arguments"), [(("--read_only=true",), ""), ((), "read_only=True")]
)
def test_a_read_only_flower_edits_nothing(
    shared_dsn: str,
    schedules: Schedules,
    start: Callable[..., Site],
    options: tuple[str, ...],
    arguments: str,
    bills: str,
) -> None:
    """Whoever asks, and whatever is allowed besides."""
    if options and not hasattr(flower_options, "read_only"):
        pytest.skip("this Flower has no --read_only")
    schedules.set(bills, task="shop.bill", schedule=30)
    site = start(shared_dsn, *options, arguments=arguments, more=ALLOW, env=ANYBODY)
    for answer in (
        save(site, "other", new=True),
        save(site, bills, version="1"),
        send(site, "remove", bills, version="1"),
        send(site, "preview", bills, **FORM),
    ):
        assert answer.status_code == 403
        assert "read-only" in answer.json()["error"]
    assert "read-only" in site.get("/schedules/edit", name=bills).text
    assert one(shared_dsn, COUNT) == (1, 1, False)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("", "pecker_allowed_tasks is not set"),
        ("app.conf.pecker_allowed_tasks = []\n", "pecker_allowed_tasks is empty"),
    ],
)
def test_nothing_is_edited_unless_tasks_are_allowed(
    shared_dsn: str,
    schedules: Schedules,
    start: Callable[..., Site],
    more: str,
    why: str,
    bills: str,
) -> None:
    """The pages say why; to pause and to look needs no list. Anybody has an address."""
    schedules.set(bills, task="shop.bill", schedule=30)
    site = start(shared_dsn, more=more, env=ANYBODY)
    for path in ("/schedules", "/schedules/edit"):
        assert why in site.data(path)["why"]
    assert why in site.data("/schedules/entry", name=bills)["why"]
    for answer in (
        save(site, "other", new=True),
        save(site, bills, version="1"),
        send(site, "remove", bills, version="1"),
        send(site, "preview", bills, **FORM),
    ):
        assert answer.status_code == 403
        assert why in answer.json()["error"]
    assert one(shared_dsn, COUNT) == (1, 1, False)
    paused = site.post("/schedules/act", act="pause", name=bills)
    assert paused.status_code == 200
    assert schedules.history(bills)[0].changed_by == "flower:127.0.0.1"


def test_a_form_is_an_object_of_texts_and_no_larger_than_needed(site: Site) -> None:
    """What no page of ours sends is refused before anybody looks at it."""
    strange_fields: tuple[Any, ...] = ([], {"name": 7}, None, "x")
    for fields in strange_fields:
        strange = site.post(
            "/schedules/edit/act", act="preview", name="", fields=fields
        )
        assert strange.status_code == 400, fields
    large = send(site, "preview", "", **{**FORM, "args": " " * 70_000})
    assert large.status_code == 413
    unknown = send(site, "preview", "", **FORM, onload="x")
    assert unknown.json()["problem"] is None, "fields of other versions are left out"


def test_of_100_000_stored_schedules_a_browser_gets_a_page(
    site: Site, shared_dsn: str
) -> None:
    """Searched, sorted and turned by the server."""
    with psycopg.connect(shared_dsn) as connection:
        connection.execute(
            "insert into pecker_tasks (name, executed_at, version)"
            " select 'bill-' || n, now(), 1 from generate_series(1, 100000) as n"
        )
        connection.execute(
            "insert into pecker_declarations"
            " (name, task, schedule, delivery, declared_until, period_us, run, stored)"
            " select 'bill-' || n, 'shop.bill', '{\"every\": 3600}', 'at_most_once',"
            " 'infinity', 3600000000, 'dispatch', true"
            " from generate_series(1, 100000) as n"
        )
        connection.execute(
            "insert into pecker_schedules (name, task, schedule, version, created_at,"
            " changed_at, changed_by) select 'bill-' || n, 'shop.bill',"
            " '{\"every\": 3600}', 1, now(), now(), 'import'"
            " from generate_series(1, 100000) as n"
        )
        connection.execute("analyze")  # as the server does by itself a little later
    eventually(lambda: site.data("/schedules")["total"] == 100_001, 30.0, "all there")
    page = site.data("/schedules", search="bill-77", page="2")
    assert (page["total"], len(page["rows"]["entries"])) == (1111, 50)
    stored = [row["stored"] for row in page["rows"]["entries"]]
    assert {one["changed_by"] for one in stored} == {"import"}
    assert len(site.get("/schedules", order="state").content) < 100_000
    assert site.data("/schedules/edit", name="bill-99999")["stored"]["version"] == 1
